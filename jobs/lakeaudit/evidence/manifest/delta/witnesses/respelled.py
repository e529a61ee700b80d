"""Compare removals of unlisted paths with files whose paths are the same once they are decoded again.

A writer that escapes a path once more, or once less, than the writer before it names another file; so does a writer
that uses the table's old location. Rows of a table meet by the file's own name. Only tables with such a removal are
read.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakeaudit.evidence.manifest.delta.log.paths import KIND, decoded
from lakeaudit.evidence.manifest.delta.state.readings import Readings
from lakeaudit.evidence.manifest.delta.witnesses.contradictions import IDLE, PAIRS
from lakeaudit.evidence.protocol import BufferedRows, Context, Part, pieces
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import IDLE_REMOVALS

_BY_NAME = "tagged"
"""The kind of row that is grouped by its bucket and `tag`."""
_FOUND = "idle_removals"


@dataclass(frozen=True)
class RespelledFiles:
    """Holds the tables of a reading, their `constants`, and those of the tables whose every version is known."""

    readings: Readings
    ctx: Context
    constants: pa.Table
    whole: pa.Table

    def idle_removals(self, tables: Collection[str]) -> pa.Table:
        """Return IDLE_REMOVALS rows of the removals that were intended for another live file of their table."""
        known = duck.small(
            _ROOTS,
            [
                (row["table_name"], row["reading"], row["base"], row["root_bucket"], row["root_prefix"])
                for row in self.constants.to_pylist()
                if row["table_name"] in tables and row["table_name"] in self.whole["table_name"].to_pylist()
            ],
        )
        rows: list[Part | BufferedRows] = [*pieces(*self.readings.rows_of(tables))]
        kept = self.ctx.engine.meet(rows, partial(_by_name, known), _match_removals)
        return pa.Table.from_batches(kept.batches(_FOUND), IDLE_REMOVALS)


_ROOTS = pa.schema(
    [
        *[("table_name", pa.string()), ("reading", pa.int64()), ("base", pa.int64())],
        *[("root_bucket", pa.string()), ("root_prefix", pa.string())],
    ]
)


def _decode_again(path: str) -> str:
    """Return SQL that decodes a path once more, if possible."""
    return f"coalesce({decoded(path)}, {path})"


def _by_name(known: pa.Table, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Yield the steps of data files by the names of the files; the bucket of a row is the table's own."""
    if kind != KIND:
        return
    below = "s.bucket = t.root_bucket AND starts_with(s.key, t.root_prefix)"
    sql = f"""
        WITH steps AS (
            SELECT s.*, t.base, t.root_bucket, s.key AS path,
                CASE WHEN {below} THEN substr(s.key, length(t.root_prefix) + 1) END AS inside
            FROM input s JOIN tables t ON s.table_name = t.table_name AND s.reading = t.reading
            WHERE s.category = 'data'),
        once AS (SELECT * REPLACE ({_decode_again("path")} AS path, {_decode_again("inside")} AS inside) FROM steps),
        twice AS (SELECT * REPLACE ({_decode_again("path")} AS path, {_decode_again("inside")} AS inside) FROM once)
        SELECT root_bucket AS bucket, regexp_extract(path, '[^/]*$') AS tag, bucket AS store, table_name, key, path,
            inside, base, pair, version, added, checkpoint, records, size, data_change
        FROM twice
    """
    yield _BY_NAME, duck.query(con, sql, input=rows, tables=known)


_SAME = """CASE WHEN i.inside IS NOT NULL AND p.inside IS NOT NULL THEN i.inside = p.inside
    WHEN p.inside IS NOT NULL THEN ends_with(i.path, '/' || p.inside)
    WHEN i.inside IS NOT NULL THEN ends_with(p.path, '/' || i.inside)
    ELSE i.path = p.path END"""


def _match_removals(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """Join removals of unlisted files, by file name, with the live files for which they were intended."""
    if _BY_NAME not in rows:
        return
    touched = """SELECT table_name, store AS bucket, key, base, pair, version, bool_or(added) AS added,
            bool_or(checkpoint) AS checkpoint, max(records) FILTER (added) AS records, max(size) AS size
        FROM input GROUP BY ALL"""
    names = "SELECT DISTINCT table_name, store AS bucket, key, tag, path, inside FROM input"
    sql = f"""
        WITH pairs AS (SELECT * FROM ({PAIRS}) JOIN names USING (table_name, bucket, key)),
        idle AS (SELECT * FROM pairs WHERE {IDLE}),
        meant AS (
            SELECT i.table_name, i.first AS version, i.base, i.key, max(p.records) AS records, max(p.size) AS size
            FROM idle i JOIN pairs p ON i.table_name = p.table_name AND i.tag = p.tag AND p.live
                AND p.first < i.first AND (i.bucket <> p.bucket OR i.key <> p.key)
            WHERE {_SAME} GROUP BY ALL)
        SELECT table_name, version, bool_and(base < 0) AS from_start, CAST(0 AS BIGINT) AS files,
            count(*) AS live, CASE WHEN count(records) = count(*) THEN CAST(sum(records) AS BIGINT) END AS rows,
            CAST(sum(size) AS BIGINT) AS bytes, min(key) AS sample
        FROM meant GROUP BY table_name, version
    """
    steps = duck.relation(con, rows[_BY_NAME])
    one = duck.query(con, touched, input=steps)
    found = duck.query(con, sql, touched=one, names=duck.query(con, names, input=steps))
    yield _FOUND, duck.conform(con, found, IDLE_REMOVALS)
