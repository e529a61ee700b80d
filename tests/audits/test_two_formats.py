"""One table in two formats, as UniForm and XTable leave it: Delta's log and Iceberg's metadata over the same files."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import load_lake
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.iceberg import NO_WAIT
from tests.builders.iceberg_files import DELETED, Entry, Snapshot, write_metadata

pytestmark = pytest.mark.variant

QUIET = ("info",)


def lay(home: Path) -> None:
    """A Delta table of two commits and a delete, whose states are Iceberg's snapshots as well."""
    for day in ("2026-11-01", "2026-11-02"):
        rows = pa.table({"id": list(range(10)), "day": [day] * 10})
        write_deltalake(home, rows, mode="append", partition_by=["day"])
    before = entries(home)
    DeltaTable(home).delete("day = '2026-11-01'")
    gone = [
        Entry(each.path, each.size, status=DELETED, day=each.day) for each in before if "11-01" in each.path
    ]
    now = datetime.now(UTC)
    write_metadata(
        home,
        {
            1: Snapshot({"m1": before}, at=now),
            2: Snapshot(
                {"m2": entries(home), "m3": gone}, at=now, parent=1, summary={"operation": "overwrite"}
            ),
        },
    )


def entries(home: Path) -> list[Entry]:
    """Return Iceberg entries for the files of the newest Delta state."""
    paths = [Path(uri.removeprefix("file://")) for uri in DeltaTable(home).file_uris()]
    return [
        Entry(
            f"file://{path}", path.stat().st_size, pq.read_metadata(path).num_rows, day=path.parent.name[4:]
        )
        for path in paths
    ]


@dataclass(frozen=True)
class Audited:
    """The results of one audit."""

    lost: dict[str, Path]
    outcome: Outcome
    findings: list[dict[str, Any]]
    coverage: list[dict[str, Any]]

    def loud_findings(self, table: str) -> list[tuple[str, str]]:
        """Return (kind, key) of the findings above info."""
        mine = [row for row in self.findings if row["table_name"] == table]
        return [(row["kind"], row["key"]) for row in mine if row["severity"] not in QUIET]


FORMATS = ("delta", "iceberg")


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Audit a whole table and one that lost a file, by either format."""
    folder, lost, tables = tmp_path_factory.mktemp("two"), {}, []
    for kind in FORMATS:
        for name in (f"{kind}_whole", f"{kind}_broken"):
            home = folder / "wh" / name
            lay(home)
            tables.append(f"{{name: {name}, location: '{home}', manifests: [{{kind: {kind}}}]}}")
        (lost[kind],) = home.glob("day=2026-11-02/*.parquet")
        lost[kind].unlink()
    time.sleep(1.1)  # times of files have whole seconds
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: two\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/wh/'}}]\n"
        f"tables: [{', '.join(tables)}]\ndefaults: {{{NO_WAIT}}}\n"
    )
    lake = load_lake(path, {})
    outcome = audited(lake, run_id="r")
    results = results_of(lake)
    return Audited(lost, outcome, list(rows_of(results.findings("r"))), results.coverage("r"))


@pytest.mark.parametrize("kind", FORMATS)
def test_by_the_readers_format_a_whole_table_has_no_finding_and_a_loss_is_reported_once(
    night: Audited, kind: str
) -> None:
    """Files of the other format are unused files of severity info at most."""
    assert night.loud_findings(f"{kind}_whole") == []
    shares = [r["decided_share"] for r in night.coverage if r["table_name"] == f"{kind}_whole"]
    assert min(share for share in shares if share is not None) >= 0.99
    assert night.loud_findings(f"{kind}_broken") == [("dropped", str(night.lost[kind])[1:])]
    assert night.outcome.status == "complete"
