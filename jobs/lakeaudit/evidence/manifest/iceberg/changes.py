"""What became of Iceberg tables after the state that was judged: only manifests that came or went are looked at."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.iceberg.discover import Found, find
from lakeaudit.evidence.manifest.iceberg.lists import read_lists
from lakeaudit.evidence.manifest.iceberg.manifests import OfTable, parts
from lakeaudit.evidence.manifest.iceberg.reader import IcebergClaims, Reading, metadata_of, own_files
from lakeaudit.evidence.manifest.iceberg.rows import FILE, KIND, Manifest
from lakeaudit.evidence.protocol import Batches, Changes, Claims, Clock, Context, Part, utc_now
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

NEWEST = 1 << 20
"""The number of the reading that is held against the judged one."""
_CHANGED = pa.schema([(name, pa.string()) for name in ("table_name", "bucket", "key", "state")])


def changes(claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now) -> Changes:
    """The newest state of every file that a manifest names which came, went or changed its part since `claims`.

    A table whose newer metadata or manifests cannot be read is unsure.
    """
    if not isinstance(claims, IcebergClaims):
        raise TypeError("claims of another reader")
    judged = {each.table.name: each for each in claims.reading.tables}
    known = [table for table in tables if table.name in judged]
    newest = find(known, ctx.clients, None if ctx.live else ctx.as_of, clock)
    moved = [each for each in newest if each.identity != judged[each.table.name].identity]
    unsure = {each.table.name: each.refused for each in moved if each.refused}
    readable = [each for each in moved if each.metadata is not None]
    if not readable:
        return Changes(_CHANGED.empty_table(), unsure)
    rows, lost = _changed(claims.reading, readable, ctx, claims.info.id)
    return Changes(rows, unsure | lost)


def _changed(
    judged: Reading, newest: Sequence[Found], ctx: Context, source: str
) -> tuple[pa.Table, dict[str, str]]:
    """Rows of _CHANGED, and the tables of which not all could be read."""
    metadata = [metadata_of(each) for each in newest]
    now, unread = read_lists(metadata, ctx.clients, ctx.engine)
    names = [each.table.name for each in newest]
    lost = {names[each.table]: f"{each.path} {each.reason}" for each in unread}
    before = _by_place(judged.manifests, [each.table.name for each in judged.tables])
    after = _by_place(now, names)
    came = [one for at, one in after.items() if at not in before or bool(before[at].heads) != bool(one.heads)]
    went = [one.number for at, one in before.items() if at[0] in names and at not in after]
    about = [OfTable(name, NEWEST, one.times) for name, one in zip(names, metadata, strict=True)]
    new = ctx.engine.keep(
        [
            Part(source, partial(_own, _own_files(judged, newest, ctx)), 1),
            *parts(came, about, source, ctx.clients, max(ctx.parallelism, 1) * 4),
        ]
    )
    for note in new.notes:
        lost[json.loads(str(note["data"]))["table"]] = f"{note['subject']} {note['reason']}"
    kept = ctx.engine.meet([judged.kept, new], partial(_touched, frozenset(went)), _newest)
    return pa.Table.from_batches(kept.batches("iceberg_changed"), _CHANGED), lost


def _by_place(manifests: Sequence[Manifest], names: Sequence[str]) -> dict[tuple[str, Location], Manifest]:
    return {(names[each.table], each.place): each for each in manifests}


def _own_files(judged: Reading, newest: Sequence[Found], ctx: Context) -> pa.Table:
    """The files that the metadata itself names now, and those that it named, as gone."""
    moved = {each.table.name for each in newest}
    old = [each for each in judged.tables if each.table.name in moved]
    rows = [row for each in newest for row in own_files(each, set(), NEWEST, ctx.clients.aliases)]
    gone = [row for each in old for row in own_files(each, set(), NEWEST, ctx.clients.aliases)]
    state = FILE.get_field_index("state")
    return duck.small(FILE, [*rows, *((*row[:state], "gone", *row[state + 1 :]) for row in gone)])


def _own(rows: pa.Table, con: Connection) -> Batches:  # noqa: ARG001 - a part is given one
    yield KIND, rows


def _touched(went: frozenset[int], con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Of the judged rows those of manifests that no state has any more, as gone; and all new ones."""
    if kind == KIND:
        numbers = duck.literals(sorted(went))
        sql = f"""SELECT * REPLACE (CASE WHEN reading = {NEWEST} THEN state ELSE 'gone' END AS state) FROM input
            WHERE reading = {NEWEST} OR manifest IN ({numbers})"""
        yield kind, duck.query(con, sql, input=rows)


def _newest(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    sql = """SELECT table_name, bucket, key,
            arg_max(state, CASE state WHEN 'live' THEN 2 WHEN 'history' THEN 1 ELSE 0 END) AS state
        FROM input GROUP BY table_name, bucket, key"""
    if KIND in rows:
        yield "iceberg_changed", duck.query(con, sql, input=rows[KIND])
