"""Compare Hudi tables with their judged state: tables with a newer timeline are read again."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.file_list.fold import CHANGED
from lakeaudit.evidence.manifest.hudi.reader import HudiClaims
from lakeaudit.evidence.manifest.hudi.state.gaps import evidence_gaps
from lakeaudit.evidence.manifest.hudi.state.readings import TableReading, read_once
from lakeaudit.evidence.manifest.hudi.state.rows import FILES
from lakeaudit.evidence.manifest.hudi.timeline.instants import find
from lakeaudit.evidence.manifest.table_states import NEWEST, changed_rows, compare_states
from lakeaudit.evidence.protocol import Changes, Claims, Clock, Context, utc_now
from lakeaudit.runtime.duck import Connection, Rows

_KIND = "hudi_changed"


def changes(claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now) -> Changes:
    """Return the files whose state in the newest timeline differs from the judged one; none without a newer instant.

    A table whose newer timeline cannot all be read is uncertain.
    """
    if not isinstance(claims, HudiClaims):
        raise TypeError("claims of another reader")
    judged = {each.name: each for each in claims.reading.tables}
    known = [table for table in tables if table.name in judged]
    found = find(known, ctx.clients, None if ctx.live else ctx.as_of, clock)
    moved = [each for each in found if each.identity != judged[each.table.name].found.identity]
    uncertain = {each.table.name: each.refused for each in moved if each.refused}
    readable = [each for each in moved if each.refused is None]
    if not readable:
        return Changes(CHANGED.empty_table(), uncertain)
    newest = read_once(readable, NEWEST, ctx, claims.info.id)
    uncertain |= {each.name: why for each in newest.tables if (why := _why_uncertain(each)) is not None}
    last = tuple((each.table.name, judged[each.table.name].number) for each in readable)
    rows = [*claims.reading.kept, *newest.kept]
    kept = ctx.engine.meet(rows, partial(_state_ranks, last), _compare_states)
    return Changes(pa.Table.from_batches(kept.batches(_KIND), CHANGED), uncertain)


def _why_uncertain(read: TableReading) -> str | None:
    return next((f"{gap.subject} {gap.reason}" for gap in evidence_gaps(read, "")), None)


def _state_ranks(
    last: tuple[tuple[str, int], ...], con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    if kind == FILES:
        yield kind, changed_rows(con, rows, last)


def _compare_states(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if FILES in rows:
        yield _KIND, compare_states(con, rows[FILES])
