"""What became of Iceberg tables after the state that was judged: only manifests that came or went are looked at."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.iceberg.discover import find
from lakeaudit.evidence.manifest.iceberg.reader import IcebergClaims
from lakeaudit.evidence.manifest.iceberg.readings import ATTEMPTS, Reading, TableReading, as_known, read_once
from lakeaudit.evidence.manifest.iceberg.rows import KIND
from lakeaudit.evidence.protocol import Changes, Claims, Clock, Context, utc_now
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

NEWEST = ATTEMPTS
"""The number of the reading that is held against the judged ones."""
_CHANGED = pa.schema([(name, pa.string()) for name in ("table_name", "bucket", "key", "state")])


def changes(claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now) -> Changes:
    """Files that the newest state takes for something else than the judged one; no newer metadata: none.

    A table whose newer metadata or manifests cannot all be read is unsure.
    """
    if not isinstance(claims, IcebergClaims):
        raise TypeError("claims of another reader")
    judged = {each.name: each for each in claims.reading.tables}
    known = [table for table in tables if table.name in judged]
    found = find(known, ctx.clients, None if ctx.live else ctx.as_of, clock)
    moved = [each for each in found if each.identity != judged[each.table.name].found.identity]
    unsure = {each.table.name: each.refused for each in moved if each.refused}
    readable = [each for each in moved if each.metadata is not None]
    before = [judged[each.table.name] for each in readable]
    if not before:
        return Changes(_CHANGED.empty_table(), unsure)
    newest = read_once(readable, NEWEST, ctx, claims.info.id, _parts(before))
    unsure |= {each.name: why for each in newest.tables if (why := _why_unsure(each)) is not None}
    return Changes(_changed(claims.reading, before, newest, ctx), unsure)


def _parts(tables: Sequence[TableReading]) -> frozenset[tuple[object, ...]]:
    return frozenset(as_known(each, table.name) for table in tables for each in table.manifests)


def _why_unsure(read: TableReading) -> str | None:
    lists = (f"{each.path} {each.reason}" for each in read.unread)
    return next(lists, next((f"{each.subject} {each.reason}" for each in read.problems), None))


def _changed(judged: Reading, before: Sequence[TableReading], newest: Reading, ctx: Context) -> pa.Table:
    """Rows of _CHANGED."""
    now = _parts(newest.tables)
    went = [e.number for table in before for e in table.manifests if as_known(e, table.name) not in now]
    last = tuple((each.name, each.number) for each in before)
    kept = ctx.engine.meet([*judged.kept, *newest.kept], partial(_touched, frozenset(went), last), _compared)
    return pa.Table.from_batches(kept.batches("iceberg_changed"), _CHANGED)


def _touched(
    went: frozenset[int], last: tuple[tuple[str, int], ...], con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    """Rows of the tables that moved on: `was` is what they said before, `now` what they say after it.

    What the rows of manifests say that play the same part still holds.
    """
    if kind == KIND:
        judged = " OR ".join(
            f"(table_name = {duck.literal(name)} AND reading = {number})" for name, number in last
        )
        over = f"manifest = -1 OR manifest IN ({duck.literals(sorted(went))})"
        sql = f"""SELECT table_name, bucket, key, CASE WHEN reading < {NEWEST} THEN {_RANK} END AS was,
                CASE WHEN reading = {NEWEST} OR NOT coalesce({over}, false) THEN {_RANK} END AS now
            FROM input WHERE reading = {NEWEST} OR {judged}"""
        yield kind, duck.query(con, sql, input=rows)


_RANK = "CASE state WHEN 'live' THEN 2 WHEN 'history' THEN 1 ELSE 0 END"


def _compared(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    sql = """SELECT table_name, bucket, key, ['gone', 'history', 'live'][now + 1] AS state FROM (
            SELECT table_name, bucket, key, coalesce(max(was), 0) AS was, coalesce(max(now), 0) AS now
            FROM input GROUP BY table_name, bucket, key)
        WHERE was <> now"""
    if KIND in rows:
        yield "iceberg_changed", duck.query(con, sql, input=rows[KIND])
