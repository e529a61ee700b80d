"""Lifecycle rules that will delete or archive live files, as a command prints them and as an audit finds them."""

import io
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakeaudit import cli
from lakeaudit.commands import hazards
from lakeaudit.commands.hazards import Hazards
from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.shop import DAYS, Shop
from tests.conftest import Aws

TAGGED = {
    "ID": "tagged",
    "Status": "Enabled",
    "Filter": {"Tag": {"Key": "k", "Value": "v"}},
    "Expiration": {"Days": 1},
}


def rules(shop: Shop, prefix: str, *more: Any) -> None:
    """A rule that deletes what lies below a prefix after 30 days, and others."""
    old = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": prefix}, "Expiration": {"Days": 30}}
    configuration: Any = {"Rules": [old, *more]}
    shop.s3.put_bucket_lifecycle_configuration(Bucket=shop.bucket, LifecycleConfiguration=configuration)


def covered(lake: Lake, run_id: str) -> tuple[str, int, int, int]:
    """Status, consistent, findings and undecided of the one table's hazards."""
    rows = [row for row in results_of(lake).coverage(run_id) if row["axis"] == "hazard"]
    (row,) = rows
    return row["status"], row["consistent"], row["findings"], row["undecided"]


def test_a_loss_that_could_not_be_checked_is_not_fine() -> None:
    out = io.StringIO()
    assert hazards.write(Hazards((), ("the lifecycle of s3://b cannot be read",)), out) == (
        "UNDECIDED: some upcoming losses could not be checked"
    )
    assert out.getvalue() == "could not be checked: the lifecycle of s3://b cannot be read\n"
    assert hazards.write(Hazards((), ()), out).startswith("OK: ")


def test_rules_that_will_delete_live_files(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=1)
    lake, file = shop.lake(tmp_path), str(tmp_path / "lake.yaml")
    rules(shop, "tmp/")
    assert cli.main(["hazards", file]) == 0
    assert "OK: no lifecycle rule will delete or archive a live file" in capsys.readouterr().err

    rules(shop, f"warehouse/orders/day={DAYS[0]}", TAGGED)
    assert cli.main(["hazards", file]) == 1
    printed = capsys.readouterr()
    (table, hazard, untold) = printed.out.splitlines()
    assert table == "orders"
    assert hazard.startswith(f"  day={DAYS[0]}: lifecycle rule old of s3://{bucket} deletes objects under")
    assert "30 days after they were written: 1 live file, the first on or after 2" in hazard
    assert untold.startswith(f"could not be checked: rule tagged of s3://{bucket} selects objects by tags")

    first = audited(lake, live=True)
    assert first.summary["findings"] == {"will_expire": 1}
    assert [warning for warning in first.warnings if "selects objects by tags" in warning]
    (row,) = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
    assert (row["state"], row["axis"], row["partition_path"], row["files"]) == (
        "open",
        "hazard",
        f"day={DAYS[0]}",
        1,
    )

    rules(shop, "tmp/")
    assert covered(lake, first.run_id) == ("complete", 0, 1, 2)
    assert first.exit_code == 0

    later = audited(lake, live=True)
    assert (later.summary["findings"], later.summary["states"]) == ({}, {"resolved": 1})

    rules(shop, "warehouse/orders/_delta_log/")
    audited(lake, run_id="log", live=True)
    (row,) = [row for batch in results_of(lake).findings("log") for row in batch.to_pylist()]
    assert (row["kind"], row["severity"], row["subject_type"], row["category"]) == (
        "will_expire", "error", "table", "log",
    )  # fmt: skip
    assert row["files"] == 1
    assert "1 file of the log that the newest version of the table needs" in row["explanation"]
    assert covered(lake, "log") == ("complete", 3, 1, 0)

    shop.write("orders", commits=2)
    DeltaTable(f"s3://{bucket}/warehouse/orders", storage_options=shop.options).create_checkpoint()
    rules(shop, "warehouse/orders/_delta_log/0000000000000000000")  # older commits may expire
    audited(lake, run_id="old", live=True)
    found = [row for batch in results_of(lake).findings("old") for row in batch.to_pylist()]
    assert [row["files"] for row in found] == [1], "the checkpoint alone is needed"
    rules(shop, "warehouse/orders/_delta_log/00000000000000000000")
    quiet = audited(lake, run_id="quiet", live=True)
    assert quiet.summary["findings"] == {}
