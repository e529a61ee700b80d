"""The language of facts on plain values: SQL's nulls, text patterns, and what columns can hold together."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit import keys
from lakeaudit.rules import file_rules
from lakeaudit.rules.classify import apply_rules
from lakeaudit.rules.expr import (
    Expr,
    algorithm,
    col,
    columns_of,
    concat,
    duck_sql,
    earliest,
    evaluate,
    first_known,
    latest,
    lit,
)
from lakeaudit.rules.file_facts import ALL_FACTS, MD5_TEXT, PART_SUFFIX, TREE_FACTS
from lakeaudit.runtime import duck
from lakeaudit.schemas import PAIR, TREE
from tests.builders.connections import connection
from tests.builders.mutants import closed
from tests.builders.twin import subjects
from tests.builders.twin_match import pair_rows
from tests.scenarios import SCENARIOS

X, Y = col("x"), col("y")
T, U, N = True, False, None
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

LOGIC = [
    # x, y, x & y, x | y
    (T, T, T, T), (T, U, U, T), (U, T, U, T), (U, U, U, U), (T, N, N, T), (N, T, N, T), (U, N, U, N), (N, U, U, N),
    (N, N, N, N),
]  # fmt: skip


@pytest.mark.parametrize(("x", "y", "both", "either"), LOGIC)
def test_and_and_or_know_three_values(
    x: bool | None, y: bool | None, both: bool | None, either: bool | None
) -> None:
    assert evaluate(X & Y, {"x": x, "y": y}) is both
    assert evaluate(X | Y, {"x": x, "y": y}) is either


OPERATIONS: list[tuple[str, Expr, dict[str, Any], Any]] = [
    ("not", ~X, {"x": T}, U),
    ("not null", ~X, {"x": N}, N),
    ("at most", X <= Y, {"x": 1, "y": 1}, T),
    ("more", X > Y, {"x": 1, "y": 1}, U),
    ("a comparison with null is null", X <= Y, {"x": 1, "y": N}, N),
    ("null equals nothing, not even null", X.is_(Y), {"x": N, "y": N}, N),
    ("null differs from nothing", X.differs(Y), {"x": N, "y": 1}, N),
    ("equal", X.is_("a"), {"x": "a"}, T),
    ("differs", X.differs("a"), {"x": "b"}, T),
    ("a time and a span", X + HOUR, {"x": NOON}, NOON + HOUR),
    ("a time less a span", X - Y, {"x": NOON, "y": HOUR}, NOON - HOUR),
    ("a span of unknown length", X + Y, {"x": NOON, "y": N}, N),
    ("among", X.among("a", "b"), {"x": "b"}, T),
    ("not among", X.among("a", "b"), {"x": "c"}, U),
    ("null is among nothing", X.among("a", "b"), {"x": N}, N),
    ("known", X.is_known(), {"x": U}, T),
    ("not known", X.is_known(), {"x": N}, U),
    ("sure of an unknown comparison", (X <= Y).sure(), {"x": 1, "y": N}, U),
    ("the latest of those known", latest(X, Y), {"x": N, "y": 2}, 2),
    ("the latest", latest(X, Y), {"x": 3, "y": 2}, 3),
    ("the earliest of those known", earliest(X, Y), {"x": 3, "y": N}, 3),
    ("the earliest", earliest(X, Y), {"x": 3, "y": 2}, 2),
    ("of nothing known", latest(X, Y), {"x": N, "y": N}, N),
    ("the first known", first_known(X, Y, 7), {"x": N, "y": N}, 7),
    ("the first known, though false", first_known(X, True), {"x": U}, U),
    ("algorithm", algorithm(X), {"x": "md5:0a"}, "md5"),
    ("algorithm of a text without one", algorithm(X), {"x": "0a"}, "0a"),
    ("algorithm of nothing", algorithm(X), {"x": N}, N),
    ("joined", concat("md5:", X), {"x": "0a"}, "md5:0a"),
    ("joined with nothing", concat("md5:", X), {"x": N}, N),
    ("a pattern anywhere in a text", X.matches("b+"), {"x": "abbc"}, T),
    ("a pattern asked of nothing", X.matches("b"), {"x": N}, N),
]


@pytest.mark.parametrize(("name", "expr", "row", "value"), OPERATIONS, ids=[op[0] for op in OPERATIONS])
def test_an_operation(name: str, expr: Expr, row: dict[str, Any], value: Any) -> None:
    assert evaluate(expr, row) == value
    assert (evaluate(expr, row) is None) == (value is None)


PATTERNS: list[tuple[str, str, list[str], list[str]]] = [
    ("temporary", keys.TEMPORARY,
     ["_temporary", "_temporary/0/x", "a/_temporary/x", "a/_temporary-17/x", "__magic/x", "a/__magic_job-1/x",
      ".spark-staging-7/x", "a/.hive-staging_hive_2026/x", "_impala_insert_staging/x", "x._COPYING_", "__temp-data/x",
      ".distcp.tmp.attempt_1", "d\ne/_temporary/x"],
     ["_temporarily", "x_temporary", "a/x=_temporary/b", "x._COPYING_/y", "x._COPYING_2", "_temporary\n",
      "x._COPYING_\n", "_spark_metadata/0", "magic/x", ""]),
    ("hidden", keys.HIDDEN,
     ["_SUCCESS", "a/.b", ".b/a", "_a/b", "x._COPYING_", "_a_b", "a/_b=c/_d"],
     ["a", "_x=1/a", "a/_x=1/b", "a_b", "a.b", "_=x/a", "x._COPYING_\n"]),
    ("no Hadoop path", keys.NOT_HADOOP,
     ["", "/a", "a//b", "a/", "a:b", "a/./b", "../a", "a/..", "."],
     ["a", "a/b", "a/...", "a/.b", "..a", "a b", "a%3Ab", "a\n", ".\n"]),
    ("marker", keys.MARKER, ["a/", "a/b_$folder$", "/"], ["a", "a/\n", "a_$folder$x", "a_$folder$\u2028", "folder$"]),
    ("MD5", MD5_TEXT, ["0cc175b9c0f1b6a831c399e269772661"],
     ["0CC175B9C0F1B6A831C399E269772661", "0cc175b9c0f1b6a831c399e26977266", "0cc175b9c0f1b6a831c399e269772661-2",
      "0cc175b9c0f1b6a831c399e269772661\n", ""]),
    ("parts", PART_SUFFIX, ["a-1", "a-10000"], ["a", "a-", "a-1x", "a-1\n", "1"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "pattern", "hits", "misses"), PATTERNS, ids=[p[0] for p in PATTERNS])
def test_a_pattern(name: str, pattern: str, hits: list[str], misses: list[str]) -> None:
    said = {text: evaluate(lit(text).matches(pattern), {}) for text in (*hits, *misses)}
    assert said == dict.fromkeys(hits, True) | dict.fromkeys(misses, False)


@given(st.text())
def test_a_name_that_hadoop_can_have_has_no_empty_part(text: str) -> None:
    legal = not evaluate(lit(text).matches(keys.NOT_HADOOP), {})
    parts = text.split("/")
    assert legal == (all(part not in ("", ".", "..") for part in parts) and ":" not in text)


@given(st.text())
def test_hidden_applies_to_each_part(text: str) -> None:
    hidden = evaluate(lit(text).matches(keys.HIDDEN), {})
    parts = [part for part in text.split("/") if part[:1] in ("_", ".") and "=" not in part]
    assert hidden == (bool(parts) or text.endswith("._COPYING_"))


@given(st.data())
def test_a_fact_is_true_or_false_whatever_is_null(data: Any) -> None:
    facts, schema = data.draw(st.sampled_from([(ALL_FACTS, PAIR), (TREE_FACTS, TREE)]))
    absent = dict.fromkeys(schema.names)
    name, fact = data.draw(st.sampled_from(sorted(facts.items(), key=lambda item: item[0])))
    assert evaluate(fact, absent) in (True, False), name


@pytest.mark.parametrize(
    ("facts", "schema", "axes"),
    [(ALL_FACTS, PAIR, file_rules.PAIR_AXES), (TREE_FACTS, TREE, {"metastore_tree": file_rules.TREE})],
    ids=["pairs", "tree"],
)
def test_every_fact_can_be_computed_from_columns_that_are_always_null(
    facts: dict[str, Expr], schema: pa.Schema, axes: dict[str, tuple[file_rules.Rule, ...]]
) -> None:
    """DuckDB knows that a column of its own is null everywhere, and rewrites expressions with it."""
    nulls = ", ".join(f"CAST(NULL AS {duck.type_of(field.type)}) AS {field.name}" for field in schema)
    columns = ", ".join(f"{duck_sql(fact)} AS {name}" for name, fact in facts.items())
    with closing(connection()) as con:
        rows = duck.query(con, f"SELECT {nulls} FROM range(2)")
        (one, other) = duck.rows_of(duck.query(con, f"SELECT {columns} FROM input", input=rows))
        fired = duck.rows_of(apply_rules(con, duck.hold(con, rows), facts, axes))
    plain = {name: evaluate(fact, dict.fromkeys(schema.names)) for name, fact in facts.items()}
    assert one == other == plain
    assert [fired[0][f"rule_{axis}"] for axis in axes] == [
        file_rules.judge(table, plain).id for table in axes.values()
    ]


ALIKE = ["md5:0a", "md5:", ":", "", "0a", "sha256:a:b", None, "ä:b"]


def test_duckdb_splits_a_checksum_as_python_does() -> None:
    with closing(connection()) as con:
        rows = pa.table({"n": range(len(ALIKE)), "x": pa.array(ALIKE, pa.string())})
        sql = f"SELECT {duck_sql(algorithm(X))} AS a FROM input ORDER BY n"
        found = [row["a"] for row in duck.rows_of(duck.query(con, sql, input=rows))]
    assert found == [evaluate(algorithm(X), {"x": text}) for text in ALIKE]


def test_facts_read_columns_that_exist() -> None:
    assert set().union(*map(columns_of, ALL_FACTS.values())) <= set(PAIR.names)
    assert set().union(*map(columns_of, TREE_FACTS.values())) <= set(TREE.names)


def test_facts_declared_exclusive_exclude_each_other() -> None:
    """The mutation tests leave out combinations of facts that columns exclude: no scenario may show one of them."""
    shown = [
        (scenario.name, asked.axis)
        for scenario in SCENARIOS
        for asked in subjects(scenario, pair_rows(scenario))
        for row in (asked.row, asked.known, asked.again)
        if closed(asked.facts(row)) is None
    ]
    assert shown == []


@given(st.data())
def test_some_rule_before_the_last_one_always_matches(data: Any) -> None:
    axis = data.draw(st.sampled_from(sorted(file_rules.AXES)))
    names = sorted({condition.removeprefix("!") for rule in file_rules.AXES[axis] for condition in rule.when})
    facts = {name: data.draw(st.booleans()) for name in names}
    assert file_rules.judge(file_rules.AXES[axis], facts).verdict != "unclassified"
