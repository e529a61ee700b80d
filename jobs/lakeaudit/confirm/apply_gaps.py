"""Applies gaps: sets the columns by which the rules know that evidence is incomplete.

Gaps can only clear findings, never add one. They are applied to suspects alone, after all evidence was read and every
unreadable row was counted.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from lakeaudit.findings.absence_ceiling import SampleCheck, doubts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows


def with_gaps(con: Connection, rows: Rows, holed_sources: Collection[str]) -> Relation:
    """Set h_storage and h_metastore of rows with PAIR columns."""
    sources = duck.literals(sorted(holed_sources))
    sql = f"""
        SELECT * REPLACE (coalesce(s_source IN ({sources}), false) AS h_storage,
            coalesce(m_source IN ({sources}), false) AS h_metastore)
        FROM input
    """
    return duck.made_of(con, sql, rows)


def with_doubted_sources(con: Connection, rows: Rows, sample_checks: Sequence[SampleCheck]) -> Relation:
    """Set h_storage and h_metastore of tables whose source lacks too many files to be trusted."""
    columns = {"h_storage": ["h_storage"], "h_metastore": ["h_metastore"]}
    for check in doubts(sample_checks):
        gap, source = (
            ("h_storage", "s_source") if check.missing.role == "storage" else ("h_metastore", "m_source")
        )
        table, doubted = duck.literal(check.missing.table), duck.literal(check.missing.source)
        columns[gap].append(f"coalesce(judged_table = {table} AND {source} = {doubted}, false)")
    replaced = ", ".join(f"{' OR '.join(conditions)} AS {gap}" for gap, conditions in columns.items())
    return duck.made_of(con, f"SELECT * REPLACE ({replaced}) FROM input", rows)


def assumed_vacuums(con: Connection, removals: Rows) -> list[dict[str, Any]]:
    """Return tables whose absent history an unlogged VACUUM explains, from the kernel's `removals` rows.

    Delta writes no VACUUM into a log on S3 by default. One is assumed if every removal at least as old as the
    youngest absent one is absent too. One absent file alone may be a loss, so a second one is needed, or a removal
    that had passed the retention before the cutoff. Each row: vacuumed, vacuumed_to (that youngest removal),
    vacuumed_files.
    """
    sql = """
        SELECT table_name AS vacuumed, max(absent_until) AS vacuumed_to,
            CAST(sum(absent_files) AS BIGINT) AS vacuumed_files
        FROM input GROUP BY table_name
        HAVING (sum(absent_files) > 1 OR sum(expired_files) > 0)
            AND coalesce(min(present_from) > max(absent_until), true)
        ORDER BY table_name
    """
    return duck.rows_of(duck.made_of(con, sql, removals))


def with_vacuums(con: Connection, rows: Rows, vacuumed: Iterable[str]) -> Relation:
    """Set v_assumed of rows whose table an assumed VACUUM explains."""
    names = duck.literals(sorted(vacuumed))
    its_own = (
        "coalesce(owner, table_name) = table_name"  # a clone's VACUUM does not delete files of its source
    )
    sql = f"SELECT * REPLACE (coalesce(table_name IN ({names}) AND {its_own}, false) AS v_assumed) FROM input"
    return duck.made_of(con, sql, rows)
