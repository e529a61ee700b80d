"""What audits print: causes, times and counts, from whole audits of real tables. No JVM."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeaudit import cli, text_output
from lakeaudit.config import Lake
from lakeaudit.pipeline.run_outcome import Outcome
from lakeaudit.results.page_data import gather
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws
from lakeaudit.runtime.aws import Endpoint

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    made = Shop(aws.s3, s3, bucket)
    made.write("orders")
    return made


def last_line(lake: Lake, outcome: Outcome) -> str:
    """The line that ends `lakeaudit audit`."""
    results = results_of(lake)
    names = [table.name for table in lake.tables]
    return text_output.verdict_line(
        gather(results, results.run(outcome.run_id), "lake.yaml", datetime.now(UTC), 9, names, drawn=False)
    )


def test_a_failed_run_names_its_cause_in_its_last_line(
    shop: Shop, tmp_path: Path, capsys: Captured
) -> None:
    shop.take_inventory()
    lake = shop.lake(tmp_path)
    audited(lake, run_id="r1")
    for entry in shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix="inventories/")["Contents"]:
        if entry["Key"].endswith("manifest.checksum"):
            shop.s3.delete_object(Bucket=shop.bucket, Key=entry["Key"])
    outcome = audited(lake, run_id="r2")
    assert outcome.exit_code == 10
    line = last_line(lake, outcome)
    print(line)
    assert "audit failed: " in line
    assert f"s3://{shop.bucket}/inventories" in line
    assert outcome.summary["error"]
    assert cli.main(["findings", str(tmp_path / "lake.yaml"), "--format", "jsonl"]) == 0
    printed = capsys.readouterr()
    print(printed)
    assert "of run r2 (failed" in printed.err
