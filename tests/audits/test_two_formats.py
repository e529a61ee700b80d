"""One table in two formats, as UniForm and XTable leave it: Delta's log and Iceberg's metadata over the same files."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.config import Lake, load_lake
from tests.builders.audits import audited, results_of
from tests.builders.iceberg import NO_WAIT
from tests.builders.iceberg_files import DELETED, Entry, Snapshot, written

QUIET = ("info",)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A Delta table of two commits and a delete, whose states are Iceberg's snapshots as well."""
    home = tmp_path / "wh" / "orders"
    for day in ("2026-11-01", "2026-11-02"):
        rows = pa.table({"id": list(range(10)), "day": [day] * 10})
        write_deltalake(home, rows, mode="append", partition_by=["day"])
    before = entries(home)
    DeltaTable(home).delete("day = '2026-11-01'")
    gone = [
        Entry(each.path, each.size, status=DELETED, day=each.day) for each in before if "11-01" in each.path
    ]
    now = datetime.now(UTC)
    written(
        home,
        {
            1: Snapshot({"m1": before}, at=now),
            2: Snapshot(
                {"m2": entries(home), "m3": gone}, at=now, parent=1, summary={"operation": "overwrite"}
            ),
        },
    )
    time.sleep(1.1)  # times of files have whole seconds
    return home


def entries(home: Path) -> list[Entry]:
    """What the newest state of the Delta table lists, as Iceberg lists it."""
    paths = [Path(uri.removeprefix("file://")) for uri in DeltaTable(home).file_uris()]
    return [
        Entry(
            f"file://{path}", path.stat().st_size, pq.read_metadata(path).num_rows, day=path.parent.name[4:]
        )
        for path in paths
    ]


def lake_of(folder: Path, kind: str) -> Lake:
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: two\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/wh/'}}]\n"
        f"tables: [{{name: orders, location: '{folder}/wh/orders', manifests: [{{kind: {kind}}}]}}]\n"
        f"defaults: {{{NO_WAIT}}}\n"
    )
    return load_lake(path, {})


def found(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    return [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_by_the_format_that_readers_go_by_it_is_quiet_and_a_loss_is_told_once(place: Path, kind: str) -> None:
    """What belongs to the other format is no leftover above info."""
    lake = lake_of(place.parents[1], kind)
    outcome = audited(lake, run_id="r1")
    assert [row for row in found(lake, "r1") if row["severity"] not in QUIET] == []
    assert outcome.exit_code == 0
    shares = [row["decided_share"] for row in results_of(lake).coverage("r1")]
    assert min(share for share in shares if share is not None) >= 0.99
    (lost,) = place.glob("day=2026-11-02/*.parquet")
    lost.unlink()
    audited(lake, run_id="r2")
    told = [(row["kind"], row["key"]) for row in found(lake, "r2") if row["severity"] not in QUIET]
    assert told == [("dropped", str(lost)[1:])]
