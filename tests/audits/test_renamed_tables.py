"""Whole audits of a lake whose tables get other names in the lake file, with what people have accepted of them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.results.acknowledgements import Ack, put_ack_on_all
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import Log, add, info, metadata, protocol
from tests.builders.hudi import unpacked

pytestmark = pytest.mark.variant

LONG_AGO = datetime.now(UTC) - timedelta(days=1)

NAMES = {"orders": "sales", "visits": "visits", "moved": "copied", "hudi": "huddle"}
"""Old names, and those of the second audit: `moved` lies elsewhere under its new one, with the same table id."""


def delta(folder: Path, name: str) -> None:
    """A table of two files, of which one is lost, and a file that no commit lists."""
    table = metadata()
    table["metaData"]["id"] = f"id-of-{name}"
    files = ("here.parquet", "lost.parquet")
    Log(folder).commit(0, protocol(), table, *map(add, files), info(), when=LONG_AGO)
    for file, since in {"here.parquet": -60, "never.parquet": 60}.items():
        (folder / file).write_bytes(b"x" * 100)
        os.utime(folder / file, (LONG_AGO.timestamp() + since,) * 2)


def lake_of(folder: Path, tables: Mapping[str, str]) -> Lake:
    """Tables by name, with their folders."""
    kinds = {place: "hudi" if place == "hudi" else "delta" for place in tables.values()}
    listed = "\n".join(
        f"  - {{name: {name}, location: {folder / place}, manifests: [{{kind: {kinds[place]}}}]}}"
        for name, place in tables.items()
    )
    (folder / "lake.yaml").write_text(
        f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: {folder}/}}]\ntables:\n{listed}\n"
        "defaults: {grace: 0s, leftover_age: 0s, max_upload: 0s}\n"
    )
    return load_lake(folder / "lake.yaml", {})


@dataclass(frozen=True)
class Renamed:
    lake: Lake
    outcomes: list[Outcome]

    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in results_of(self.lake).discrepancies() for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def rename_audits(tmp_path_factory: pytest.TempPathFactory) -> Renamed:
    folder = tmp_path_factory.mktemp("rename_audits")
    for name in ("orders", "visits", "moved"):
        (folder / name).mkdir()
        delta(folder / name, name)
    hudi = unpacked(folder, 1, ["written"]) / "written"
    hudi.rename(folder / "hudi")
    next((folder / "hudi").rglob("*.parquet")).unlink()
    lake = lake_of(folder, {name: name for name in NAMES})
    outcomes = [audited(lake)]
    put_ack_on_all(results_of(lake), Ack("ann", "known", datetime.now(UTC) + timedelta(days=9)))
    (folder / "moved").rename(folder / "copied")
    lake = lake_of(folder, {new: new if new == "copied" else old for old, new in NAMES.items()})
    outcomes.append(audited(lake))
    return Renamed(lake, outcomes)


def open_acks(rename_audits: Renamed, table: str) -> dict[str, str | None]:
    """Return who accepts a table's open discrepancies, by kind."""
    return {
        row["kind"]: row["ack_by"]
        for row in rename_audits.rows()
        if row["table_name"] == table and row["state"] == "open"
    }


def test_what_was_accepted_stays_accepted_under_another_name(rename_audits: Renamed) -> None:
    of_sales = {"dropped": "ann", "uncommitted": "ann"}
    assert open_acks(rename_audits, "sales") == open_acks(rename_audits, "visits") == of_sales
    assert open_acks(rename_audits, "orders") == {}
    (subject,) = (
        row["subject"]
        for row in rename_audits.rows()
        if row["table_name"] == "sales" and row["axis"] == "leftover"
    )
    assert subject == "sales#uncommitted"


def test_findings_of_a_table_that_moved_have_to_be_accepted_again(rename_audits: Renamed) -> None:
    assert open_acks(rename_audits, "copied") == {"dropped": None, "uncommitted": None}
    assert rename_audits.outcomes[1].pressing == {"critical": 1, "warning": 1}


def test_a_hudi_table_is_known_by_its_name_and_its_first_instant(rename_audits: Renamed) -> None:
    assert open_acks(rename_audits, "huddle") == {"dropped_history": "ann"}
    assert rename_audits.outcomes[1].warnings == ()
