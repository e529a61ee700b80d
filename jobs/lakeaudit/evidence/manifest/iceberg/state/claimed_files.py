"""Turn entries of manifests into FILE rows and counts, as SQL over all entries that are read together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.manifest.iceberg.state.places import with_places
from lakeaudit.evidence.manifest.iceberg.state.rows import FILE, Manifest
from lakeaudit.keys import Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import plain_time

ADDED, DELETED = 1, 2


@dataclass(frozen=True)
class OfTable:
    """Holds the constants for the manifests of one table: its name, the reading, and times of its snapshots."""

    name: str
    reading: int
    times: Mapping[int, datetime]


@dataclass(frozen=True)
class EntryCounts:
    """Counts entries of one manifest.

    Attributes:
        listed: that name files.
        added: that name files which the manifest's snapshot added.
        foreign: of these, entries that name another snapshot.
        faults: that cannot be understood.
        fault: why the first of them cannot be understood.
    """

    listed: int = 0
    added: int = 0
    foreign: int = 0
    faults: int = 0
    fault: str | None = None


_MANIFEST = pa.schema(
    [
        ("batch_index", pa.int32()),
        ("table_name", pa.string()),
        ("reading", pa.int64()),
        ("manifest", pa.int64()),
        ("added_by", pa.int64()),
        ("heads", pa.list_(pa.int32())),
        ("oldest", pa.timestamp("us")),
    ]
)
_TIME = pa.schema(
    [
        ("table_name", pa.string()),
        ("snapshot", pa.int64()),
        ("made", pa.timestamp("us")),
    ]
)


def claimed_files(
    con: Connection,
    rows: pa.Table,
    manifests: Sequence[Manifest],
    tables: Mapping[int, OfTable],
    aliases: Aliases,
) -> tuple[pa.Table, dict[int, EntryCounts]]:
    """Return FILE rows of ENTRY rows, and the counts of each manifest by its index."""
    placed = duck.table(with_places(con, rows, aliases))
    named = {"entries": placed, "manifests": _manifests(manifests, tables), "times": _times(tables)}
    files = duck.table(duck.conform(con, duck.query(con, _FILES, **named), FILE))
    counts = {row.pop("batch_index"): row for row in duck.rows_of(duck.query(con, _COUNTS, **named))}
    faults = (
        {row.pop("batch_index"): row for row in _first_faults(con, placed)} if _has_faults(counts) else {}
    )
    return files, {at: EntryCounts(**row, fault=_why(faults.get(at))) for at, row in counts.items()}


def _manifests(manifests: Sequence[Manifest], tables: Mapping[int, OfTable]) -> pa.Table:
    about = [tables[each.table] for each in manifests]
    rows = [
        (at, of.name, of.reading, each.number, each.added_by, each.heads, plain_time(each.oldest))
        for at, (each, of) in enumerate(zip(manifests, about, strict=True))
    ]
    return duck.small(_MANIFEST, rows)


def _times(tables: Mapping[int, OfTable]) -> pa.Table:
    rows = [(of.name, id_, plain_time(at)) for of in tables.values() for id_, at in of.times.items()]
    return duck.small(_TIME, rows)


_PLACED = f"bucket IS NOT NULL AND status IN (0, {ADDED}, {DELETED})"
_UNDERSTOOD = (
    f"coalesce({_PLACED} AND coalesce(content, 0) IN (0, 1, 2) AND size >= 0 AND records >= 0, false)"
)

_FILES = f"""
    WITH known AS (
        SELECT table_name, reading, manifest, bucket, key, status = {DELETED} AS removed, heads, content, oldest,
            coalesce(snapshot_id, added_by) AS snapshot, size, records, partition_path
        FROM entries JOIN manifests USING (batch_index) WHERE {_UNDERSTOOD})
    SELECT *, CASE WHEN removed THEN 'gone' WHEN len(heads) > 0 THEN 'live' ELSE 'history' END AS state,
        false AS explained, CASE WHEN removed THEN [] ELSE heads END AS heads,
        CASE WHEN coalesce(content, 0) = 0 THEN 'data' ELSE 'deletes' END AS category,
        coalesce(made, oldest) AS "at", CAST(snapshot AS VARCHAR) AS commit_id
    FROM known LEFT JOIN times USING (table_name, snapshot)"""

_COUNTS = f"""
    SELECT batch_index, count(*) FILTER ({_PLACED} AND status <> {DELETED}) AS listed,
        count(*) FILTER ({_PLACED} AND status = {ADDED}) AS added,
        count(*) FILTER ({_PLACED} AND status = {ADDED} AND snapshot_id IS DISTINCT FROM added_by
            AND snapshot_id IS NOT NULL) AS "foreign",
        count(*) FILTER (NOT {_UNDERSTOOD}) AS faults
    FROM entries JOIN manifests USING (batch_index) GROUP BY batch_index"""


def _has_faults(counts: Mapping[int, Mapping[str, int]]) -> bool:
    return any(row["faults"] for row in counts.values())


def _first_faults(con: Connection, placed: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the first entry of each manifest that cannot be understood."""
    entry = "{'path': path, 'bucket': bucket, 'status': status, 'content': content, 'size': size, 'records': records}"
    sql = f"SELECT batch_index, any_value({entry}) AS entry FROM input WHERE NOT {_UNDERSTOOD} GROUP BY batch_index"
    yield from duck.rows_of(duck.query(con, sql, input=placed))


def _why(fault: Mapping[str, Any] | None) -> str | None:
    """Return why an entry cannot be understood."""
    if fault is None:
        return None
    return f"an entry cannot be understood ({_first_reason(fault['entry'])})"


def _first_reason(entry: Mapping[str, Any]) -> str:
    if entry["path"] is None:
        return "it has no path"
    if entry["bucket"] is None:
        return f"{entry['path'][:80]!r} is in an unknown store"
    if entry["status"] not in (0, ADDED, DELETED):
        return f"status {entry['status']!r}"
    if (entry["content"] or 0) not in (0, 1, 2):
        return str(entry["content"])
    return f"a count of {next(n for n in (entry['size'], entry['records']) if n is None or n < 0)!r}"
