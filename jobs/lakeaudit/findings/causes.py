"""Finds the request that removed or wrote the object of a finding, in recorded requests. Pure.

Records may be incomplete, so a missing request proves nothing. A cause is named only if the recorded requests fit the
objects in storage, in order and time. Events within one second have no order.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lakeaudit.matching.verdicts import severity_rank
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CAUSE, EFFECT

GONE, CHANGED, ARCHIVED = "gone", "changed", "archived"
EFFECTS = {
    "dropped": GONE,
    "dropped_history": GONE,
    "missing_metadata": GONE,
    "phantom": GONE,
    "overwritten": CHANGED,
    "size_mismatch": CHANGED,
    "content_mismatch": CHANGED,
    "metastore_stale": CHANGED,
    "archived": ARCHIVED,
}
"""By kind the effect on the object."""
MOST = 20_000
"""Keys per run for which a cause is searched, the worst first; they also represent grouped files."""

WRITES, REMOVALS, MOVES = ("put", "copy"), ("delete", "expire"), ("transition",)
CLOCKS = timedelta(minutes=1)
"""The times of an object and of its request may differ by this, in addition to the request's duration."""
LONGEST = timedelta(minutes=15)
"""Assumed duration of a write without a recorded one."""
MULTIPART = ("REST.POST.UPLOAD", "CompleteMultipartUpload", "CREATE in parts")
"""Operations of multipart uploads; the object's time is the start of the upload."""

DEEDS = {
    "delete": "deleted",
    "expire": "expired by a lifecycle rule",
    "put": "overwritten",
    "copy": "overwritten by a copy",
    "transition": "moved to another storage class by a lifecycle rule",
}


def effects(con: Connection, found: Rows) -> Relation:
    """Return EFFECT rows of findings, the worst first: one per key and effect, MOST at most."""
    claimed = "coalesce(c_claimed_at, e_claimed_at, m_last_updated, m_mod_time)"
    sql = f"""
        SELECT bucket, key, effect, max({claimed}) AS claimed_at, max(s_from + s_margin) AS until,
            max(s_modified_at) AS written_at, max(c_version_id) AS version_id
        FROM (SELECT *, {_case("kind", EFFECTS)} AS effect FROM input)
        WHERE effect IS NOT NULL AND {claimed} IS NOT NULL
        GROUP BY bucket, key, effect
        ORDER BY min({severity_rank()}), max(c_size) DESC NULLS LAST, bucket, key LIMIT {MOST}
    """
    return duck.conform(con, duck.query(con, sql, input=found), EFFECT)


def of_these(con: Connection, rows: Rows, effects: Rows) -> Relation:
    """Return the successful changes of these keys from REQUEST rows."""
    actions = duck.literals([*WRITES, *REMOVALS, *MOVES])
    sql = f"""
        SELECT input.* FROM input SEMI JOIN asked USING (bucket, key) WHERE succeeded AND "action" IN ({actions})
    """
    return duck.query(con, sql, input=rows, asked=effects)


def causes(con: Connection, requests: Rows, effects: Rows) -> Relation:
    """Return CAUSE rows, at most one per key and effect, from all changes of some keys.

    Gone: the first removal after the last write, because later removals had no effect. Changed: the last write, if no
    removal follows it and the object has its age. Only requests after the claim and before the storage snapshot count.
    The removal of one version counts only if that version was recorded.
    """
    sql = f"""
        WITH told AS (
            SELECT DISTINCT ON (bucket, key, "action", coalesce(request_id, CAST("at" AS VARCHAR))) *
            FROM requests ORDER BY bucket, key, "action", coalesce(request_id, CAST("at" AS VARCHAR)), "at", operation),
        after AS (
            SELECT told.* EXCLUDE (version_id), effect, written_at,
                "action" IN ({duck.literals(WRITES)}) AS writes, "action" IN ({duck.literals(MOVES)}) AS moves,
                "action" IN ({duck.literals(REMOVALS)})
                    AND (told.version_id IS NULL OR told.version_id IS NOT DISTINCT FROM effects.version_id) AS removes,
                "action" IN ({duck.literals(REMOVALS)}) AND NOT removes AS unsure
            FROM told JOIN effects USING (bucket, key)
            WHERE "at" <= until AND coalesce("at" > claimed_at, true)),
        dated AS (
            SELECT *, max("at") FILTER (writes) OVER per AS last_write,
                max("at") FILTER (removes) OVER per AS last_removal
            FROM after WINDOW per AS (PARTITION BY bucket, key, effect)),
        fitting AS (
            SELECT *, min("at") FILTER (unsure) OVER per AS first_unsure,
                min("at") FILTER ({_FITS}) OVER per AS first_at, max("at") FILTER ({_FITS}) OVER per AS last_at
            FROM dated WINDOW per AS (PARTITION BY bucket, key, effect))
        SELECT bucket, key, effect, any_value("action") AS "action", min(operation) AS operation, "at" AS cause_at,
            min(principal) AS cause_principal, min(request_id) AS request_id, min(job) AS job
        FROM fitting
        WHERE {_FITS} AND "at" = CASE WHEN effect = '{GONE}' THEN first_at ELSE last_at END
            AND NOT coalesce(effect = '{GONE}' AND first_unsure <= "at", false)
        GROUP BY bucket, key, effect, "at"
        HAVING count(DISTINCT coalesce(principal, '')) = 1 AND count(DISTINCT "action") = 1
    """
    return duck.conform(con, duck.query(con, sql, requests=requests, effects=effects), CAUSE)


_AS_OLD = f"""coalesce(written_at <= "at" + to_milliseconds(took_ms) + {duck.literal(CLOCKS)}
    AND (operation IN ({duck.literals(MULTIPART)}) OR written_at >= "at" - {duck.literal(CLOCKS)}), true)""".replace(
    "took_ms", f"coalesce(took, {LONGEST // timedelta(milliseconds=1)})"
)
_FITS = f"""(CASE effect
    WHEN '{GONE}' THEN removes AND coalesce("at" > last_write, true)
    WHEN '{CHANGED}' THEN writes AND "at" = last_write AND coalesce("at" > last_removal, true) AND {_AS_OLD}
    ELSE moves AND coalesce("at" > last_write, true) END)"""


def with_causes(con: Connection, findings: Rows, causes: Rows) -> Relation:
    """Add known causes to FINDINGS rows about single files."""
    sql = f"""
        SELECT findings.* REPLACE (
            CASE WHEN c.action IS NULL THEN findings.cause
                ELSE {_case("c.action", DEEDS)} || ' (' || c.operation || ')' END AS cause,
            coalesce(c.cause_at, findings.cause_at) AS cause_at,
            coalesce(c.cause_principal, findings.cause_principal) AS cause_principal,
            findings.explanation || coalesce(
                '; by request ' || c.request_id || coalesce(', which names ' || c.job, ''), '') AS explanation)
        FROM findings LEFT JOIN causes c ON findings.bucket = c.bucket AND findings.key = c.key
            AND findings.subject_type = 'file' AND c.effect = {_case("findings.kind", EFFECTS)}
    """
    return duck.query(con, sql, findings=findings, causes=causes)


def _case(of: str, words: Mapping[str, str]) -> str:
    """Return SQL that maps values to words; null without a word."""
    cases = " ".join(f"WHEN {duck.literal(value)} THEN {duck.literal(word)}" for value, word in words.items())
    return f"(CASE {of} {cases} END)"


def most_common(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the most common known cause of the files of a bulk change."""
    common = change.get("common")
    if common is None:
        return {}
    return {
        "cause": f"{common['cause']}, the most common cause of its files",
        "cause_principal": common["principal"],
        "cause_at": change["first_cause_at"],
    }
