"""Classify: the rule tables written as DuckDB SQL. Rows in, the id of the rule that fired per axis out."""

from collections.abc import Iterable, Mapping

from lakeaudit.rules.expr import Expr, duck_sql
from lakeaudit.rules.rule import Rule
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows


def apply_rules(
    con: Connection, rows: Rows, facts: Mapping[str, Expr], tables: Mapping[str, Iterable[Rule]]
) -> Relation:
    """Rows with `rule_<axis>` for each rule table: the id of its first rule whose conditions all hold."""
    columns = ", ".join(f"{duck_sql(fact)} AS f_{name}" for name, fact in facts.items())
    fired = ", ".join(f"{first_rule(table)} AS rule_{axis}" for axis, table in tables.items())
    helpers = ", ".join(f"f_{name}" for name in facts)
    sql = f"SELECT * EXCLUDE ({helpers}), {fired} FROM (SELECT *, {columns} FROM input)"
    return duck.made_of(con, sql, rows)


def first_rule(table: Iterable[Rule]) -> str:
    """The id of the first rule that matches, as one CASE expression; the twin of `rules.judge`."""
    cases = [f"WHEN {_all(rule.when)} THEN {duck.literal(rule.id)}" for rule in table]
    return f"CASE {' '.join(cases)} END"


def _all(conditions: Iterable[str]) -> str:
    return " AND ".join(map(_fact, conditions)) or "true"


def _fact(condition: str) -> str:
    return f"NOT f_{condition[1:]}" if condition.startswith("!") else f"f_{condition}"
