"""Find commits that do not fit the state before them, while all steps of some keys are replayed anyway.

A commit that removes a file that no state lists removes nothing: the intended file stays, and so do its rows. A state
that is only known from a checkpoint on may have listed the file before, so a removal counts there only if readers still
read the file by another entry. Tables with unknown versions are not judged.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from lakeaudit.evidence.manifest.delta.log.paths import KIND
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import IDLE_REMOVALS, REPLACED

COLUMNS = ("table_name", "reading", "base")
"""The columns of `replay.TABLE` that this module uses."""

_FILE = "table_name, bucket, key"
_OF_DATA = "category = 'data'"
_MAY_TAKE_OUT = f"NOT checkpoint AND {_OF_DATA} AND (NOT added OR NOT data_change)"
"""Condition for removals and for entries that rewrites list again."""


def contradictions(tables: pa.Table, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """Yield REPLACED and IDLE_REMOVALS rows of a share; `tables` are those of which every version is known."""
    if KIND not in rows or not tables.num_rows:
        return
    sql = """SELECT s.*, t.base FROM steps s JOIN tables t ON s.table_name = t.table_name AND s.reading = t.reading"""
    steps = duck.query(con, sql, steps=rows[KIND], tables=tables.select(list(COLUMNS)))
    removed = duck.table(
        duck.query(con, f"SELECT DISTINCT {_FILE} FROM input WHERE {_MAY_TAKE_OUT}", input=steps)
    )
    if not removed.num_rows:
        return
    touched = duck.hold(con, duck.query(con, _TOUCHED, steps=steps, removed=removed))
    yield "idle_removals", idle_removals(con, touched)
    yield "replaced", replaced(con, touched)


_TOUCHED = f"""SELECT {_FILE}, base, pair, version, bool_or(added) AS added, bool_or(NOT added) AS removed,
        bool_or(checkpoint) AS checkpoint, max(records) FILTER (added) AS records, max(size) AS size,
        bool_and(coalesce(NOT data_change, false)) AS declares
    FROM steps SEMI JOIN removed USING ({_FILE}) WHERE {_OF_DATA} GROUP BY {_FILE}, base, pair, version"""
"""All entries by version for the files that some commit removes, or lists again."""

PAIRS = f"""SELECT {_FILE}, base, pair, min(version) AS first, bool_or(added) AS ever_listed,
        bool_or(checkpoint) AS in_checkpoint, arg_max(added, version) AS live, arg_max(records, version) AS records,
        max(size) AS size
    FROM touched GROUP BY {_FILE}, base, pair"""
IDLE = "NOT ever_listed AND NOT in_checkpoint"
"""Condition for an entry of `PAIRS` that was removed, and that no version listed, or removed, before."""


def idle_removals(con: Connection, touched: Relation) -> Relation:
    """Return IDLE_REMOVALS rows; a file is still live if another entry of it, at least as old, is live."""
    sql = f"""
        WITH pairs AS ({PAIRS}),
        idle AS (SELECT {_FILE}, base, pair, first AS version FROM pairs WHERE {IDLE}),
        others AS (
            SELECT idle.*, p.size, p.records, p.key IS NOT NULL AS live
            FROM idle LEFT JOIN pairs p ON p.live AND p.first < idle.version
                AND p.table_name = idle.table_name AND p.bucket = idle.bucket AND p.key = idle.key)
        SELECT table_name, version, bool_and(base < 0) AS from_start, count(DISTINCT (bucket, key)) AS files,
            count(*) FILTER (live) AS live,
            CASE WHEN count(records) = count(*) FILTER (live) THEN CAST(sum(records) AS BIGINT) END AS rows,
            CAST(sum(size) AS BIGINT) AS bytes, min(key) AS sample
        FROM others GROUP BY table_name, version
    """
    return duck.conform(con, duck.query(con, sql, touched=touched), IDLE_REMOVALS)


def replaced(con: Connection, touched: Relation) -> Relation:
    """Return REPLACED rows of the commits that declare no change of rows."""
    sql = """
        WITH acts AS (SELECT * FROM touched WHERE declares AND NOT checkpoint),
        before AS (
            SELECT a.table_name, a.version, a.removed, coalesce(e.added, false) AS listed, e.records
            FROM acts a ASOF LEFT JOIN touched e ON a.table_name = e.table_name AND a.bucket = e.bucket
                AND a.key = e.key AND a.pair = e.pair AND a.version > e.version)
        SELECT table_name, version, count(*) FILTER (removed) AS removed,
            count(*) FILTER (removed AND listed) AS listed,
            CAST(coalesce(sum(records) FILTER (listed), 0) AS BIGINT) AS rows,
            count(*) FILTER (listed AND records IS NULL) AS uncounted
        FROM before GROUP BY table_name, version
    """
    return duck.conform(con, duck.query(con, sql, touched=touched), REPLACED)


def known_tables(rows: pa.Table, whole: frozenset[str]) -> pa.Table:
    """Return the constants of the tables whose versions are all known, as `contradictions` expects them."""
    names = rows.column("table_name").to_pylist()
    return rows.select(list(COLUMNS)).filter(pa.array([name in whole for name in names], pa.bool_()))
