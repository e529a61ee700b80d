"""The contract of every reader of a metadata store. A new reader adds a class with a `world` to its own test file.

A world holds the files and folders of `FILES` and `FOLDERS` in its own way, in the two buckets of one store, and
reads them once. A store of tables' logs holds the commits of `COMMITS` instead, and those of one table on this machine.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.engine.local import InProcessEngine, LocalBufferedRows
from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import Entries, LogEntries, Part, Probed
from lakeaudit.keys import NOT_HADOOP, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import ENTRY, LOG_ENTRY, NOTE

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
"""When the store's picture is taken, or an hour no later."""
OLD = AT - timedelta(days=2)

FOLDERS = ("wh", "wh/orders", "wh/orders/dt=2026-11-01")
FILES = {
    "top.txt": 1,
    "wh/orders/dt=2026-11-01/part-0.parquet": 100,
    "wh/orders/dt=2026-11-01/part 1+%41%2F.parquet": 101,
    "wh/orders/dt=2026-11-01/né🎉'\"<&.parquet": 102,
    "wh/orders/dt=2026-11-01/10:30.parquet": 103,
    "wh/orders/empty": 0,
}
"""Key and size: what a store of Hadoop paths holds; the colon is legal in S3 and breaks Hadoop's own tools."""
DELETED = tuple(f"wh/orders/_temporary/0/task_{n}" for n in range(20))
"""Removed through the store: most rows of a real one (71 % were measured) are tombstones."""
BUCKETS = ("lake", "lake-2")


@dataclass(frozen=True)
class World:
    """The written items and a reader's rows, of the whole store and below `lake/wh/orders`.

    `sized`: the store knows sizes. `opaque`: nobody can tell its entries of files from those of folders. `flat`: it
    has no folders, so it holds `FILES` and `DELETED` alone. `own_items`: how many items the store keeps for itself.
    """

    entries: Entries
    rows: list[dict[str, Any]]
    below_orders: list[dict[str, Any]]
    sized: bool = True
    opaque: bool = False
    flat: bool = False
    own_items: int = 1

    @property
    def folders(self) -> tuple[str, ...]:
        return () if self.flat else FOLDERS

    def keys(self, bucket: str, *, tombstone: bool = False, is_dir: bool = False) -> list[str]:
        found = [row for row in self.rows if row["bucket"] == bucket]
        return sorted(row["key"] for row in found if (row["tombstone"], row["is_dir"]) == (tombstone, is_dir))


def entry_rows(entries: Entries) -> list[dict[str, Any]]:
    """The rows of kind `entries`, as plain values; rejected ones only where they were not read before."""
    rows: list[dict[str, Any]] = entry_table(entries).to_pylist()
    return rows


def entry_table(entries: Entries) -> pa.Table:
    return _table(entries, "entries", ENTRY)


def notes_of(entries: Entries) -> list[dict[str, Any]]:
    """NOTE rows of the source's parts."""
    rows: list[dict[str, Any]] = _table(entries, "notes", NOTE).to_pylist()
    return rows


def rows_of(entries: Entries) -> list[dict[str, Any]]:
    """Rows by place, as plain values; what is null is left out."""
    rows = [{k: v for k, v in row.items() if v is not None} for row in entry_rows(entries)]
    return sorted(rows, key=lambda row: (row.get("bucket", ""), row.get("key", ""), row.get("reject", "")))


def _table(entries: Entries, kind: str, schema: pa.Schema) -> pa.Table:
    if isinstance(entries.rows, tuple):
        tables = [table for part in entries.rows for table in _read(part, kind)]
    else:
        assert isinstance(entries.rows, LocalBufferedRows)
        tables = [pa.Table.from_batches([c.batch]) for c in entries.rows.chunks if c.kind == kind]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _read(part: Part, kind: str) -> list[pa.Table]:
    with task_connection() as con:
        return [duck.table(duck.relation(con, rows)) for each, rows in part.read(con) if each == kind]


class MetastoreContract:
    """Subclasses give a class-scoped fixture `world`."""

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls) -> World:
        raise NotImplementedError

    def test_rows_are_entry_rows_of_one_source(self, world: World) -> None:
        assert entry_table(world.entries).schema.equals(ENTRY)
        assert {row["source"] for row in world.rows} == {world.entries.info.id}

    @pytest.mark.parametrize("bucket", BUCKETS)
    def test_names_every_file_folder_and_tombstone_once_with_its_raw_key(
        self, world: World, bucket: str
    ) -> None:
        files, folders = ((*FILES, *FOLDERS), ()) if world.opaque else (FILES, world.folders)
        assert world.keys(bucket) == sorted(files)
        assert world.keys(bucket, is_dir=True) == sorted(folders)
        assert world.keys(bucket, tombstone=True) == sorted(DELETED)

    def test_a_location_is_a_path_boundary_in_one_bucket(self, world: World) -> None:
        inside = [key for key in (*FILES, *world.folders, *DELETED) if key.startswith("wh/orders/")]
        assert [(row["bucket"], row["key"]) for row in world.below_orders] == [
            ("lake", key) for key in sorted(inside)
        ]

    def test_knows_sizes_of_files_and_none_of_folders(self, world: World) -> None:
        sizes = {row["key"]: row.get("size") for row in world.rows if not row["tombstone"]}
        known = FILES if world.sized else dict.fromkeys(FILES)
        assert sizes == {**known, **dict.fromkeys(world.folders)}

    def test_says_of_every_entry_whether_its_store_knows_more_than_names(self, world: World) -> None:
        assert {row.get("bare", False) for row in world.rows} == {not world.sized}
        assert world.entries.tree == (world.sized and not world.flat)
        alive = [row for row in world.rows if not row["tombstone"]]
        assert {row.get("opaque", False) for row in alive} == {world.opaque}

    def test_parent_and_key_fit(self, world: World) -> None:
        for row in world.rows:
            assert row["parent"] == ("" if world.flat else row["key"].rpartition("/")[0])
            assert not row["key"].startswith("/")
            assert not row["key"].endswith("/")

    def test_rejects_nothing_and_has_no_gap(self, world: World) -> None:
        assert [row["reject"] for row in world.rows if "reject" in row] == []
        assert world.entries.holes == ()
        assert world.entries.warnings == ()

    def test_has_an_info_of_its_rows_and_time(self, world: World) -> None:
        info = world.entries.info
        assert (info.role, info.rows) == ("metastore", len(world.rows) + world.own_items)
        assert info.identity
        assert info.cut is not None
        assert info.cut.end is not None
        assert info.cut.start <= info.cut.end

    def test_keys_that_hadoop_cannot_join_are_named_anyway(self, world: World) -> None:
        odd = [row["key"] for row in world.rows if re.search(NOT_HADOOP, row["key"])]
        assert odd == ["wh/orders/dt=2026-11-01/10:30.parquet"] * len(BUCKETS)


COMMITS = {
    ("lake", "wh/orders"): (0, 1, 10**15),
    ("lake", "wh/orders_2"): (0,),
    ("lake", "wh/né🎉 '%20+"): (3,),
    ("lake-2", "wh/orders"): (0, 1),
}
"""By table the commits that the store knows."""
LOGGED, LOST = (0, 1, 2), 3
"""Commits of a table on this machine: those of its log, and one that only the store has."""


@dataclass(frozen=True)
class LogWorld:
    """A reader's rows of a store of commits, of the whole store and below `lake/wh/orders`.

    `home` is the table on this machine. `get` and `probe` are the kind's own, of the whole store.
    """

    entries: LogEntries
    below_orders: LogEntries
    home: Location
    get: Callable[[str, str], dict[str, Any] | None]
    probe: Callable[[], Probed]
    has_point_reads: bool = True

    @property
    def all(self) -> set[tuple[str, str, int]]:
        own = {(*self.home, version) for version in (*LOGGED, LOST)}
        return own | {(*place, version) for place, versions in COMMITS.items() for version in versions}


def commits_of(entries: LogEntries) -> list[tuple[str, str, int]]:
    """Place of the table and version of each entry, in order."""
    rows = [row for batch in entries.rows.batches("entered") for row in batch.to_pylist()]
    return sorted((row["bucket"], row["base"], row["version"]) for row in rows)


class LogStoreContract:
    """Subclasses give a class-scoped fixture `world`."""

    def test_names_every_commit_once_by_its_tables_raw_place(self, world: LogWorld) -> None:
        assert commits_of(world.entries) == sorted(world.all)

    def test_a_location_is_a_path_boundary_in_one_bucket(self, world: LogWorld) -> None:
        expected = [("lake", "wh/orders", version) for version in COMMITS["lake", "wh/orders"]]
        assert commits_of(world.below_orders) == expected

    def test_has_no_gap(self, world: LogWorld) -> None:
        assert (world.entries.holes, world.entries.warnings) == ((), ())

    def test_has_an_info_of_its_rows_and_time(self, world: LogWorld) -> None:
        info = world.entries.info
        assert (info.role, info.rows, info.rejected) == ("metastore", len(world.all), 0)
        assert info.identity
        assert info.cut is not None
        assert info.cut.end is not None
        assert info.cut.start <= info.cut.end

    def test_names_what_the_log_of_a_table_lacks_and_nothing_of_tables_that_nobody_asks_for(
        self, world: LogWorld
    ) -> None:
        for tables, expected in (({world.home: "t"}, [("t", LOST)]), ({Location("lake", "wh"): "wh"}, [])):
            compared = world.entries.compare(tables)
            met = InProcessEngine(2).meet([world.entries.rows], compared.project, compared.compare)
            batches = list(met.batches("log_suspects"))
            assert all(batch.schema.equals(LOG_ENTRY) for batch in batches)
            found = [row for batch in batches for row in batch.to_pylist()]
            assert [(row["judged_table"], row["version"]) for row in found] == expected
            assert met.notes == []

    def test_can_be_tried_before_an_audit(self, world: LogWorld) -> None:
        assert str(len(world.all)) in world.probe().message

    def test_looks_up_one_commit_unless_it_is_an_export(self, world: LogWorld) -> None:
        known, unknown = (f"wh/orders/_delta_log/{version:020}.json" for version in (1, 9))
        if not world.has_point_reads:
            with pytest.raises(SourceError, match="no point reads"):
                world.get("lake", known)
            return
        assert world.get("lake", known)
        assert world.get("lake", unknown) is None
