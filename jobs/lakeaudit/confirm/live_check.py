"""Selects suspects for the live check, the worst first, and applies the answers of storage."""

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from lakeaudit.collect.storage_lookups import FROM_HEAD
from lakeaudit.evidence.registry import counting_kinds, row_hiding_kinds
from lakeaudit.kinds import LIVE_AXES
from lakeaudit.matching.verdicts import severity_rank
from lakeaudit.rules.file_facts import CLOCK_STEP
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import ASKED

_IN_AXES = f"axis IN ({duck.literals(LIVE_AXES)})"
_RANK = severity_rank()
_OPEN = "known_as IS NOT NULL"


def limited(con: Connection, suspects: Rows, table_limits: Mapping[str, int]) -> Relation:
    """Return verdict rows that a live check can answer, within each table's limit; tables without a limit have none.

    These are findings and open discrepancies. Adds `turn`: the row's rank within its table, open discrepancies first,
    then the worst.
    """
    limits = duck.small(_LIMITS, list(table_limits.items()))
    sql = f"""
        SELECT suspects.*, row_number() OVER (
            PARTITION BY judged_table
            ORDER BY {_OPEN} DESC, {_RANK}, c_size DESC NULLS LAST, bucket, key, axis
        ) AS turn
        FROM input AS suspects JOIN limits USING (judged_table)
        WHERE {_IN_AXES} AND (outcome = 'finding' OR {_OPEN})
        QUALIFY turn <= most
    """
    return duck.made_of(con, sql, suspects, limits=limits)


_LIMITS = pa.schema([("judged_table", pa.string()), ("most", pa.int64())])


def candidates(con: Connection, limited_rows: Rows, limit: int) -> pa.Table:
    """Return the keys to request, at most `limit`: columns bucket, key.

    Open discrepancies come first, then the worst; among equals tables take turns. The input are rows of `limited`.
    """
    sql = f"""
        SELECT bucket, key FROM input GROUP BY bucket, key
        ORDER BY bool_or({_OPEN}) DESC, min({_RANK}), min(turn),
            max(coalesce(c_size, s_size, m_size)) DESC NULLS LAST, bucket, key
        LIMIT {int(limit)}
    """
    return duck.table(duck.made_of(con, sql, limited_rows))


def with_claims(
    con: Connection, worst: Rows, fresh: Rows, rows: Rows, footers: Sequence[str] = ()
) -> pa.Table:
    """Return ASKED rows of both sorts of keys, the worst first, with the claims of verdict rows.

    A retained older state counts as a claim if the newest state does not list the file. For data files of tables in
    `footers` the first and last bytes are read, too.
    """
    step = duck.literal(CLOCK_STEP)
    of_footer = f"coalesce(judged_table IN ({duck.literals(footers)}) AND category = 'data', false)"
    sql = f"""
        WITH every AS (
            SELECT bucket, key, false AS fresh, row_number() OVER () AS turn FROM worst
            UNION ALL SELECT bucket, key, true, NULL FROM fresh),
        keys AS (SELECT bucket, key, bool_and(fresh) AS fresh, min(turn) AS turn FROM every GROUP BY bucket, key),
        claims AS (
            SELECT bucket, key, min(manifest_claimed_at) AS claimed_at,
                max(manifest_claimed_at + greatest(t_grace, {step})) AS claimed_until,
                CASE WHEN min(c_size) = max(c_size) THEN min(c_size) END AS size,
                CASE WHEN min(c_etag) = max(c_etag) THEN min(c_etag) END AS etag, max(c_least_size) AS least_size,
                max(c_records) FILTER (c_kind IN ({duck.literals(counting_kinds())})) AS records,
                bool_or(c_kind IN ({duck.literals(row_hiding_kinds())})) AS hides_rows, bool_or({of_footer}) AS footer
            FROM rows SEMI JOIN keys USING (bucket, key)
            WHERE c_state = 'live' OR (c_state = 'history' AND NOT r_live) GROUP BY bucket, key)
        SELECT *, false AS current_only FROM keys LEFT JOIN claims USING (bucket, key)
        ORDER BY turn NULLS LAST, bucket, key
    """
    return duck.table(duck.conform(con, duck.query(con, sql, worst=worst, fresh=fresh, rows=rows), ASKED))


def with_answers(
    con: Connection, suspects: Rows, live: pa.Table, unchecked_tables: Collection[str] = ()
) -> Relation:
    """Replace the snapshot columns of verdict rows with the live answer, for keys that were answered.

    `live` are LIVE rows. Candidates beyond the limit get confirmation `limit`, those of tables without live checks
    (`unchecked_tables`) `none`.
    """
    unanswered = (
        f"CASE WHEN judged_table IN ({duck.literals(sorted(unchecked_tables))}) THEN 'none' ELSE 'limit' END"
    )
    given = {f"s_{name}": _live_or_before(f"l_{name}", f"s_{name}") for name in _LIVE_COLUMNS}
    given |= {f"s_{name}": _live_or_before(f"l_{name}", f"s_{name}", _VERSIONS) for name in _OF_VERSIONS}
    given |= {
        "s_from": _live_or_before("l_at", "s_from"),
        "s_margin": f"CASE WHEN {_LIVE} THEN INTERVAL 0 SECOND ELSE suspects.s_margin END",
        "m_from": f"CASE WHEN {_LIVE} THEN greatest(live.l_at, suspects.m_from) ELSE suspects.m_from END",
        "versions_known": "coalesce(live.l_versions_known, false)",
        "l_confirmation": f"CASE WHEN {_IN_AXES} THEN coalesce(live.l_confirmation, {unanswered}) ELSE 'none' END",
    }
    columns = ", ".join(f"{expression} AS {name}" for name, expression in given.items())
    sql = f"SELECT suspects.* REPLACE ({columns}) FROM input AS suspects LEFT JOIN live USING (bucket, key)"
    return duck.made_of(con, sql, suspects, live=live)


_LIVE = "live.l_confirmation = 'live'"
_VERSIONS = f"{_LIVE} AND live.l_versions_known"
_LIVE_COLUMNS = ("presence", "version_id", "versus_claimed", "footer_fault", *FROM_HEAD)
_OF_VERSIONS = (
    "delete_marker",
    "older_version_id",
    "older_size",
    "older_class",
    "older_since",
    "older_newer",
    "older_matches",
    "older_beneath_marker",
)
"""Columns that keep the inventory's older version if the live answer has no versions."""


def _live_or_before(answer: str, before: str, condition: str = _LIVE) -> str:
    return f"CASE WHEN {condition} THEN live.{answer} ELSE suspects.{before} END"
