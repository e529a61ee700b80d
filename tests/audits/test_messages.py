"""Printed texts of whole audits of real tables: causes, times and counts. No JVM."""

import io
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lakeaudit import cli
from lakeaudit.audit.outcome import Outcome
from lakeaudit.commands.findings import RowPrinter
from lakeaudit.config import Lake
from lakeaudit.explain import text_output
from lakeaudit.formatting import visible
from lakeaudit.report.gather import gather
from lakeaudit.results.summaries.change_summary import changes_of
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.progress import JsonProgress
from tests.builders.audits import audited, results_of
from tests.builders.shop import DAYS, Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

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


def test_a_failed_run_names_its_cause_in_its_last_line(shop: Shop, tmp_path: Path, capsys: Captured) -> None:
    shop.take_inventory()
    lake = shop.lake(tmp_path)
    audited(lake, run_id="r1")
    for entry in shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix="inventories/")["Contents"]:
        if entry["Key"].endswith("manifest.checksum"):
            shop.s3.delete_object(Bucket=shop.bucket, Key=entry["Key"])
    outcome = audited(lake, run_id="r2")
    assert outcome.exit_code == 10
    line = last_line(lake, outcome)
    assert "audit failed: " in line
    assert f"s3://{shop.bucket}/inventories" in line
    assert outcome.summary["error"]
    assert cli.main(["findings", str(tmp_path / "lake.yaml"), "--format", "jsonl"]) == 0
    printed = capsys.readouterr()
    assert "of run r2 (failed" in printed.err
    assert f"the run r2 failed: {visible(outcome.summary['error'])}" in printed.err


def test_a_partition_that_is_gone_as_a_whole_is_named_and_dated_by_its_delete_markers(
    shop: Shop, tmp_path: Path
) -> None:
    """A message about a partition that lost one of two files names only that file."""
    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration={"Status": "Enabled"})
    shop.write("orders")  # these files have versions with ids
    whole = shop.keys(f"orders/day={DAYS[0]}")
    gone = [*whole, shop.keys(f"orders/day={DAYS[1]}")[0]]
    lake = shop.lake(tmp_path)
    for key in gone:
        shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    markers: Any = shop.s3.list_object_versions(Bucket=shop.bucket)["DeleteMarkers"]
    written = {marker["Key"]: marker["LastModified"] for marker in markers}
    time.sleep(2)
    outcome = audited(lake, live=True)
    results = results_of(lake)
    rows = {row["key"]: row for row in results.worst(outcome.run_id, 99) if row["kind"] == "dropped"}
    assert set(rows) == set(gone)
    for key, row in rows.items():
        sentence = f"the whole partition is missing: day={DAYS[0]}, files: {len(whole)}; "
        assert row["explanation"].startswith(sentence) is (key in whole)
        assert row["cause_at"] == written[key]
        assert "hidden by a delete marker since" in row["explanation"]
        assert "stored object written at" not in row["explanation"]
    (change,) = [each for each in changes_of(results, outcome.run_id) if each.kind == "dropped"]
    assert change.since == min(written.values())
    assert change.whole == (f"day={DAYS[0]}",)
    shown = io.StringIO()
    RowPrinter("lake.yaml", results, {})(Console(file=shown, width=200), rows[whole[0]])
    assert f"the whole partition is missing: day={DAYS[0]}, files: {len(whole)}" in shown.getvalue()


def test_the_stage_that_reads_and_matches_files_reports_its_completed_part(
    shop: Shop, tmp_path: Path
) -> None:
    """The other stages of an audit count no work, and their lines have no total."""
    shop.take_inventory(files=3)
    stream = io.StringIO()
    outcome = audited(shop.lake(tmp_path), progress=JsonProgress(stream, every=0.002))
    assert outcome.exit_code == 0
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    counted = [line for line in lines if "total" in line]
    assert {line["stage"] for line in counted} == {"match and classify"}
    assert {line["unit"] for line in counted} == {"parts"}
    assert all(line["running"] and 0 <= line["done"] <= line["total"] for line in counted)
    assert [line["done"] for line in counted] == sorted(line["done"] for line in counted)
    assert counted[-1]["done"] == counted[-1]["total"] >= 3, "each file of the report is a part"
