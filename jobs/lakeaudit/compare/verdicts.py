"""Verdicts: one row per (axis, table, key) with the rule that fired, its outcome, kind and severity.

Columns beside those of PAIR: axis, judged_table, rule, outcome (consistent, finding, ignored, out_of_window,
undecided, uncovered), kind, severity.
"""

from collections.abc import Collection, Sequence
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare import rules
from lakeaudit.compare.classify import judged
from lakeaudit.config import Ignore, Table, glob_to_regex
from lakeaudit.kinds import KINDS, SEVERITIES
from lakeaudit.pipeline.dataframes import small
from lakeaudit.schemas import PAIR

PAIR_COLUMNS = [field.name for field in PAIR]
OF_OWNER = ("leftover", "metastore")


def verdicts(ruled: DataFrame, tables: Sequence[Table], ignores: Sequence[Ignore], today: date) -> DataFrame:
    """Long verdict rows of the tables in scope from PAIR rows with their `rule_<axis>` columns."""
    asked = [_asked("content", F.col("table_name"), F.lit(True))]
    # what no manifest knows is still in the table's folders, where readers of folders find it
    asked += [_asked("duplicate", F.coalesce("table_name", "owner"), F.lit(True))]
    asked += [_asked(axis, F.col("owner"), F.col("first")) for axis in OF_OWNER]
    long = ruled.select(*PAIR_COLUMNS, F.explode(F.array(*asked)).alias("asked"))
    long = long.select(*PAIR_COLUMNS, "asked.*").filter(F.col("judged_table").isNotNull())
    in_scope = long.filter(F.col("judged_table").isin([table.name for table in tables]))
    return with_outcome(in_scope, tables, ignores, today).filter(F.col("outcome") != rules.NONE)


def again(suspects: DataFrame, tables: Sequence[Table], ignores: Sequence[Ignore], today: date) -> DataFrame:
    """The same verdict rows judged anew after their PAIR columns changed (holes, the live check)."""
    ruled = judged(suspects.drop("rule", "outcome", "kind", "severity"))
    axis_rule = F.coalesce(
        *[F.when(F.col("axis") == axis, F.col(f"rule_{axis}")) for axis in rules.PAIR_AXES]
    )
    named = ruled.withColumn("rule", axis_rule).drop(*[f"rule_{axis}" for axis in rules.PAIR_AXES])
    return with_outcome(named, tables, ignores, today)


def with_outcome(
    rows: DataFrame, tables: Sequence[Table], ignores: Sequence[Ignore], today: date
) -> DataFrame:
    """Add outcome, kind and severity to rows that have `rule` and `judged_table`."""
    spark = rows.sparkSession
    known = small(
        spark,
        [_meaning(rule) for rule in rules.RULES.values()],
        "rule string, verdict string, kind string, base string",
    )
    severed = with_severity(rows.join(F.broadcast(known), "rule", "left"), tables)
    silent = (F.col("severity") == "off") | ignored(ignores, today)
    outcome = F.when(F.col("verdict") == "finding", F.when(silent, "ignored").otherwise("finding"))
    return severed.withColumn("outcome", outcome.otherwise(F.col("verdict"))).drop("verdict")


def with_severity(rows: DataFrame, tables: Sequence[Table]) -> DataFrame:
    """Replace `base`, the rule's own severity, by the lake file's word for (judged_table, kind)."""
    said = [(t.name, kind, severity) for t in tables for kind, severity in t.severities.items()]
    if not said:
        return rows.withColumnRenamed("base", "severity")
    words = small(rows.sparkSession, said, "judged_table string, kind string, __said string")
    joined = rows.join(F.broadcast(words), ["judged_table", "kind"], "left")
    return joined.withColumn("severity", F.coalesce("__said", "base")).drop("__said", "base")


def ignored(ignores: Sequence[Ignore], today: date) -> Column:
    """Whether an `ignore` entry in force takes the row out: every list it gives has to match."""
    conditions = [_ignore(entry) for entry in ignores if entry.holds_on(today)]
    return F.coalesce(reduce(lambda one, other: one | other, conditions, F.lit(False)), F.lit(False))


def severity_rank(column: str = "severity") -> Column:
    """0 for the worst."""
    return F.coalesce(
        *[F.when(F.col(column) == name, rank) for rank, name in enumerate(SEVERITIES)], F.lit(9)
    )


def _asked(axis: str, table: Column, speaks: Column) -> Column:
    name = F.when(speaks, table)
    return F.struct(
        F.lit(axis).alias("axis"), name.alias("judged_table"), F.col(f"rule_{axis}").alias("rule")
    )


def _meaning(rule: rules.Rule) -> tuple[str, str, str | None, str | None]:
    if not rule.is_finding:
        return rule.id, rule.verdict, None, None
    return rule.id, "finding", rule.verdict, rule.severity or KINDS[rule.verdict].severity


def _ignore(entry: Ignore) -> Column:
    lists: list[tuple[Collection[str] | None, str]] = [
        (entry.paths, "relative"),
        (entry.tables, "judged_table"),
    ]
    parts = [_any_glob(globs, name) for globs, name in lists if globs is not None]
    if entry.kinds is not None:
        parts.append(F.col("kind").isin(*entry.kinds))
    return reduce(lambda one, other: one & other, parts, F.lit(True))


def _any_glob(globs: Collection[str], name: str) -> Column:
    return reduce(lambda one, other: one | other, [F.col(name).rlike(glob_to_regex(glob)) for glob in globs])
