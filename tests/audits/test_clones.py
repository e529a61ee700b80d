"""Whole audits of tables and their shallow clones, on local places."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.pipeline.run_outcome import Outcome
from lakeaudit.row_formats import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import BORN, Action, Log, add, features, remove

AGES_AGO = datetime.now(UTC) - timedelta(days=30)
LONG_AGO = datetime.now(UTC) - timedelta(days=1)


def lake_of(folder: Path, *names: str) -> Lake:
    tables = "\n".join(
        f"  - {{name: {name}, location: {folder / name}, manifests: [{{kind: delta}}]}}" for name in names
    )
    listings = "\n".join(f"  - {{kind: listing, location: {folder / name}}}" for name in names)
    (folder / "lake.yaml").write_text(
        f"version: 1\nlake: shop\nresults: {folder / 'results'}\ninventories:\n{listings}\n"
        f"tables:\n{tables}\ndefaults: {{grace: 0s}}\n"
    )
    return load_lake(folder / "lake.yaml", {})


def write(table: Path, *commits: list[Action]) -> None:
    """Commits of a table, and the files that it adds below its own root."""
    log = Log(table)
    for version, actions in enumerate(commits):
        log.commit(version, *(BORN if version == 0 else ()), *actions, when=LONG_AGO)
    for actions in commits:
        for name in (action["add"]["path"] for action in actions if "add" in action):
            if not name.startswith("/"):
                (table / name).write_bytes(b"x" * 100)


@dataclass(frozen=True)
class Cloned:
    """Three audits of two tables and their clones: `copy` of `orders`, and `refused` of `visits`."""

    folder: Path
    lake: Lake
    outcomes: dict[str, Outcome]
    """By run, as it ended."""
    ledger: list[dict[str, Any]]

    def found(self, run_id: str, axis: str) -> list[dict[str, Any]]:
        rows = rows_of(results_of(self.lake).findings(run_id))
        return [row for row in rows if row["axis"] == axis]


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Cloned:
    folder = tmp_path_factory.mktemp("clones")
    orders, copy, visits, refused = (folder / name for name in ("orders", "copy", "visits", "refused"))
    write(orders, [add("a.parquet"), add("b.parquet")])
    write(copy, [add(f"{orders}/a.parquet"), add(f"{orders}/b.parquet"), add("own.parquet")])
    removed_ages_ago(visits)
    lake = lake_of(folder, "orders", "copy", "visits", "refused")
    outcomes = {"first": audited(lake, run_id="first")}
    Log(orders).commit(1, remove("a.parquet", removed=LONG_AGO), when=LONG_AGO)
    write(refused, [add(f"{visits}/day=2/b.parquet")], [features("unheardOf")])
    outcomes["second"] = audited(lake, run_id="second")
    Log(copy).commit(1, remove(f"{orders}/a.parquet", removed=LONG_AGO), when=LONG_AGO)
    outcomes["third"] = audited(lake, run_id="third")
    return Cloned(folder, lake, outcomes, list(rows_of(results_of(lake).discrepancies())))


def removed_ages_ago(table: Path) -> None:
    """A table of two files, of which it gave up one so long ago that no reader asks for it."""
    names = ["day=1/a.parquet", "day=2/b.parquet"]
    for day in ("day=1", "day=2"):
        (table / day).mkdir(parents=True)
    write(table, [add(name) for name in names], [remove(names[0], removed=AGES_AGO)])
    for name in names:
        os.utime(table / name, (AGES_AGO.timestamp(), AGES_AGO.timestamp()))


def test_a_clone_is_at_risk_once_its_source_has_removed_a_file(cloned: Cloned) -> None:
    """Until the clone has given the file up, too."""
    columns = ("kind", "table_name", "subject", "files")
    told = {
        run: [tuple(row[c] for c in columns) for row in cloned.found(run, "hazard")]
        for run in cloned.outcomes
    }
    assert told == {
        "first": [], "second": [("clone_at_risk", "copy", "orders#clone_at_risk", 1)], "third": [],
    }  # fmt: skip
    assert {(row["kind"], row["state"]) for row in cloned.ledger if row["axis"] == "hazard"} == {
        ("clone_at_risk", "resolved")
    }


def test_a_clone_that_cannot_be_read_keeps_its_sources_files_from_being_leftovers(cloned: Cloned) -> None:
    """Whoever deletes what the source removed may break the clone, which may have added it again."""
    told = {
        run: [(r["kind"], r["table_name"], r["subject"]) for r in cloned.found(run, "leftover")]
        for run in ("first", "second")
    }
    day = cloned.folder / "visits/day=1"
    assert told == {"first": [("unvacuumed", "visits", f"{day}/#unvacuumed")], "second": []}
    assert cloned.outcomes["second"].exit_code == 3
    rows = results_of(cloned.lake).coverage("second", ["visits"])
    (row,) = (row for row in rows if row["axis"] == "leftover")
    assert (row["findings"], row["undecided"]) == (0, 1)


@pytest.fixture(scope="module")
def missing(tmp_path_factory: pytest.TempPathFactory) -> Cloned:
    """Tables with a stray each; `copy` lists one file of `host` alone, loses its log, and gets it back."""
    folder = tmp_path_factory.mktemp("missing")
    host, copy, apart = (folder / name for name in ("host", "copy", "apart"))
    for table in (host, apart):
        write(table, [add("a.parquet")])
        (table / "stray.parquet").write_bytes(b"x" * 100)
    (host / "of_copy.parquet").write_bytes(b"x" * 100)
    write(copy, [add(f"{host}/of_copy.parquet"), add("own.parquet")])
    long_ago(folder)
    lake = lake_of(folder, "host", "copy", "apart")
    outcomes = {"whole": audited(lake, run_id="whole")}
    (copy / "_delta_log").rename(folder / "hidden")
    outcomes["lost"] = audited(lake, run_id="lost")
    outcomes["again"] = audited(lake, run_id="again")
    (folder / "hidden").rename(copy / "_delta_log")
    outcomes["back"] = audited(lake, run_id="back")
    return Cloned(folder, lake, outcomes, list(rows_of(results_of(lake).discrepancies())))


def long_ago(folder: Path) -> None:
    for path in folder.rglob("*.parquet"):
        os.utime(path, (AGES_AGO.timestamp(), AGES_AGO.timestamp()))


@pytest.mark.parametrize("run", ["lost", "again"])
def test_files_of_a_missing_table_in_another_tables_folder_are_not_unused(missing: Cloned, run: str) -> None:
    (found,) = missing.found("whole", "hazard")
    assert (found["kind"], found["table_name"], found["subject"]) == (
        "clone_at_risk",
        "copy",
        "host#clone_at_risk",
    )
    results = results_of(missing.lake)
    (host,) = (row for row in results.coverage(run, ["host"]) if row["axis"] == "leftover")
    assert (host["status"], host["reason"].partition(":")[0]) == (
        "partial",
        "files of copy lie here, and it is not read whole",
    )
    assert {(row["table_name"], row["files"]) for row in missing.found(run, "leftover")} == {("apart", 1)}
    assert any(row["kind"] == "table_missing" for row in rows_of(results.findings(run)))


@pytest.mark.parametrize("run", ["whole", "back"])
def test_while_the_other_table_is_read_its_files_are_its_own_and_strays_are_unused(
    missing: Cloned, run: str
) -> None:
    unused = {(row["table_name"], row["files"]) for row in missing.found(run, "leftover")}
    assert unused == {("host", 1), ("apart", 1)}
