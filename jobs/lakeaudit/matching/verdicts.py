"""Judges PAIR rows: one row per (axis, table, key) with the rule that fired, its outcome, kind and severity.

Columns in addition to those of PAIR: axis, judged_table, rule, outcome (consistent, finding, ignored, out_of_window,
undecided, uncovered), kind, severity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache

import pyarrow as pa

from lakeaudit.config import Ignore, Table, glob_to_regex
from lakeaudit.kinds import KINDS, SEVERITIES
from lakeaudit.rules import file_rules
from lakeaudit.rules.classify import apply_rules
from lakeaudit.rules.file_facts import ALL_FACTS
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

JUDGED_TABLE = {
    "content": "table_name",
    # an unlisted file in the table's folders is visible to readers of folders
    "duplicate": "coalesce(table_name, owner)",
    "leftover": "CASE WHEN first THEN owner END",
    "metastore": "CASE WHEN first THEN owner END",
}
"""By axis the SQL for the table that a PAIR row is judged for."""


@dataclass(frozen=True)
class FindingPolicy:
    """The scope, severities and ignores of the lake file: plain data that travels to the tasks.

    `scope` are the tables to be judged; `severities` (for_table, for_kind, lake_severity) replace a kind's own;
    `ignored` is a condition over kind, relative and judged_table.
    """

    scope: tuple[str, ...]
    severities: pa.Table
    ignored: str

    @property
    def scope_table(self) -> pa.Table:
        """Return the tables to be judged in a column scope_table."""
        return pa.table({"scope_table": pa.array(self.scope, pa.string())})


_SEVERITY = pa.schema([("for_table", pa.string()), ("for_kind", pa.string()), ("lake_severity", pa.string())])
_MEANING = pa.schema(
    [("id", pa.string()), ("verdict", pa.string()), ("kind", pa.string()), ("base", pa.string())]
)


def finding_policy(tables: Sequence[Table], ignores: Sequence[Ignore], today: date) -> FindingPolicy:
    """Return the policy for findings about these tables on that day."""
    said = [(t.name, kind, severity) for t in tables for kind, severity in t.severities.items()]
    conditions = [_ignore(entry) for entry in ignores if entry.holds_on(today)]
    scope = tuple(table.name for table in tables)
    return FindingPolicy(scope, duck.small(_SEVERITY, said), " OR ".join(conditions) or "false")


def verdicts(con: Connection, fired_rules: Rows, policy: FindingPolicy) -> Relation:
    """Return verdict rows of the tables in scope, from PAIR rows with their rules."""
    return with_outcome(con, _in_scope(con, _long(con, fired_rules), policy), policy)


def settled(con: Connection, fired_rules: Rows, policy: FindingPolicy, known: Rows) -> Relation:
    """Tally files without a finding and without an open discrepancy, see `coverage.count`."""
    narrow = " UNION ALL ".join(
        f"""SELECT '{axis}' AS axis, {judged} AS judged_table, rule_{axis} AS rule, bucket, key,
            coalesce(s_size, c_size) AS size FROM fired WHERE rule_{axis} IN ({_quiet(axis)})"""
        for axis, judged in JUDGED_TABLE.items()
    )
    sql = f"""
        SELECT judged_table, axis, verdict AS outcome, CAST(sum(files) AS BIGINT) AS files,
            CAST(coalesce(sum(bytes), 0) AS BIGINT) AS bytes,
            CAST(0 AS BIGINT) AS unconfirmed, CAST(0 AS BIGINT) AS refuted
        FROM (SELECT judged_table, axis, rule, count(*) AS files, sum(size) AS bytes
            FROM ({narrow}) ANTI JOIN (SELECT * FROM known WHERE known_as IS NOT NULL) k
                USING (axis, judged_table, bucket, key)
            GROUP BY judged_table, axis, rule)
        JOIN meaning ON rule = id SEMI JOIN scope ON judged_table = scope_table
        GROUP BY judged_table, axis, outcome
    """
    return duck.query(con, sql, fired=fired_rules, known=known, meaning=_meanings(), scope=policy.scope_table)


def _quiet(axis: str) -> str:
    """Return the rules of an axis with an outcome other than a finding or `none`, for an IN."""
    ids = {r.id for r in file_rules.PAIR_AXES[axis] if not r.is_finding and r.verdict != file_rules.NONE}
    return duck.literals(sorted(ids))


def candidates(con: Connection, fired_rules: Rows, policy: FindingPolicy, known: Rows) -> Relation:
    """Return verdict rows with a finding or an open discrepancy, with known_as, known_at and suspected.

    The ledger supplies the time of a claim that no readable commit dates any more. It also records lost files: an
    object of the same size that was written since is the restored file, not an overwritten one.
    """
    of_pairs = dict.fromkeys(rule for axis in file_rules.PAIR_AXES.values() for rule in axis)
    finding = duck.literals([rule.id for rule in of_pairs if rule.is_finding])
    remembered = "axis = 'content' AND c_claimed_at <= t_horizon AND known_claim < c_claimed_at"
    back = "axis = 'content' AND s_modified_at <= known_back AND c_size = s_size"
    dated = f"CASE WHEN {remembered} THEN known_claim ELSE c_claimed_at END"
    claimed = f"CASE WHEN {back} THEN greatest(c_claimed_at, s_modified_at) ELSE {dated} END"
    sql = f"""
        SELECT input.* REPLACE ({claimed} AS c_claimed_at), {dated} AS manifest_claimed_at, known_as, known_at
        FROM input LEFT JOIN known USING (axis, judged_table, bucket, key)
        WHERE rule IN ({finding}) OR known_as IS NOT NULL
    """
    rows = duck.made_of(con, sql, _long(con, fired_rules), known=known)
    judged = with_outcome(con, _in_scope(con, rows, policy), policy)
    return duck.made_of(con, "SELECT *, outcome = 'finding' AS suspected FROM input", judged)


def _long(con: Connection, fired_rules: Rows) -> Relation:
    """Turn each row into one row per axis: axis, judged_table, rule."""
    names = ", ".join(f"rule_{axis}" for axis in file_rules.PAIR_AXES)
    each = [
        f"SELECT * EXCLUDE ({names}), '{axis}' AS axis, {judged} AS judged_table, rule_{axis} AS rule FROM fired"
        for axis, judged in JUDGED_TABLE.items()
    ]
    return duck.query(con, " UNION ALL ".join(each), fired=fired_rules)


def judge_again(con: Connection, suspects: Rows, policy: FindingPolicy) -> Relation:
    """Judge verdict rows again after their PAIR columns changed (gaps, the live check)."""
    bare = duck.made_of(con, "SELECT * EXCLUDE (rule, outcome, kind, severity) FROM input", suspects)
    fired = apply_rules(con, bare, ALL_FACTS, file_rules.PAIR_AXES)
    cases = " ".join(f"WHEN '{axis}' THEN rule_{axis}" for axis in file_rules.PAIR_AXES)
    dropped = ", ".join(f"rule_{axis}" for axis in file_rules.PAIR_AXES)
    sql = f"SELECT * EXCLUDE ({dropped}), CASE axis {cases} END AS rule FROM input"
    return with_outcome(con, duck.made_of(con, sql, fired), policy)


def group_verdicts(con: Connection, rows: Rows, table: str, policy: FindingPolicy) -> Relation:
    """Judge rows by a table of `group_rules`: adds axis, rule, outcome, kind and severity.

    Rows need `judged_table` and `relative`; those of tables out of scope are left out.
    """
    fired_rules = apply_rules(con, rows, file_rules.FACTS_OF[table], {table: file_rules.TABLES[table]})
    sql = f"SELECT * EXCLUDE (rule_{table}), rule_{table} AS rule, split_part(rule_{table}, '.', 1) AS axis FROM input"
    return with_outcome(con, _in_scope(con, duck.made_of(con, sql, fired_rules), policy), policy)


def with_outcome(con: Connection, rows: Rows, policy: FindingPolicy) -> Relation:
    """Add outcome, kind and severity to rows with `rule` and `judged_table`; rows with verdict `none` are left out."""
    sql = f"""
        SELECT * EXCLUDE verdict REPLACE (CASE
                WHEN verdict <> 'finding' THEN verdict
                WHEN severity = 'off' OR coalesce({policy.ignored}, false) THEN 'ignored'
                ELSE 'finding' END AS outcome)
        FROM (
            SELECT input.*, verdict, kind, coalesce(lake_severity, base) AS severity, '' AS outcome
            FROM input JOIN meaning ON rule = id
            LEFT JOIN severities ON judged_table = for_table AND kind = for_kind
        ) WHERE verdict <> '{file_rules.NONE}'
    """
    return duck.made_of(con, sql, rows, meaning=_meanings(), severities=policy.severities)


def severity_rank(column: str = "severity") -> str:
    """Return SQL for the rank of a severity; 0 for the worst."""
    cases = " ".join(f"WHEN '{name}' THEN {rank}" for rank, name in enumerate(SEVERITIES))
    return f"CASE {column} {cases} ELSE 9 END"


def _in_scope(con: Connection, rows: Rows, policy: FindingPolicy) -> Relation:
    sql = "SELECT * FROM input SEMI JOIN scope ON judged_table = scope_table"
    return duck.made_of(con, sql, rows, scope=policy.scope_table)


@cache
def _meanings() -> pa.Table:
    return duck.small(_MEANING, [_meaning(rule) for rule in file_rules.RULES.values()])


def _meaning(rule: file_rules.Rule) -> tuple[str, str, str | None, str | None]:
    if not rule.is_finding:
        return rule.id, rule.verdict, None, None
    return rule.id, "finding", rule.verdict, rule.severity or KINDS[rule.verdict].severity


def _ignore(entry: Ignore) -> str:
    """Return SQL for whether an entry ignores a row: every list that it contains must match."""
    parts = [
        "("
        + " OR ".join(f"regexp_matches({name}, {duck.pattern(glob_to_regex(glob))})" for glob in globs)
        + ")"
        for globs, name in ((entry.paths, "relative"), (entry.tables, "judged_table"))
        if globs is not None
    ]
    if entry.kinds is not None:
        parts.append(f"kind IN ({duck.literals(entry.kinds)})")
    return f"({' AND '.join(parts)})"
