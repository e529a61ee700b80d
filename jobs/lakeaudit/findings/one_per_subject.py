"""Keeps one finding per subject: all findings about one subject on one axis are one discrepancy.

File rules, witnesses of states, evidence gaps and bulk changes can all concern one subject. The worst of them is
reported, among equals the one whose kind comes first in the rules, and its explanation names the others.
"""

from functools import cache

from lakeaudit.matching.verdicts import severity_rank
from lakeaudit.rules.file_rules import RULES
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

NAMED = 5
"""The number of other findings that an explanation names; the rest is counted."""


@cache
def kind_order() -> tuple[str, ...]:
    """Return every kind, in the order of the first rule that reports it."""
    return tuple(dict.fromkeys(rule.verdict for rule in RULES.values() if rule.is_finding))


def one_per_subject(con: Connection, findings: Rows) -> Relation:
    """Return FINDINGS with one row per discrepancy_id. Rows are read more than once."""
    if duck.is_empty(findings):
        return duck.relation(con, findings)
    repeated = "SELECT discrepancy_id FROM input GROUP BY discrepancy_id HAVING count(*) > 1"
    ids = duck.table(duck.made_of(con, repeated, findings))
    if not ids.num_rows:
        return duck.relation(con, findings)
    kinds = duck.literals(kind_order())
    sql = f"""
        WITH several AS (
            SELECT *, row_number() OVER (
                PARTITION BY discrepancy_id ORDER BY {severity_rank()},
                    coalesce(list_position([{kinds}], kind), {len(kind_order())} + 1), kind, explanation, files) AS turn
            FROM findings SEMI JOIN ids USING (discrepancy_id)),
        others AS (
            SELECT discrepancy_id, list(kind || ' (' || severity || '): ' || coalesce(explanation, '') ORDER BY turn)
                AS words FROM several WHERE turn > 1 GROUP BY discrepancy_id)
        SELECT findings.* FROM findings ANTI JOIN ids USING (discrepancy_id)
        UNION ALL BY NAME
        SELECT several.* EXCLUDE (turn) REPLACE (
            coalesce(explanation, '') || '; also ' || array_to_string(words[1:{NAMED}], '; also ')
            || CASE WHEN len(words) > {NAMED} THEN '; and ' || (len(words) - {NAMED}) || ' more' ELSE '' END
            AS explanation)
        FROM several JOIN others USING (discrepancy_id) WHERE turn = 1
    """
    return duck.query(con, sql, findings=findings, ids=ids)
