"""An object that was written again with its old size: its first and last bytes show whether it is the listed file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    """One table of three hours ago, of which a file was torn and one written again as it was, half an hour ago."""
    made = Shop(aws.s3, s3, bucket)
    made.write("orders", commits=1)
    torn, same, _ = made.keys("orders")
    for key in (torn, same):
        body = aws.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        aws.s3.put_object(Bucket=bucket, Key=key, Body=body[:-4] + b"lost" if key == torn else body)
    for entry in aws.s3.list_objects_v2(Bucket=bucket)["Contents"]:
        ago = timedelta(minutes=30) if entry["Key"] in (torn, same) else timedelta(hours=3)
        backdate(bucket, entry["Key"], datetime.now(UTC) - ago)
    return made


def findings_by_key(lake: Lake) -> dict[str, tuple[Any, ...]]:
    results = results_of(lake)
    rows = [r for b in results.findings(results.published(None)["run_id"]) for r in b.to_pylist()]
    return {row["key"]: (row["kind"], "Parquet file" in row["explanation"]) for row in rows}


def test_a_torn_file_is_recognized_by_its_end_and_equal_ends_prove_nothing(
    shop: Shop, tmp_path: Path
) -> None:
    torn, same, _ = shop.keys("orders")
    by_head = shop.lake(tmp_path, defaults="grace: 0s")
    audited(by_head, live=True)
    assert findings_by_key(by_head) == {torn: ("overwritten", False), same: ("overwritten", False)}
    by_footer = shop.lake(tmp_path, defaults="grace: 0s, confirm: {mode: footer}")
    audited(by_footer, live=True)
    assert findings_by_key(by_footer) == {torn: ("content_mismatch", True), same: ("overwritten", False)}
