"""Compare Iceberg tables with their judged state: only manifests that were added or removed are read."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.file_list.fold import CHANGED
from lakeaudit.evidence.manifest.iceberg.current.discover import find
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import LocatedMetadata
from lakeaudit.evidence.manifest.iceberg.reader import IcebergClaims
from lakeaudit.evidence.manifest.iceberg.state.readings import Reading, TableReading, as_known, read_once
from lakeaudit.evidence.manifest.iceberg.state.rows import KIND
from lakeaudit.evidence.manifest.iceberg.witnesses.lineage import why_behind
from lakeaudit.evidence.manifest.table_states import NEWEST, changed_rows, compare_states
from lakeaudit.evidence.protocol import Changes, Claims, Clock, Context, utc_now
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows


def changes(claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now) -> Changes:
    """Return the files whose state in the newest metadata differs from the judged one; none without newer metadata.

    A table whose newer metadata or manifests cannot all be read is uncertain.
    """
    if not isinstance(claims, IcebergClaims):
        raise TypeError("claims of another reader")
    judged = {each.name: each for each in claims.reading.tables}
    known = [table for table in tables if table.name in judged]
    found = find(known, ctx.clients, None if ctx.live else ctx.as_of, clock)
    moved = [each for each in found if each.identity != judged[each.table.name].found.identity]
    uncertain = {each.table.name: each.refused for each in moved if each.refused}
    uncertain |= _left_out([each for each in found if not each.refused], ctx)
    readable = [each for each in moved if each.metadata is not None]
    before = [judged[each.table.name] for each in readable]
    if not before:
        return Changes(CHANGED.empty_table(), uncertain)
    newest = read_once(readable, NEWEST, ctx, claims.info.id, _parts(before))
    uncertain |= {each.name: why for each in newest.tables if (why := _why_uncertain(each)) is not None}
    return Changes(_changed_files(claims.reading, before, newest, ctx), uncertain)


def _left_out(found: Sequence[LocatedMetadata], ctx: Context) -> dict[str, str]:
    """Return the tables that have a newer state which no listing names; it is requested by its name."""
    if not ctx.live:
        return {}
    uncertain: dict[str, str] = {}
    for each in found:
        try:
            why = why_behind(each, ctx.clients)
        except SourceError as error:
            why = str(error)
        if why is not None:
            uncertain[each.table.name] = why
    return uncertain


def _parts(tables: Sequence[TableReading]) -> frozenset[tuple[object, ...]]:
    return frozenset(as_known(each, table.name) for table in tables for each in table.manifests)


def _why_uncertain(read: TableReading) -> str | None:
    lists = (f"{each.path} {each.reason}" for each in read.unread)
    return next(lists, next((f"{each.subject} {each.reason}" for each in read.problems), None))


def _changed_files(
    judged: Reading, before: Sequence[TableReading], newest: Reading, ctx: Context
) -> pa.Table:
    """Return rows of CHANGED."""
    now = _parts(newest.tables)
    went = [e.number for table in before for e in table.manifests if as_known(e, table.name) not in now]
    last = tuple((each.name, each.number) for each in before)
    kept = ctx.engine.meet(
        [*judged.kept, *newest.kept], partial(_state_ranks, frozenset(went), last), _compare_states
    )
    return pa.Table.from_batches(kept.batches("iceberg_changed"), CHANGED)


def _state_ranks(
    went: frozenset[int], last: tuple[tuple[str, int], ...], con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    """Rank the states of files; the rows of a manifest that both states use are valid for both."""
    if kind == KIND:
        over = f"manifest = -1 OR manifest IN ({duck.literals(sorted(went))})"
        yield kind, changed_rows(con, rows, last, still=f"NOT coalesce({over}, false)")


def _compare_states(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if KIND in rows:
        yield "iceberg_changed", compare_states(con, rows[KIND])
