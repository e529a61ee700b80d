"""Whole audits of tables and their shallow clones, on local places."""

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import BORN, Action, Log, add, features, metadata, protocol, remove
from tests.builders.iceberg_files import Entry, Snapshot, write_metadata
from tests.builders.rest_catalog import served
from tests.builders.unity_catalog import UnityCatalog

AGES_AGO = datetime.now(UTC) - timedelta(days=30)
LONG_AGO = datetime.now(UTC) - timedelta(days=1)


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
    """Three audits of one lake; what happens to its tables between them is written in a generator each."""

    folder: Path
    lake: Lake
    outcomes: dict[str, Outcome]
    """The outcome of each run, by its name."""
    ledger: list[dict[str, Any]]

    def rows(self, run_id: str, axis: str, tables: Collection[str]) -> list[dict[str, Any]]:
        rows = rows_of(results_of(self.lake).findings(run_id))
        return [row for row in rows if row["axis"] == axis and row["table_name"] in tables]


RUNS = ("first", "second", "third")
SOURCES = ("orders", "copy", "visits", "refused")


def removed_by_its_source(folder: Path) -> Iterator[None]:
    """Two tables and their clones: `copy` of `orders`, and `refused` of `visits`."""
    orders, copy, visits, refused = (folder / name for name in SOURCES)
    write(orders, [add("a.parquet"), add("b.parquet")])
    write(copy, [add(f"{orders}/a.parquet"), add(f"{orders}/b.parquet"), add("own.parquet")])
    removed_ages_ago(visits)
    yield
    Log(orders).commit(1, remove("a.parquet", removed=LONG_AGO), when=LONG_AGO)
    write(refused, [add(f"{visits}/day=2/b.parquet")], [features("unheardOf")])
    yield
    Log(copy).commit(1, remove(f"{orders}/a.parquet", removed=LONG_AGO), when=LONG_AGO)
    yield


def removed_ages_ago(table: Path) -> None:
    """Write a table of two files; it removed one so long ago that no reader needs it."""
    names = ["day=1/a.parquet", "day=2/b.parquet"]
    for day in ("day=1", "day=2"):
        (table / day).mkdir(parents=True)
    write(table, [add(name) for name in names], [remove(names[0], removed=AGES_AGO)])
    for name in names:
        os.utime(table / name, (AGES_AGO.timestamp(), AGES_AGO.timestamp()))


def test_a_clone_is_at_risk_once_its_source_has_removed_a_file(cloned: Cloned) -> None:
    """It stays at risk until the clone has removed the file, too."""
    columns = ("kind", "table_name", "subject", "files")
    by_run = {
        run: [tuple(row[c] for c in columns) for row in cloned.rows(run, "hazard", SOURCES)] for run in RUNS
    }
    assert by_run == {
        "first": [], "second": [("clone_at_risk", "copy", "orders#clone_at_risk", 1)], "third": [],
    }  # fmt: skip
    hazards = [row for row in cloned.ledger if row["axis"] == "hazard" and row["table_name"] in SOURCES]
    assert {(row["kind"], row["state"]) for row in hazards} == {("clone_at_risk", "resolved")}


def test_files_are_not_unused_while_a_clone_of_their_table_cannot_be_read(cloned: Cloned) -> None:
    """Deleting files that the source removed may break the clone, which may have added them again."""
    by_run = {
        run: [(r["kind"], r["table_name"], r["subject"]) for r in cloned.rows(run, "leftover", SOURCES)]
        for run in ("first", "second")
    }
    day = cloned.folder / "visits/day=1"
    assert by_run == {"first": [("unvacuumed", "visits", f"{day}/#unvacuumed")], "second": []}
    assert cloned.outcomes["second"].exit_code == 3
    rows = results_of(cloned.lake).coverage("second", ["visits"])
    (row,) = (row for row in rows if row["axis"] == "leftover")
    assert (row["findings"], row["undecided"]) == (0, 1)


GUESTS = ("host", "lost_copy", "apart")
BACK = ("host_of_back", "copy_of_back", "apart_of_back")
"""Tables as `GUESTS`, but that the log is back before the third audit."""


def loses_its_log(folder: Path, names: Sequence[str], *, back: bool) -> Iterator[None]:
    """Tables with a stray each; the second lists one file of the first alone, and loses its log."""
    host, copy, apart = (folder / name for name in names)
    hidden = folder.parent / f"log of {copy.name}"
    for table in (host, apart):
        write(table, [add("a.parquet")])
        (table / "stray.parquet").write_bytes(b"x" * 100)
    (host / "of_copy.parquet").write_bytes(b"x" * 100)
    write(copy, [add(f"{host}/of_copy.parquet"), add("own.parquet")])
    for table in (host, copy, apart):
        long_ago(table)
    yield
    (copy / "_delta_log").rename(hidden)
    yield
    if back:
        hidden.rename(copy / "_delta_log")
    yield


def long_ago(folder: Path) -> None:
    for path in folder.rglob("*.parquet"):
        os.utime(path, (AGES_AGO.timestamp(), AGES_AGO.timestamp()))


@pytest.mark.parametrize("run", ["second", "third"])
def test_files_of_a_missing_table_in_another_tables_folder_are_not_unused(cloned: Cloned, run: str) -> None:
    (found,) = cloned.rows("first", "hazard", GUESTS)
    assert (found["kind"], found["table_name"], found["subject"]) == (
        "clone_at_risk",
        "lost_copy",
        "host#clone_at_risk",
    )
    results = results_of(cloned.lake)
    (host,) = (row for row in results.coverage(run, ["host"]) if row["axis"] == "leftover")
    assert (host["status"], host["reason"].partition(":")[0]) == (
        "partial",
        "files of lost_copy are here, and not all files of lost_copy are known",
    )
    unused = {(row["table_name"], row["files"]) for row in cloned.rows(run, "leftover", GUESTS)}
    assert unused == {("apart", 1)}
    missing = [row for row in rows_of(results.findings(run)) if row["kind"] == "table_missing"]
    assert "lost_copy" in {row["table_name"] for row in missing}


@pytest.mark.parametrize(("run", "tables"), [("first", GUESTS), ("third", BACK)], ids=["before", "since"])
def test_while_the_other_table_is_read_its_files_are_its_own_and_strays_are_unused(
    cloned: Cloned, run: str, tables: tuple[str, str, str]
) -> None:
    host, copy, apart = tables
    missing = [
        row for row in rows_of(results_of(cloned.lake).findings("second")) if row["kind"] == "table_missing"
    ]
    assert copy in {row["table_name"] for row in missing}
    unused = {(row["table_name"], row["files"]) for row in cloned.rows(run, "leftover", tables)}
    assert unused == {(host, 1), (apart, 1)}


NEW_HOSTS = ("left", "passed", "ignored", "moved", "nested", "kept", "bare", "dropped", "twin")
"""Tables that have a guest each: a table with files in their folders, which has left the lake file in the second audit,
but that of `passed`. A stray lies in all of them but `bare`."""


def new_table(folder: Path, name: str, *files: str) -> Path:
    """A table with an id of its own, and its own files."""
    table = folder / name
    table.mkdir(parents=True, exist_ok=True)
    table_metadata = metadata()
    table_metadata["metaData"]["id"] = f"id-of-{name}"
    Log(table).commit(0, protocol(), table_metadata, *map(add, files), when=LONG_AGO)
    for each in files:
        (folder / each if each.startswith("/") else table / each).write_bytes(b"x" * 100)
    return table


def iceberg_twin(host: Path) -> Path:
    """An Iceberg table at the location of a Delta table, with a file that this one does not list."""
    (host / "of_guest.parquet").write_bytes(b"x" * 100)
    entry = Entry(f"file://{host}/of_guest.parquet", 100, 1)
    write_metadata(host, {1: Snapshot({"m1": [entry]}, at=LONG_AGO)})
    return host


def departs(folder: Path, catalog: UnityCatalog, named: dict[str, Path]) -> Iterator[None]:
    """Guests leave the lake file and lose their logs; `dropped_guest` is found in a catalog, the others are named."""
    hosts = {name: new_table(folder, name, "a.parquet") for name in NEW_HOSTS}
    guests = {}
    for name, host in hosts.items():
        if name != "bare":
            (host / "stray.parquet").write_bytes(b"x" * 100)
        if name == "twin":
            guests["twin_guest"] = iceberg_twin(host)
            continue
        inside = name in ("nested", "kept")
        files = ["own.parquet"] if inside else ["own.parquet", f"{host}/of_guest.parquet"]
        guests[f"{name}_guest"] = new_table(folder, f"{name}/inside" if inside else f"{name}_guest", *files)
    for name in ("passed", "bare"):  # the host lists the guest's file as well
        Log(hosts[name]).commit(1, add("of_guest.parquet"), when=LONG_AGO)
    for place in (*hosts.values(), *guests.values()):
        long_ago(place)
    dropped = guests.pop("dropped_guest")
    catalog.infos["main", "shop", "host"] = in_catalog(hosts["left"])
    catalog.infos["main", "shop", "dropped_guest"] = in_catalog(dropped)
    named |= hosts | guests
    yield
    for name, place in guests.items():
        if name not in ("moved_guest", "kept_guest"):
            shutil.rmtree(place / ("metadata" if name == "twin_guest" else "_delta_log"))
        del named[name]
    shutil.rmtree(dropped)
    del catalog.infos["main", "shop", "dropped_guest"]
    Log(hosts["passed"]).commit(2, remove("of_guest.parquet", removed=AGES_AGO), when=LONG_AGO)
    guests["moved_guest"].rename(folder / "elsewhere")
    named |= {"passed_guest": guests["passed_guest"], "another_name": folder / "elsewhere"}
    yield
    yield


def lake_of(folder: Path, uri: str, named: dict[str, Path]) -> Lake:
    kinds = {"twin_guest": "iceberg"}
    entries = "".join(
        f"  - {{name: {name}, location: {place}, manifests: [{{kind: {kinds.get(name, 'delta')}}}]}}\n"
        for name, place in named.items()
    )
    ignored = "{tables: [ignored_guest], kinds: [table_missing], reason: dropped by its owner}"
    (folder / "lake.yaml").write_text(
        f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: {folder}/lake/}}]\n"
        f"metastores: [{{kind: unity, uri: '{uri}'}}]\n"
        f"tables:\n{entries}  - {{discover: {{from: unity}}}}\nignore: [{ignored}]\ndefaults: {{grace: 0s}}\n"
    )
    return load_lake(folder / "lake.yaml", {})


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Cloned:
    folder = tmp_path_factory.mktemp("clones")
    (place := folder / "lake").mkdir()
    named = {name: place / name for name in (*SOURCES, *GUESTS, *BACK)}
    catalog, outcomes = UnityCatalog(), {}
    histories = (
        removed_by_its_source(place),
        loses_its_log(place, GUESTS, back=False),
        loses_its_log(place, BACK, back=True),
        departs(place, catalog, named),
    )
    with served(catalog):
        for run_id, _ in zip(RUNS, zip(*histories, strict=True), strict=True):
            lake = lake_of(folder, catalog.uri.replace("/iceberg", ""), named)
            outcomes[run_id] = audited(lake, run_id=run_id)
    return Cloned(place, lake, outcomes, list(rows_of(results_of(lake).discrepancies())))


def in_catalog(place: Path) -> dict[str, Any]:
    return {
        "data_source_format": "DELTA", "table_type": "EXTERNAL", "storage_location": f"file://{place}",
        "updated_at": 1_790_000_000_000,
    }  # fmt: skip


@pytest.mark.parametrize("run", ["second", "third"])
def test_files_of_a_table_that_left_the_lake_file_in_another_tables_folder_are_undecided(
    cloned: Cloned, run: str
) -> None:
    """Every audit warns until it is named again, whole at another place, dropped by its owner, or ignored."""
    rows = results_of(cloned.lake).coverage(run, list(NEW_HOSTS))
    axes = {row["table_name"]: row for row in rows if row["axis"] == "leftover"}
    assert {name for name, row in axes.items() if row["status"] == "partial"} == {
        "left",
        "passed",
        "nested",
        "twin",
    }
    unused = {(row["table_name"], row["files"]) for row in cloned.rows(run, "leftover", NEW_HOSTS)}
    assert {name for name, _ in unused} == {"ignored", "moved", "kept", "dropped"}, unused
    guest = cloned.folder / "left_guest"
    assert axes["left"]["reason"].partition(" read ")[2] == (
        "left_guest, which has files here, and the lake no longer has this table: name it below `tables` "
        f"({{name: left_guest, location: '{guest}', manifests: [{{kind: delta}}]}}), or, if it was dropped, below "
        "`ignore` ({tables: ['left_guest'], kinds: [table_missing], reason: ...})"
    )
    assert axes["passed"]["reason"].startswith(
        "files of passed_guest are here, and not all files of passed_guest are known"
    )


def test_while_every_guest_is_read_strays_are_unused(cloned: Cloned) -> None:
    unused = {row["table_name"] for row in cloned.rows("first", "leftover", NEW_HOSTS)}
    assert unused == {*NEW_HOSTS} - {"bare"}
