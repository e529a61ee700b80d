"""Choose the answer about each line of a delete list, which may name several objects."""

from lakeaudit.rules.guard_rules import ABSENT, GUARD, STATUSES, UNKNOWN
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation

_ODD_NAME = next(rule.because for rule in GUARD if rule.id == "guard.odd_name")
_DOUBTED = next(rule.because for rule in GUARD if rule.id == "guard.doubted")
_REASON = f"""CASE WHEN because = {duck.literal(_DOUBTED)} THEN concat_ws(': ', because, r_unknown)
    WHEN r_read IS NOT NULL AND status = 'referenced' THEN coalesce(r_read, because) ELSE because END"""
_TEXT = "coalesce(text, scheme || bucket || '/' || key, key) AS text"
_ANSWER = f"""{_TEXT}, bucket, key, status, {_REASON} AS reason,
    coalesce(r_live_table, r_history_table, owner) AS table_name, r_version AS table_version, r_records AS "rows",
    CASE WHEN status = 'promised' THEN r_until END AS until, size, etag, version_id, modified_at"""


def line_answers(con: Connection, listed: Relation, alone: Relation, several: Relation) -> Relation:
    """Return an answer for each text of the list that names a file, and for each that names none.

    The most protecting answer holds for a line. An object that does not exist says nothing about a line that may also
    name one that exists.

    Args:
        con: the driver's connection.
        listed: rows of `distinct_lines`.
        alone: judged keys of lines that name one object.
        several: judged keys of lines that name several.
    """
    once = f"SELECT line, lines, {_ANSWER} FROM alone"
    faults = f"""SELECT min(line) AS line, sum(lines)::BIGINT AS lines, text, {duck.literal(UNKNOWN)} AS status,
        fault AS reason FROM listed WHERE fault IS NOT NULL GROUP BY text, fault"""
    ranks = " ".join(
        f"WHEN status = {duck.literal(status)} THEN {rank}" for rank, status in enumerate(STATUSES)
    )
    rank = f"CASE WHEN because = {duck.literal(_ODD_NAME)} THEN {STATUSES.index(ABSENT)} - 0.5 {ranks} END"
    best = f"""
        SELECT min(line) AS line, count(*) AS lines, * EXCLUDE line FROM (
            SELECT line, {_ANSWER} FROM several
            QUALIFY row_number() OVER (PARTITION BY line ORDER BY {rank}, bucket, key) = 1) GROUP BY ALL
    """
    named = {"listed": listed, "alone": alone, "several": several}
    parts = [duck.query(con, sql, **named) for sql in (once, best, faults)]
    return duck.hold(con, duck.union(con, parts))
