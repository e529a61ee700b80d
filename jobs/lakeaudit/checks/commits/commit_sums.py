"""Find rewrites that change rows, and overwrites that replaced the same state.

The functions need all COMMIT_SUMS and REPLACED rows of some tables. Only the few results come to the driver.
"""

from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CHANGED_ROWS, COMMIT_SUMS, RIVALS

NO_REWRITES = ("CLONE", "CONVERT", "FSCK", "RESTORE")
"""Beginnings of the names of operations whose actions may declare no data change although rows change."""

_NEWEST = "SELECT table_name, max(reading) AS reading FROM sums GROUP BY table_name"
_WHOLE = f"""
    SELECT table_name, version, max(operation) AS operation, coalesce(bool_or(overwrites), false) AS overwrites,
        max(predicate) AS predicate, max(read_version) AS read_version, coalesce(bool_and(declares), false) AS declares,
        sum(adds)::BIGINT AS adds, sum(removes)::BIGINT AS removes, sum(rows)::BIGINT AS rows,
        sum(uncounted)::BIGINT AS uncounted, (sum(digest::HUGEINT) % {1 << 62})::BIGINT AS digest,
        flatten(list(partitions)) AS partitions
    FROM sums SEMI JOIN ({_NEWEST}) USING (table_name, reading) GROUP BY table_name, version
"""
"""SQL of one row per commit: a large commit is read in several blocks of lines."""


def whole_commits(con: Connection, sums: Rows) -> Relation:
    """Return one row for each commit, from the last reading of each table."""
    return duck.hold(con, duck.query(con, _WHOLE, sums=duck.conform(con, sums, COMMIT_SUMS)))


def changed_rows(con: Connection, commits: Relation, replaced: Rows) -> Relation:
    """Return CHANGED_ROWS rows of rewrites whose row counts are all known and whose removed entries were all listed."""
    other = " OR ".join(f"starts_with(upper(operation), {duck.literal(name)})" for name in NO_REWRITES)
    sql = f"""
        WITH before AS (
            SELECT table_name, version, sum(removed) AS removed, sum(listed) AS listed, sum(rows)::BIGINT AS rows,
                sum(uncounted) AS uncounted
            FROM replaced GROUP BY table_name, version)
        SELECT table_name, version, c.operation, b.rows AS before, c.rows AS after
        FROM commits c JOIN before b USING (table_name, version)
        WHERE c.declares AND c.removes > 0 AND NOT coalesce({other}, false)
            AND c.uncounted = 0 AND b.uncounted = 0 AND b.removed = c.removes AND b.listed = c.removes
            AND b.rows <> c.rows
    """
    return duck.conform(con, duck.query(con, sql, commits=commits, replaced=replaced), CHANGED_ROWS)


_AGAIN = "a.table_name = b.table_name AND a.version < b.version AND a.adds > 0 AND b.adds > 0"
_ONE_PLACE = """(a.predicate = b.predicate
    OR (a.predicate IS NULL AND b.predicate IS NULL AND list_has_any(a.partitions, b.partitions)))"""


def rivals(con: Connection, commits: Relation) -> Relation:
    """Return RIVALS rows: overwrites that read one state and write to one place, or that remove the same entries.

    The removed entries identify writers that record no read version. No writer records whether an overwrite was
    dynamic, so overwrites without a predicate need a partition in common.
    """
    sql = f"""
        WITH overwrites AS (SELECT * FROM commits WHERE overwrites)
        SELECT a.table_name, a.version AS older, b.version AS younger FROM overwrites a JOIN overwrites b
            ON a.read_version = b.read_version AND {_AGAIN} WHERE {_ONE_PLACE}
        UNION SELECT a.table_name, a.version AS older, b.version AS younger FROM overwrites a JOIN overwrites b
            ON a.digest = b.digest AND a.removes = b.removes AND a.removes > 0 AND {_AGAIN}
    """
    return duck.conform(con, duck.query(con, sql, commits=commits), RIVALS)
