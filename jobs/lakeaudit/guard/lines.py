"""Choose the answer about each line of a delete list, which may name several objects."""

from lakeaudit.rules.guard_rules import ABSENT, GUARD, STATUSES, UNKNOWN
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation

_ODD_NAME = next(rule.because for rule in GUARD if rule.id == "guard.odd_name")
_DOUBTED = next(rule.because for rule in GUARD if rule.id == "guard.doubted")
_REASON = f"""CASE WHEN because = {duck.literal(_DOUBTED)} THEN concat_ws(': ', because, r_unknown)
    WHEN r_read IS NOT NULL AND status = 'referenced' THEN coalesce(r_read, because) ELSE because END"""
_ANSWER = f"""bucket, key, status, {_REASON} AS reason, coalesce(r_live_table, r_history_table, owner) AS table_name,
    r_version AS table_version, r_records AS "rows", CASE WHEN status = 'promised' THEN r_until END AS until,
    size, etag, version_id, modified_at"""


def line_answers(con: Connection, named: Relation, judged: Relation) -> Relation:
    """Return an answer for each text of the list that names a file, and for each that names none.

    The most protecting answer holds for a line. An object that does not exist says nothing about a line that may also
    name one that exists.
    """
    once = f"SELECT line, lines, text, {_ANSWER} FROM judged WHERE lines = 1"
    again = f"""SELECT min(named.line) AS line, count(*) AS lines, named.text, {_ANSWER}
        FROM (SELECT * EXCLUDE (line, lines, text) FROM judged WHERE lines > 1) JOIN named USING (bucket, key)
        WHERE NOT several AND fault IS NULL GROUP BY ALL"""
    faults = f"""SELECT min(line) AS line, count(*) AS lines, text, {duck.literal(UNKNOWN)} AS status, fault AS reason
        FROM named WHERE fault IS NOT NULL GROUP BY text, fault"""
    ranks = " ".join(
        f"WHEN status = {duck.literal(status)} THEN {rank}" for rank, status in enumerate(STATUSES)
    )
    rank = f"CASE WHEN because = {duck.literal(_ODD_NAME)} THEN {STATUSES.index(ABSENT)} - 0.5 {ranks} END"
    several = f"""
        WITH each AS (SELECT named.line AS of_line, named.text AS of_text, j.*
            FROM named JOIN judged j USING (bucket, key) WHERE several AND fault IS NULL),
        best AS (SELECT * FROM each QUALIFY row_number() OVER (
            PARTITION BY of_line ORDER BY {rank}, bucket, key) = 1)
        SELECT min(of_line) AS line, count(*) AS lines, of_text AS text, {_ANSWER} FROM (
            SELECT * EXCLUDE (line, lines, text) FROM best) GROUP BY ALL
    """
    parts = [duck.query(con, sql, named=named, judged=judged) for sql in (once, again, several, faults)]
    return duck.hold(con, duck.union(con, parts))
