"""Classify: the rule tables written as Spark SQL. PAIR rows in, the id of the rule that fired per axis out."""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame

from lakeaudit.compare import rules
from lakeaudit.compare.expr import Expr, sql
from lakeaudit.compare.facts import ALL_FACTS
from lakeaudit.compare.rules import Rule
from lakeaudit.pipeline.dataframes import literal


def judged(pairs: DataFrame) -> DataFrame:
    """PAIR rows with `rule_<axis>`: the id of the first rule of that axis whose conditions all hold."""
    return ruled(pairs, ALL_FACTS, rules.PAIR_AXES)


def ruled(rows: DataFrame, facts: Mapping[str, Expr], tables: Mapping[str, Iterable[Rule]]) -> DataFrame:
    """Rows with `rule_<axis>` for each rule table, judged on the given facts."""
    named = rows.selectExpr("*", *[f"{sql(fact)} AS f_{name}" for name, fact in facts.items()])
    kept = [f"`{name}`" for name in rows.columns]
    return named.selectExpr(*kept, *[f"{verdict(table)} AS rule_{axis}" for axis, table in tables.items()])


def verdict(table: Iterable[Rule]) -> str:
    """The first rule that matches, as one CASE expression; the twin of `rules.judge`."""
    cases = [f"WHEN {_all(rule.when)} THEN {literal(rule.id)}" for rule in table]
    return f"CASE {' '.join(cases)} END"


def _all(conditions: Iterable[str]) -> str:
    return " AND ".join(map(_fact, conditions)) or "true"


def _fact(condition: str) -> str:
    return f"NOT f_{condition[1:]}" if condition.startswith("!") else f"f_{condition}"
