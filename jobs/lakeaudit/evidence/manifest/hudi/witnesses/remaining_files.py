"""Count the files that stay if a write replaced unknown file groups: the older live files of their folders.

An overwrite of a partition, and its removal, replace all file groups that it had. Only such a claim costs this pass
over the rows; a clustering replaces only some file groups, so that its own rows show the rows that are read twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakeaudit.evidence.lineage import IDLE_REMOVAL, Stake, Witness
from lakeaudit.evidence.manifest.hudi.state.readings import Reading, TableReading
from lakeaudit.evidence.manifest.hudi.state.rows import FILES
from lakeaudit.evidence.manifest.hudi.timeline.names import instant_of
from lakeaudit.evidence.manifest.hudi.timeline.payload import MOST_ROWS
from lakeaudit.evidence.manifest.hudi.timeline.write_facts import CLUSTER
from lakeaudit.evidence.protocol import Context
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

_STAYS = "hudi_stays"
_PLACE = pa.schema(
    [("table_name", pa.string()), ("reading", pa.int64()), ("folder", pa.string()), ("instant", pa.string())]
)
_COUNT = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("table_name", "instant")),
        *(pa.field(name, pa.int64()) for name in ("files", "known", "rows", "bytes")),
    ]
)
_Stakes = Mapping[tuple[str, str], Stake]


def with_remaining_files(reading: Reading, ctx: Context, witnesses: Sequence[Witness]) -> list[Witness]:
    """Add to the witnesses of idle replacements the files and rows that readers still get."""
    tables = {read.name: read for read in reading.tables}
    places = [place for one in witnesses for place in _places(tables[one.table], one)]
    if not places:
        return list(witnesses)
    stakes = _stakes(reading, ctx, places)
    judged = {(table, instant) for table, _, _, instant in places}
    return [
        replace(one, stake=stakes.get(at, Stake(0, 0, 0)))
        if one.claim == IDLE_REMOVAL and (at := (one.table, instant_of(one.number or 0))) in judged
        else one
        for one in witnesses
    ]


def _places(read: TableReading, one: Witness) -> Iterator[tuple[str, int, str, str]]:
    """Yield the folders whose file groups should all be replaced; none if not all are known."""
    groups = read.replaced.get(instant_of(one.number or 0))
    name = one.subject.rpartition("/")[2]
    if one.claim != IDLE_REMOVAL or groups is None or len(groups.names) < groups.unknown:
        return
    if name in read.facts and read.facts[name].operation != CLUSTER:
        for folder in sorted({group.rpartition("/")[0] for group in groups.names}):
            yield read.name, read.number, folder, instant_of(one.number or 0)


def _stakes(reading: Reading, ctx: Context, places: Sequence[tuple[str, int, str, str]]) -> _Stakes:
    """Return by table and instant the sums of older live files of these folders; log files count no rows."""
    met = ctx.engine.meet(reading.kept, partial(_older_files, duck.small(_PLACE, places)), _count_files)
    found: dict[tuple[str, str], list[dict[str, int]]] = {}
    for batch in met.batches(_STAYS):
        for row in batch.to_pylist():
            found.setdefault((row["table_name"], row["instant"]), []).append(row)
    return {at: _sum(rows) for at, rows in found.items()}


def _sum(rows: Sequence[Mapping[str, int]]) -> Stake:
    files, known, counted, size = (
        sum(row[name] for row in rows) for name in ("files", "known", "rows", "bytes")
    )
    return Stake(files, counted if known == files else None, size)


def _older_files(places: pa.Table, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if kind == FILES:
        sql = """SELECT input.*, instant FROM input JOIN places USING (table_name, reading, folder)
            WHERE state = 'live' AND category = 'data' AND slice < instant"""
        yield kind, duck.query(con, sql, input=rows, places=places)


def _count_files(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if FILES in rows:
        sql = f"""SELECT table_name, instant, count(*) AS files, count(records) AS known,
                least(coalesce(sum(records), 0), {MOST_ROWS})::BIGINT AS rows,
                least(coalesce(sum(size), 0), {MOST_ROWS})::BIGINT AS bytes
            FROM input GROUP BY table_name, instant"""
        yield _STAYS, duck.conform(con, duck.query(con, sql, input=rows[FILES]), _COUNT)
