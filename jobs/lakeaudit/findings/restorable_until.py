"""Computes until when an older version is retained, from the lifecycle rules of its bucket.

A rule deletes a version a number of days after it was replaced, at the next midnight (UTC), if enough newer noncurrent
versions exist (S3 User Guide, "Lifecycle configuration elements"). Delete markers count as versions: a store that does
not count them keeps the version longer. A rule with a tag filter may match a version or not: the end is unknown unless
another rule deletes the version earlier.
"""

from collections.abc import Sequence

from lakeaudit.findings.finding_rows import COMES_BACK
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows


def restorable_versions(con: Connection, rows: Rows) -> Relation:
    """Return the OLDER_VERSIONS that can restore the files of these verdict rows."""
    sql = f"""
        SELECT DISTINCT bucket, key, s_older_version_id AS version_id, s_older_size AS size,
            s_older_since AS since, s_older_newer AS newer
        FROM input WHERE bucket <> '' AND {COMES_BACK}
    """
    return duck.made_of(con, sql, rows)


def buckets_of(con: Connection, versions: Rows) -> list[str]:
    """Return the buckets of these versions."""
    sql = "SELECT DISTINCT bucket FROM input ORDER BY bucket"
    return [row["bucket"] for row in duck.rows_of(duck.made_of(con, sql, versions))]


def ends(con: Connection, versions: Rows, rules: Rows) -> Relation:
    """Apply VERSION_RULES to OLDER_VERSIONS; a version without a matching rule has no row.

    Columns: bucket, key, version_id, recoverable_until (null: unknown), kept_words (the rule, or why the end is
    unknown), doubt (what is unknown about the bucket's rules; null: nothing).
    """
    sql = f"""
        WITH acts AS (
            SELECT v.*, r.rule, r.days, r.tags, r.unread, {_MIDNIGHT} AS due_at
            FROM input v JOIN rules r ON v.bucket = r.bucket AND (r.unread IS NOT NULL OR (
                starts_with(v.key, r.prefix) AND coalesce(v.newer >= r.newer, true)
                AND coalesce(v.size > r.larger_than, true) AND coalesce(v.size < r.smaller_than, true)))),
        ended AS (
            SELECT bucket, key, version_id, max(unread) AS unread, bool_or(due_at IS NULL) AS undated,
                min(due_at) FILTER (NOT tags) AS sure, arg_min(rule, due_at) FILTER (NOT tags) AS sure_rule,
                min(due_at) FILTER (tags) AS perhaps, min(rule) FILTER (tags) AS tagged,
                min(rule) AS a_rule, arg_min(days, rule) AS its_days
            FROM acts GROUP BY bucket, key, version_id),
        told AS (SELECT *, CASE {_WHY_NOT} END AS why_not, {_DOUBT} AS doubt FROM ended)
        SELECT bucket, key, version_id, CASE WHEN why_not IS NULL THEN sure END AS recoverable_until,
            coalesce('it is unknown how long the version to restore is kept: ' || why_not, {_BY_RULE}) AS kept_words,
            doubt
        FROM told
    """
    return duck.made_of(con, sql, versions, rules=rules)


_DUE = "(v.since + to_days(CAST(r.days AS INTEGER)))"
_DAY = f"CAST(date_trunc('day', {_DUE}) AS TIMESTAMP)"
_MIDNIGHT = f"CASE WHEN {_DAY} = {_DUE} THEN {_DAY} ELSE {_DAY} + to_days(1) END"

_ASKS = "tagged IS NOT NULL AND coalesce(undated OR sure IS NULL OR perhaps < sure, true)"
_WHY_NOT = f"""
    WHEN unread IS NOT NULL THEN unread
    WHEN {_ASKS} THEN 'lifecycle rule ' || tagged || ' selects objects by tags'
    WHEN undated THEN 'lifecycle rule ' || a_rule || ' deletes it ' || its_days
        || ' days after it was replaced, and it is unknown when that was'
"""
_DOUBT = f"""CASE WHEN unread IS NOT NULL THEN unread WHEN {_ASKS} THEN 'rule ' || tagged || ' of s3://' || bucket
    || ' selects objects by tags: it is unknown how long the older versions that it deletes are kept' END"""
_BY_RULE = """'on ' || strftime(sure, '%Y-%m-%d') || ' or later, lifecycle rule ' || sure_rule
    || ' deletes the version that can be restored'"""


def with_ends(con: Connection, rows: Rows, ended: Rows) -> Relation:
    """Add recoverable_until and kept_words of the version that can restore the file to verdict rows."""
    if duck.is_empty(ended):
        return duck.made_of(con, f"SELECT *, {_NEVER} FROM input", rows)
    sql = f"""
        SELECT input.*, recoverable_until, kept_words
        FROM input LEFT JOIN ended
            ON input.bucket = ended.bucket AND input.key = ended.key AND s_older_version_id = version_id
            AND {COMES_BACK}
    """
    return duck.made_of(con, sql, rows, ended=ended)


_NEVER = "CAST(NULL AS TIMESTAMP) AS recoverable_until, CAST(NULL AS VARCHAR) AS kept_words"


def doubts(con: Connection, ended: Rows) -> Sequence[str]:
    """Return the distinct doubts about buckets' rules."""
    sql = "SELECT DISTINCT doubt FROM input WHERE doubt IS NOT NULL ORDER BY doubt"
    return [row["doubt"] for row in duck.rows_of(duck.made_of(con, sql, ended))]
