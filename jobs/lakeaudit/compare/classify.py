"""Classify: the rule tables compiled to Spark columns. PAIR rows in, the id of the rule that fired per axis out."""

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare import rules
from lakeaudit.compare.expr import Expr, compile_
from lakeaudit.compare.facts import ALL_FACTS
from lakeaudit.compare.rules import Rule


def judged(pairs: DataFrame) -> DataFrame:
    """PAIR rows with `rule_<axis>`: the id of the first rule of that axis whose conditions all hold."""
    return ruled(pairs, ALL_FACTS, rules.PAIR_AXES)


def ruled(rows: DataFrame, facts: Mapping[str, Expr], tables: Mapping[str, Iterable[Rule]]) -> DataFrame:
    """Rows with `rule_<axis>` for each rule table, judged on the given facts."""
    named = rows.withColumns({f"f_{name}": compile_(fact) for name, fact in facts.items()})
    decided = named.withColumns({f"rule_{axis}": verdict(table) for axis, table in tables.items()})
    return decided.drop(*[f"f_{name}" for name in facts])


def verdict(table: Iterable[Rule]) -> Column:
    """The first rule that matches, as one CASE expression; the twin of `rules.judge`."""
    return F.coalesce(*[F.when(_all(rule.when), F.lit(rule.id)) for rule in table])


def _all(conditions: Iterable[str]) -> Column:
    return reduce(lambda one, other: one & other, (_fact(condition) for condition in conditions), F.lit(True))


def _fact(condition: str) -> Column:
    return ~F.col(f"f_{condition[1:]}") if condition.startswith("!") else F.col(f"f_{condition}")
