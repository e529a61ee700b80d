"""Base files that Hudi's timeline does not list, audited, and read by a reader that lists folders (hudi-rs).

Copies of tables that Hudi wrote, of both layouts, each with one more file. What the reader gets with it decides whether
lakeaudit may call it unused.
"""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeaudit.config import load_lake
from lakeaudit.results.read import Results
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.hudi import NO_WAIT, unpacked

pytestmark = pytest.mark.variant

hudi = pytest.importorskip("hudi")
DAY = "day=2026-11-01"
NEW = "6f0d7f8e-6f3c-4c55-9c1b-2c4d6a1f0e11-0"


@dataclass
class Table:
    home: Path
    layout: int

    @property
    def timeline(self) -> Path:
        return self.home / ".hoodie" / ("" if self.layout == 1 else "timeline")

    @property
    def writes(self) -> list[str]:
        return sorted(path.name[:17] for path in self.timeline.glob("2*commit"))

    @property
    def bases(self) -> list[Path]:
        """Base files of one partition by their instants."""
        return sorted(self.home.glob(f"{DAY}/*.parquet"), key=lambda path: path.name.split("_")[-1])

    def add(self, instant: str, group: str = NEW) -> None:
        """One more whole file of that instant."""
        newest = self.bases[-1]
        shutil.copy(newest, newest.with_name(f"{group}_7-77-777_{instant}.parquet"))

    def archive(self, until: str) -> None:
        """Move the instants up to this one to the archive, as layout 2 keeps it."""
        gone = [
            path for path in sorted(self.timeline.glob("2*")) if path.name[:17] <= until and path.is_file()
        ]
        rows = [
            {"instantTime": path.name[:17], "completionTime": path.name[18:35], "action": path.suffix[1:],
             "metadata": path.read_bytes()}
            for path in gone if path.name[17] == "_"
        ]  # fmt: skip
        written = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), written)
        history = self.timeline / "history"
        history.mkdir(exist_ok=True)
        name = f"{rows[0]['instantTime']}_{until}_0.parquet"
        history.joinpath(name).write_bytes(written.getvalue())
        history.joinpath("manifest_1").write_text(json.dumps({"files": [{"fileName": name, "fileLen": 1}]}))
        history.joinpath("_version_").write_text("1")
        for path in gone:
            path.unlink()


def another_attempt(table: Table) -> None:
    """A task's second attempt, which the commit does not name."""
    table.add(table.writes[-1])


def another_attempt_of_a_compaction(table: Table) -> None:
    table.add(next(path.name[:17] for path in table.timeline.glob("2*.commit")))


def older_than_the_timeline(table: Table) -> None:
    table.add("20250101000000000")


def two_of_one_slice(table: Table) -> None:
    """Another attempt, of the file group that the commit names."""
    newest = table.bases[-1].name
    table.add(newest.split("_")[2].partition(".")[0], newest.partition("_")[0])


def archived_with_what_replaced_it(table: Table) -> None:
    """The group was replaced, its files were not cleaned, and the instant that hid them was archived."""
    table.archive(table.writes[1])


def archived_with_its_rollback(table: Table) -> None:
    """The rollback says that it removed the file; the next write archives it."""
    (rollback,) = table.timeline.glob("2*_*.rollback")
    instant = str(int(rollback.name[:17]) - 1)
    table.add(instant)
    (named,) = (path for path in table.bases if path.name.startswith(NEW))
    undone = {"partitionPath": DAY, "successDeleteFiles": [named.name], "failedDeleteFiles": []}
    rollback.write_text(json.dumps({"commitsRollback": [instant], "partitionMetadata": {DAY: undone}}))
    (commit,) = table.timeline.glob("2*_*.commit")
    shutil.copy(commit, commit.with_name("20261123210000000_20261123210000009.commit"))
    table.archive(rollback.name[:17])


def of_no_instant(table: Table) -> None:
    table.add(str(int(table.writes[-1]) - 1))


def of_a_write_under_way(table: Table) -> None:
    instant = str(int(table.writes[-1]) - 1)
    table.timeline.joinpath(f"{instant}.commit.requested").write_text("")
    table.timeline.joinpath(f"{instant}.inflight").write_text("")
    table.add(instant)


def of_a_write_that_was_rolled_back(table: Table) -> None:
    (rollback,) = table.timeline.glob("2*.rollback")
    instant = str(int(rollback.name[:17]) - 1)
    rollback.write_text(json.dumps({"commitsRollback": [instant], "partitionMetadata": {}}))
    table.add(instant)


def two_of_an_older_slice(table: Table) -> None:
    """Add a file whose group has a newer base file; hudi-rs refuses it anyway."""
    older = table.bases[0].name
    table.add(older.split("_")[2].partition(".")[0], older.partition("_")[0])


def of_a_group_that_was_replaced(table: Table) -> None:
    table.add(table.writes[-1], table.bases[0].name.partition("_")[0])


def a_cleaned_slice_put_back(table: Table) -> None:
    clean = max(table.timeline.glob("2*.clean"))
    assert clean.stat().st_size
    newest = table.bases[-1].name.partition("_")[0]
    table.add(str(int(table.writes[0])), newest)


def untouched(table: Table) -> None:
    pass


Fate = Callable[[Table], None]


@dataclass(frozen=True)
class Case:
    """A change of a copy of a table, and the expected results; `readers` is the setting of the lake file."""

    fate: Fate
    of: str
    kinds: tuple[tuple[str, str], ...]
    layouts: tuple[int, ...] = (1, 2)
    readers: str = ""

    def name(self, layout: int) -> str:
        return "_".join((self.fate.__name__, self.of, str(layout), *([self.readers] if self.readers else [])))


READ, UNUSED = (("stale_visible", "warning"),), (("uncommitted", "warning"),)
UNKNOWN = (("unreadable_evidence", "warning"),)
CASES = (
    Case(another_attempt, "cleaned", READ),
    Case(another_attempt_of_a_compaction, "compacted", READ),
    Case(older_than_the_timeline, "cleaned", UNKNOWN),  # as if its instant had been removed
    Case(older_than_the_timeline, "archived", UNKNOWN),
    Case(two_of_one_slice, "cleaned", READ),
    Case(two_of_an_older_slice, "overwritten", READ),
    Case(archived_with_what_replaced_it, "overwritten", READ, (2,)),
    Case(archived_with_its_rollback, "rolled_back", READ, (2,)),
    Case(another_attempt, "restored", READ),  # its writers keep a metadata table; who reads by it nobody says
    Case(another_attempt, "restored", (("stale_visible", "info"),), readers="metadata_table"),
    Case(another_attempt, "cleaned", READ, readers="metadata_table"),  # there is none
    Case(another_attempt, "cleaned", (("stale_visible", "error"),), readers="folder"),
    Case(of_no_instant, "cleaned", ()),
    Case(of_a_write_under_way, "cleaned", UNUSED),
    Case(of_a_write_that_was_rolled_back, "rolled_back", UNUSED),
    Case(of_a_group_that_was_replaced, "overwritten", UNUSED),
    Case(a_cleaned_slice_put_back, "cleaned", UNUSED),
    Case(untouched, "archived", ()),
    Case(untouched, "archived_merging", ()),
)
EACH = [(case, layout) for case in CASES for layout in case.layouts]


@dataclass
class Lake:
    folder: Path
    results: Results
    before: dict[str, int | None] = field(default_factory=dict)
    after: dict[str, int | None] = field(default_factory=dict)

    def of(self, name: str) -> list[dict[str, Any]]:
        return [row for row in rows_of(self.results.findings("r")) if row["table_name"] == name]


def rows_read(home: Path) -> int | None:
    """Return the rows that hudi-rs reads, or None if it refuses."""
    try:
        table = hudi.HudiTableBuilder.from_base_uri(str(home)).build()
        return sum(int(batch.num_rows) for batch in table.read())
    except Exception as error:  # hudi exports no class of its errors
        if "already present in File Group" in str(error):
            return None
        raise


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("listed")
    entries, before, after = [], {}, {}
    for layout in (1, 2):
        source = unpacked(folder / f"of_{layout}", layout, sorted({case.of for case in CASES}))
        for case in (case for case in CASES if layout in case.layouts):
            table = Table(folder / "wh" / case.name(layout), layout)
            shutil.copytree(source / case.of, table.home)
            before[table.home.name] = rows_read(table.home)
            case.fate(table)
            after[table.home.name] = rows_read(table.home)
            readers = f", readers: {case.readers}" if case.readers else ""
            entries.append(
                f"{{name: {table.home.name}, location: '{table.home}', manifests: [{{kind: hudi}}]{readers}}}"
            )
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: hudi\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/wh/'}}]\n"
        f"tables: [{', '.join(entries)}]\ndefaults: {{{NO_WAIT}}}\n"
    )
    loaded = load_lake(path, {})
    audited(loaded, run_id="r")
    return Lake(folder, results_of(loaded), before, after)


@pytest.mark.parametrize(
    ("case", "layout"), EACH, ids=lambda value: value.name(0) if isinstance(value, Case) else value
)
def test_a_file_that_readers_of_folders_read_is_never_called_unused(
    lake: Lake, case: Case, layout: int
) -> None:
    name = case.name(layout)
    rows = [
        row
        for row in lake.of(name)
        if (row["kind"], row["severity"]) in case.kinds or row["severity"] != "info"
    ]
    assert [(row["kind"], row["severity"]) for row in rows] == list(case.kinds), [
        r["explanation"] for r in rows
    ]
    by_index = case.of == "restored" and layout == 2  # hudi-rs lists it by its metadata table
    assert (lake.after[name] != lake.before[name]) == (case.kinds not in (UNUSED, ()) and not by_index)
    assert [("only costs storage" in row["explanation"]) for row in rows] == [case.kinds == UNUSED] * len(
        rows
    )


@pytest.mark.parametrize(
    ("case", "layout"), EACH, ids=lambda value: value.name(0) if isinstance(value, Case) else value
)
def test_the_rows_that_readers_get_too_many_are_counted(lake: Lake, case: Case, layout: int) -> None:
    before, after = lake.before[case.name(layout)], lake.after[case.name(layout)]
    if (
        before is not None
        and after is not None
        and before != after
        and case.readers != "folder"
        and case.kinds != UNKNOWN
    ):
        (row,) = (row for row in lake.of(case.name(layout)) if row["kind"] == "stale_visible")
        assert row["rows_at_stake"] == after - before
