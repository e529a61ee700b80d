"""Days of one lake: what is new, what stays open, what is mended, and what an older picture may not say."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.aws import Endpoint
from lakeaudit.commands import discrepancies as command
from lakeaudit.commands.audit import fails
from lakeaudit.config import Lake
from lakeaudit.outcome import Outcome
from lakeaudit.results.amend import Ack
from lakeaudit.rows import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws

WAITS = "grace: 0s, leftover_age: 0s, max_upload: 0s"


def ledger(lake: Lake) -> dict[str, tuple[str, str, str | None]]:
    """(kind, state, resolution) by key."""
    rows = rows_of(results_of(lake).discrepancies())
    return {row["key"]: (row["kind"], row["state"], row["resolution"]) for row in rows}


def told(lake: Lake, key: str) -> list[str]:
    """The transitions of a key, oldest first."""
    (row,) = [row for row in rows_of(results_of(lake).discrepancies()) if row["key"] == key]
    return [told["transition"] for told in results_of(lake).history([row["discrepancy_id"]])]


@pytest.fixture
def run(spark: SparkSession) -> Callable[..., Outcome]:
    return partial(audited, spark)


@pytest.mark.timeout(600)
def test_days_of_one_lake(
    run: Callable[..., Outcome], aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    lake = shop.lake(tmp_path, defaults=WAITS)
    lost, torn, later = shop.keys("orders")[:3]

    # the first night: one file is gone, another torn
    marker = aws.s3.delete_object(Bucket=bucket, Key=lost)["VersionId"]
    aws.s3.put_object(Bucket=bucket, Key=torn, Body=b"torn")
    shop.take_inventory()
    first = run(lake)
    assert ledger(lake) == {lost: ("dropped", "open", None), torn: ("size_mismatch", "open", None)}
    assert first.summary["states"] == {"open": 2}
    assert fails(first.pressing, "critical")

    # by day: the torn one is accepted, the other put back
    now = datetime.now(UTC)
    (of_torn,) = [r for r in rows_of(results_of(lake).discrepancies()) if r["key"] == torn]
    ack = Ack("ann", "rebuilt on Monday", now + timedelta(days=3))
    command.acknowledge(lake, results_of(lake), [of_torn["discrepancy_id"][:8]], ack, now)
    aws.s3.delete_object(Bucket=bucket, Key=lost, VersionId=marker)

    # the second night, by the old inventory: the live look sees what was mended
    second = run(lake)
    assert ledger(lake) == {lost: ("dropped", "resolved", "restored"), torn: ("size_mismatch", "open", None)}
    assert (second.summary["severities"], dict(second.pressing)) == ({"critical": 1}, {})
    assert told(lake, torn) == ["opened", "acknowledged"]

    # noon: a live audit finds a loss
    aws.s3.delete_object(Bucket=bucket, Key=later)
    run(lake, tables=("orders",), live=True)
    assert ledger(lake)[later] == ("dropped", "open", None)

    # the third night: the inventory is from before the loss, and nobody looks at storage itself
    blind = shop.lake(tmp_path, defaults=f"{WAITS}, confirm: {{mode: none}}")
    third = run(blind)
    assert later not in {row["key"] for row in rows_of(results_of(lake).findings(third.run_id))}
    assert ledger(lake)[later] == ("dropped", "open", None)

    # asked for the past: what newer runs settled stays as it is
    past = run(lake, as_of=now - timedelta(seconds=1))
    assert past.exit_code == 13
    assert {axes["content"]["status"] for axes in past.summary["coverage"].values()} == {"overtaken"}
    assert (told(lake, lost), told(lake, later)) == (["opened", "resolved"], ["opened"])
