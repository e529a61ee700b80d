"""Find out whether readers that list folders use base files which no state lists, by the files of their file groups.

Such readers use the newest base file of a file group whose instant counts as completed (`protocol.CommittedNames`),
unless an instant of the timeline replaced the group (`AbstractTableFileSystemView` of Apache Hudi). hudi-rs reads the
same files; it refuses any file group with two base files of one instant.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import pyarrow as pa

from lakeaudit.evidence.manifest.hudi.state.readings import Reading
from lakeaudit.evidence.manifest.hudi.state.rows import FILE, FILES
from lakeaudit.evidence.protocol import Engine
from lakeaudit.keys import HUDI_BASE
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import SLICE

_ANSWERS = "hudi_slices"
"""The kind of row that carries the answers."""
_GROUP = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("table_name", "bucket", "file_group")),
        pa.field("reading", pa.int64()),
    ]
)
_REPLACED = pa.schema([("table_name", pa.string()), ("file_group", pa.string())])
_ANSWER = pa.schema(
    [*_GROUP, *(FILE.field(name) for name in ("key", "state", "slice", "hidden", "at", "records"))]
)


def listed_slices(reading: Reading, engine: Engine, con: Connection, leftovers: Rows) -> Rows:
    """Return SLICE rows of unused files that bear an instant which counts as completed."""
    numbers = {read.name: read.number for read in reading.tables}
    mine = duck.hold(con, _with_groups(con, leftovers, numbers))
    if duck.is_empty(mine):
        return SLICE.empty_table()
    groups = duck.table(
        duck.conform(
            con,
            duck.made_of(con, "SELECT DISTINCT table_name, bucket, file_group, reading FROM input", mine),
            _GROUP,
        )
    )
    met = engine.meet(reading.kept, partial(_of_groups, groups), _answers)
    files = pa.Table.from_batches(met.batches(_ANSWERS), _ANSWER)
    unknown = duck.small(_REPLACED, [*_replaced_without_files(reading)])
    return duck.conform(con, duck.query(con, _JUDGED, mine=mine, files=files, unknown=unknown), SLICE)


def _replaced_without_files(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield file groups that instants of the timeline replaced, and of which no instant names a file."""
    for read in reading.tables:
        names = {name for groups in read.replaced.values() for name in groups.names}
        yield from ((read.name, name) for name in sorted(names))


def _with_groups(con: Connection, leftovers: Rows, numbers: Mapping[str, int]) -> Relation:
    """Add file group and slice to the rows, as FILE rows name them."""
    tables = duck.small(_NUMBERS, list(numbers.items()))
    name = "regexp_extract(relative, '([^/]*)$', 1)"
    instant = f"regexp_extract(key, {duck.pattern(HUDI_BASE)}, 1)"
    sql = f"""
        SELECT judged_table AS table_name, reading, bucket, key,
            rtrim(left(relative, length(relative) - length({name})), '/') || '/'
                || split_part({name}, '_', 1) AS file_group,
            CASE length({instant}) WHEN 14 THEN {instant} || '999' ELSE {instant} END AS slice
        FROM input JOIN tables ON judged_table = name WHERE {instant} <> ''"""
    return duck.query(con, sql, input=leftovers, tables=tables)


_NUMBERS = pa.schema([("name", pa.string()), ("reading", pa.int64())])


def _of_groups(groups: pa.Table, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Yield the FILE rows of these groups."""
    if kind == FILES:
        sql = "SELECT input.* FROM input SEMI JOIN groups USING (table_name, bucket, file_group, reading)"
        yield kind, duck.query(con, sql, input=rows, groups=groups)


def _answers(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if FILES in rows:
        yield _ANSWERS, duck.conform(con, rows[FILES], _ANSWER)


_GROUPED = "table_name, bucket, file_group"
_JUDGED = f"""
    WITH bases AS (SELECT * FROM files WHERE regexp_matches(key, {duck.pattern(HUDI_BASE)})),
    groups AS (
        SELECT {_GROUPED}, max(slice) FILTER (state = 'live') AS live_slice, bool_or(hidden) AS hidden
        FROM bases GROUP BY {_GROUPED}),
    twins AS (SELECT DISTINCT {_GROUPED}, slice, true AS is_twin FROM bases WHERE state IN ('live', 'history')),
    ranked AS (SELECT *, max(slice) OVER (PARTITION BY {_GROUPED}) AS newest_there FROM mine)
    SELECT table_name AS judged_table, bucket, key,
        coalesce(is_twin, false) OR (NOT coalesce(groups.hidden, unknown.file_group IS NOT NULL)
            AND slice >= coalesce(live_slice, '') AND slice = newest_there) AS taken,
        stray."at" AS removed_at, stray.records
    FROM ranked LEFT JOIN groups USING ({_GROUPED}) LEFT JOIN unknown USING (table_name, file_group)
    LEFT JOIN twins USING ({_GROUPED}, slice)
    LEFT JOIN (SELECT table_name, bucket, key, "at", records FROM bases WHERE state = 'stray') stray
        USING (table_name, bucket, key)"""
