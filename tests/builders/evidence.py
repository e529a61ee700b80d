"""Evidence made by hand: what each source claims, as rows with sensible defaults.

Times are given in hours before the storage cut at `CUT`; a claim, object or entry is three days old unless said.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.protocol import (
    Batches,
    Claims,
    Entries,
    EvidenceGap,
    Part,
    SnapshotWindow,
    SourceInfo,
    Stored,
    TableState,
)
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, ENTRY, STORED, UPLOAD, VERSION, plain_time

CUT = datetime(2026, 11, 20, 1, 0, tzinfo=UTC)
READ_AT = CUT + timedelta(hours=6)
AT_CUT = SnapshotWindow(CUT)
EVERYTHING = (Location("lake", ""),)
BUCKET = "lake"


def ago(hours: float) -> datetime:
    """A moment before the cut."""
    return CUT - timedelta(hours=hours)


def claim(key: str, table: str = "orders", **given: Any) -> dict[str, Any]:
    """A live Delta claim of 100 bytes and 10 rows."""
    return {
        "source": "manifest:delta",
        "manifest_kind": "delta",
        "table_name": table,
        "bucket": BUCKET,
        "key": key,
        "state": "live",
        "certain": True,
        "category": "data",
        "partition_path": "",
        "size": 100,
        "records": 10,
        "claimed_at": ago(72),
        "explained": False,
        "listed": 1,
        "own_root": True,
        "commit_id": "3",
        "table_version": 7,
    } | given


def stored(key: str, **given: Any) -> dict[str, Any]:
    """A present object of 100 bytes, written just before its claim."""
    return {
        "source": "storage:0",
        "bucket": BUCKET,
        "key": key,
        "presence": "present",
        "size": 100,
        "etag": "0cc175b9c0f1b6a831c399e269772661",
        "modified_at": ago(72.1),
        "storage_class": "STANDARD",
        "archived": False,
        "multipart": False,
        "encryption": "SSE-S3",
        "delete_marker": False,
    } | given


def entry(key: str, **given: Any) -> dict[str, Any]:
    """A live file entry that agrees with `stored`."""
    parent = key.rpartition("/")[0]
    return {
        "source": "metastore:0",
        "bucket": BUCKET,
        "key": key,
        "parent": parent,
        "is_dir": False,
        "tombstone": False,
        "expired": False,
        "honoured": False,
        "authoritative": False,
        "size": 100,
        "etag": "0cc175b9c0f1b6a831c399e269772661",
        "mod_time": ago(72.1),
        "last_updated_given": True,
    } | given


def folder(key: str, **given: Any) -> dict[str, Any]:
    """A live directory entry."""
    return entry(key, **{"is_dir": True, "size": None, "etag": None, "mod_time": None} | given)


def bare_entry(key: str, **given: Any) -> dict[str, Any]:
    """Return a live file's entry in a store that has only names, made just after the object of `stored`."""
    bare = {"bare": True, "size": None, "etag": None, "mod_time": None, "last_updated": ago(72)}
    return entry(key, **bare | given)


def opaque(key: str, **given: Any) -> dict[str, Any]:
    """The same of a store where only its writer can read what an entry is about."""
    return bare_entry(key, **{"opaque": True} | given)


def claims_of(
    rows: Iterable[Mapping[str, Any]], states: Iterable[TableState], kind: str = "delta",
    holes: tuple[EvidenceGap, ...] = (),
) -> Claims:  # fmt: skip
    """A manifest reader's answer: claims that are folded already."""
    info = SourceInfo(f"manifest:{kind}", "manifest", kind, "", "v7", None)
    rows_kind = "steps" if kind == "delta" else "events"
    fold = partial(_rows_or_empty, rows_kind)
    parts = (part_of({rows_kind: rows_table(CLAIM, rows)}),)
    return Claims(info, parts, fold, {state.table: state for state in states}, holes)


def stored_of(
    rows: Iterable[Mapping[str, Any]],
    *,
    cut: SnapshotWindow = AT_CUT,
    source: str = "storage:0",
    covers: tuple[Location, ...] = EVERYTHING,
    uploads: Iterable[Mapping[str, Any]] = (),
    holes: tuple[EvidenceGap, ...] = (),
) -> Stored:
    """A storage reader's answer: one row a key, see `folded_objects`."""
    info = SourceInfo(source, "storage", "s3_inventory", "", "md5", cut)
    parts = part_of({"versions": rows_table(_OBJECTS, rows), "uploads": rows_table(UPLOAD, uploads)})
    return Stored(info, parts, covers, lists_uploads=True, holes=holes)


_OBJECTS = pa.schema(
    [*STORED, *(field for field in VERSION if field.name in ("is_latest", "is_delete_marker"))]
)


def entries_of(
    rows: Iterable[Mapping[str, Any]],
    *,
    cut: SnapshotWindow = AT_CUT,
    source: str = "metastore:0",
    scope: tuple[Location, ...] = (),
    ttl: timedelta | None = None,
    holes: tuple[EvidenceGap, ...] = (),
) -> Entries:
    """A metadata store reader's answer."""
    info = SourceInfo(source, "metastore", "s3guard", "", "t", cut)
    return Entries(info, part_of({"entries": rows_table(ENTRY, rows)}), scope, ttl, holes)


def rows_table(schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Plain rows as a table; times lose their zone, which is UTC, and what is not named is null."""
    return duck.small(schema, [[_plain(row.get(name)) for name in schema.names] for row in rows])


def _plain(value: Any) -> Any:
    return plain_time(value) if isinstance(value, datetime) else value


def part_of(tables: Mapping[str, pa.Table]) -> tuple[Part, ...]:
    """A part that gives these rows."""
    return (Part("", partial(_batches, tables)),)


def _batches(tables: Mapping[str, pa.Table], con: Connection) -> Batches:
    yield from tables.items()


def rows_by_kind(con: Connection, sources: Iterable[Any]) -> dict[str, pa.Table]:
    """Return the rows of all parts, collected as the engine does."""
    held: dict[str, list[pa.Table]] = {}
    for part in (part for source in sources for part in source):
        for kind, rows in part.read(con):
            held.setdefault(kind, []).append(duck.table(duck.relation(con, rows)))
    return {kind: pa.concat_tables(tables) for kind, tables in held.items()}


def _rows_or_empty(kind: str, con: Connection, rows: Mapping[str, Rows]) -> Relation:
    return duck.relation(con, rows.get(kind, CLAIM.empty_table()))


def folded_objects(con: Connection, rows: Rows) -> Relation:
    """Return `SourceFacts.objects` for objects with one row a key."""
    given = duck.relation(con, rows)
    return given if "presence" in given.types else duck.relation(con, STORED.empty_table())


def state_of(table: str = "orders", **given: Any) -> TableState:
    """A whole, readable table whose log goes back thirty days."""
    told: dict[str, Any] = {
        "read_at": READ_AT,
        "horizon": ago(24 * 30),
        "version": 7,
        "retention": timedelta(days=7),
    }
    return TableState(table, **(told | given))
