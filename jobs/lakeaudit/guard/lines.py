"""Choose the answer about each line of a delete list, which may name several objects."""

from lakeaudit.rules.guard_rules import GUARD, STATUSES, UNKNOWN
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation


def answered_lines(con: Connection, named: Relation, judged: Relation) -> Relation:
    """Return for each distinct text of the list the most protecting answer about the objects that it may name.

    An object that does not exist says nothing about a line that may also name one that exists.
    """
    ranks = " ".join(f"WHEN {duck.literal(status)} THEN {rank}" for rank, status in enumerate(STATUSES))
    sql = f"""
        WITH answered AS (
            SELECT named.text, named.line, named.bucket, named.key,
                coalesce(j.status, {duck.literal(UNKNOWN)}) AS status,
                coalesce(named.fault, {_reason("j")}) AS reason, j.* EXCLUDE (bucket, key, status, because)
            FROM named LEFT JOIN judged j ON named.fault IS NULL AND named.bucket = j.bucket AND named.key = j.key)
        SELECT min(line) AS line, count(DISTINCT line) AS lines, text,
            arg_min(struct_pack(bucket, key, status, reason,
                table_name := coalesce(r_live_table, r_history_table, owner), table_version := r_version,
                rows := r_records, until := r_until, size, etag, version_id, modified_at),
                (CASE status {ranks} END, bucket, key)) AS best
        FROM answered GROUP BY text
    """
    chosen = duck.query(con, sql, named=named, judged=judged)
    return duck.hold(con, duck.query(con, "SELECT line, lines, text, best.* FROM chosen", chosen=chosen))


def _reason(row: str) -> str:
    """Return SQL for the reason of a status in one sentence."""
    return f"""CASE {row}.status
        WHEN 'unknown' THEN concat_ws(': ', {row}.because, CASE WHEN {row}.because = {duck.literal(_DOUBTED)}
            THEN {row}.r_unknown END)
        ELSE coalesce({row}.r_read, {row}.because) END"""


_DOUBTED = next(rule.because for rule in GUARD if rule.id == "guard.doubted")
