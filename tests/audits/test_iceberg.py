"""Whole audits of Iceberg tables that PyIceberg wrote: what is found, and that healthy tables are quiet."""

import time
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake
from lakeaudit.runtime.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.iceberg import IcebergLake
from tests.conftest import Aws


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> IcebergLake:
    return IcebergLake(aws.s3, s3, bucket)


def found(lake: Lake, run_id: str = "r") -> list[dict[str, Any]]:
    """What an audit of the lake finds; times of storage have whole seconds, so it waits for the next one."""
    time.sleep(1.1)
    audited(lake, run_id=run_id)
    return [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]


def told(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return sorted((row["kind"], row["severity"], row["key"] or row["subject"]) for row in rows)


def test_a_deleted_data_file_is_dropped_with_its_rows_and_partition(
    shop: IcebergLake, tmp_path: Path
) -> None:
    shop.table()
    (lost, *_) = shop.keys()
    shop.drop(lost)
    lake = shop.lake(tmp_path)
    rows = found(lake)
    assert told(rows) == [("dropped", "critical", lost)]
    assert (rows[0]["rows_at_stake"], rows[0]["partition_path"], rows[0]["confirmation"]) == (
        10, "day=2026-11-01", "live",
    )  # fmt: skip


def test_a_healthy_table_is_quiet_and_fully_decided(shop: IcebergLake, tmp_path: Path) -> None:
    shop.table()
    lake = shop.lake(tmp_path)
    assert found(lake) == []
    axes = {row["axis"]: row for row in results_of(lake).coverage("r")}
    assert {axis: axes[axis]["status"] for axis in ("content", "leftover", "duplicate")} == {
        "content": "complete", "leftover": "complete", "duplicate": "complete",
    }  # fmt: skip
    assert axes["content"]["decided_share"] == 1.0
