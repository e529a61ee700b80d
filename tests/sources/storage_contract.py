"""The contract of every storage reader. A new reader adds one world below these tests.

A world lays the objects of `OBJECTS` somewhere, in its own way, and reads them once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.protocol import Context, Part, Stage, Stored
from lakeaudit.evidence.storage.versions import one_row_per_key
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, task_connection
from lakeaudit.schemas import STORED, UPLOAD, VERSION

OBJECTS = {
    "t/plain.parquet": b"hello",
    "t/empty": b"",
    "t/p=a b/x+y.parquet": b"space and plus",
    "t/p=%41%2F/100%.parquet": b"looks like escapes",
    "t/p=日本/né🎉.parquet": b"any Unicode",
    "t/deep/er/and/deeper/f": b"deep",
    "t/q='\"&<;>/f": b"markup",
}
"""Key below the covered place and content: what every kind of store can hold."""

S3_ONLY = {"t//double": b"empty part", "t/folder/": b"", "t/./dot": b"not a path"}
"""Keys that no local file system can hold."""

VERSIONED: dict[str, tuple[bytes, bytes | None]] = {
    "t/again": (b"first", b"second"),
    "t/gone": (b"was here", None),
}
"""Key and its versions in order; None is a delete marker."""


@dataclass(frozen=True)
class World:
    """The written versions and a reader's rows.

    `versions` says that older versions are known here; `etags` that ETags are.
    """

    stored: Stored
    place: Location
    objects: dict[str, bytes]
    began: datetime
    versions: bool = False
    etags: bool = True
    rows: list[dict[str, Any]] = field(default_factory=list)

    def row(self, key: str) -> dict[str, Any]:
        """The one row of a key below the place."""
        found = [row for row in self.rows if row["key"] == self.place.prefix + key]
        assert len(found) == 1, (key, found)
        return found[0]


def stored_rows(stored: Stored) -> list[dict[str, Any]]:
    """Rows by key, as plain values, then a row (source, reject) for each rejected one; what is null is left out."""
    rows = [{k: v for k, v in row.items() if v is not None} for row in stored_table(stored).to_pylist()]
    rejects = [{"source": stored.info.id, "reject": reason} for reason in rejected(stored)]
    return sorted([*rows, *rejects], key=lambda row: (row.get("key", ""), row.get("reject", "")))


def stored_table(stored: Stored) -> pa.Table:
    """The STORED rows that an audit makes of the source."""
    repeats = [stored.info.id] if stored.repeats else []
    older_alone = [stored.info.id] if stored.older_alone else []

    def fold(con: Connection, tables: Mapping[str, pa.Table]) -> Any:
        versions = tables.get("versions", VERSION.empty_table())
        yield "stored", duck.table(one_row_per_key(con, versions, repeats, older_alone))

    return _table(_answers(stored, fold).get("stored", []), STORED)


def uploads_of(stored: Stored) -> list[dict[str, Any]]:
    """UPLOAD rows of the source."""
    rows: list[dict[str, Any]] = _table(_answers(stored).get("uploads", []), UPLOAD).to_pylist()
    return rows


def notes_of(stored: Stored) -> list[dict[str, Any]]:
    """NOTE rows of the source's parts."""
    return [row for batch in _answers(stored).get("notes", []) for row in batch.to_pylist()]


def rejected(stored: Stored) -> list[str]:
    """Why rows were rejected: of parts every reason; of rows that were read already one, however many there are."""
    if isinstance(stored.rows, tuple):
        return [reason for part in stored.rows for reason in rejected_by(part)]
    counted = [row for batch in _answers(stored).get("counted", []) for row in batch.to_pylist()]
    return (
        [min(row["sample"] for row in counted if row["rejected"])]
        if any(row["rejected"] for row in counted)
        else []
    )


def rejected_by(part: Part) -> list[str]:
    """Why rows of one part are rejected."""
    with task_connection() as con:
        tables = [duck.table(duck.relation(con, rows)) for kind, rows in part.read(con) if kind == "versions"]
    return [reason for table in tables for reason in table.column("reject").to_pylist() if reason is not None]


def _answers(stored: Stored, *stages: Stage) -> Mapping[str, list[pa.RecordBatch]]:
    rows = stored.rows if isinstance(stored.rows, tuple) else [stored.rows]
    answers: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for kind, batch in InProcessEngine(2).run(rows, stages):
        answers[kind].append(batch)
    return answers


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


def context(clients: Clients, as_of: datetime, *, live: bool = True) -> Context:
    return Context(InProcessEngine(2), clients, as_of=as_of, now=as_of, live=live)


def ids(params: Sequence[Any]) -> list[str]:
    return ["-".join(str(part) for part in param) for param in params]


class StorageContract:
    """Subclasses give a class-scoped fixture `world`, so that each world is read once."""

    def test_rows_are_stored_rows(self, world: World) -> None:
        assert stored_table(world.stored).schema.equals(STORED)
        assert {row["source"] for row in world.rows} == {world.stored.info.id}

    def test_names_every_object_once_with_its_raw_key(self, world: World) -> None:
        present = [(row["bucket"], row["key"]) for row in world.rows if row["presence"] == "present"]
        again = ["t/again"] if world.versions else []
        keys = [*world.objects, *again]
        assert sorted(present) == sorted((world.place.bucket, world.place.prefix + key) for key in keys)

    def test_knows_sizes(self, world: World) -> None:
        for key, content in world.objects.items():
            assert world.row(key)["size"] == len(content)

    def test_knows_etags_without_quotes_where_the_store_has_them(self, world: World) -> None:
        etags = {key: world.row(key).get("etag") for key in world.objects}
        if world.etags:
            assert all(etag and not etag.startswith('"') for etag in etags.values())
        else:
            assert set(etags.values()) == {None}

    def test_times_are_utc(self, world: World) -> None:
        for key in world.objects:
            modified = world.row(key)["modified_at"].replace(tzinfo=UTC)
            assert abs(modified - world.began) < timedelta(minutes=10)

    def test_rejects_nothing_and_has_no_gap(self, world: World) -> None:
        assert [row["reject"] for row in world.rows if "reject" in row] == []
        assert world.stored.holes == ()
        assert world.stored.warnings == ()

    def test_readable_objects_are_not_archived(self, world: World) -> None:
        assert {world.row(key)["archived"] for key in world.objects} == {False}

    def test_has_an_info_of_its_places_and_time(self, world: World) -> None:
        info = world.stored.info
        assert any(
            place.holds(world.place.bucket, world.place.prefix + "t/x") for place in world.stored.covers
        )
        assert info.role == "storage"
        assert info.identity
        assert info.cut is not None
        assert info.cut.end is None or info.cut.start <= info.cut.end

    def test_a_delete_marker_is_absence_with_what_can_come_back(self, world: World) -> None:
        if not world.versions:
            assert [row["key"] for row in world.rows if row["key"].endswith("t/gone")] == []
            return
        row = world.row("t/gone")
        assert (row["presence"], row["delete_marker"], row["older_size"]) == ("absent", True, 8)
        assert row["older_version_id"]
        assert "size" not in row

    def test_an_overwritten_object_is_its_latest_version(self, world: World) -> None:
        if not world.versions:
            assert [row for row in world.rows if "older_version_id" in row or "older_size" in row] == []
            return
        row = world.row("t/again")
        assert (row["presence"], row["size"], row["older_size"]) == ("present", 6, 5)
        assert row["older_version_id"] != row["version_id"]
