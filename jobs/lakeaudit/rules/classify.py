"""Evaluates rule tables as DuckDB SQL: every row gets the id of the rule that fires, per axis."""

from collections.abc import Iterable, Mapping

from lakeaudit.rules.expr import Expr, duck_sql
from lakeaudit.rules.rule import Rule
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows


def apply_rules(
    con: Connection, rows: Rows, facts: Mapping[str, Expr], tables: Mapping[str, Iterable[Rule]]
) -> Relation:
    """Add a column `rule_<axis>` for each rule table: the id of the first rule whose conditions all hold."""
    columns = ", ".join(f"{duck_sql(fact)} AS f_{name}" for name, fact in facts.items())
    fired = ", ".join(f"{first_rule(table)} AS rule_{axis}" for axis, table in tables.items())
    helpers = ", ".join(f"f_{name}" for name in facts)
    sql = f"SELECT * EXCLUDE ({helpers}), {fired} FROM (SELECT *, {columns} FROM input)"
    return duck.made_of(con, sql, rows)


def first_rule(table: Iterable[Rule]) -> str:
    """Return a CASE expression for the id of the first rule that matches; the twin of `rule.judge`."""
    cases = [f"WHEN {_all(rule.when)} THEN {duck.literal(rule.id)}" for rule in table]
    return f"CASE {' '.join(cases)} END"


def _all(conditions: Iterable[str]) -> str:
    return " AND ".join(map(_fact, conditions)) or "true"


def _fact(condition: str) -> str:
    return f"NOT f_{condition[1:]}" if condition.startswith("!") else f"f_{condition}"
