"""DuckDB and plain Python judge alike: all scenarios, all combinations of facts, facts of rows full of nulls."""

import random
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.rules import file_rules
from lakeaudit.rules.classify import apply_rules, first_rule
from lakeaudit.rules.expr import columns_of, duck_sql, evaluate
from lakeaudit.rules.file_facts import ALL_FACTS, TREE_FACTS
from lakeaudit.runtime import duck
from lakeaudit.schemas import PAIR, TREE
from tests.builders.connections import connection
from tests.builders.evidence import CUT
from tests.builders.group_scenario import SCHEMAS
from tests.builders.scenario_lake import Lake, answers, matched, numbered
from tests.builders.twin import by_subject, verdict_text
from tests.builders.twin_match import pair_rows
from tests.scenarios import GROUP_SCENARIOS, SCENARIOS


@pytest.fixture(scope="module")
def lake() -> Lake:
    return Lake(numbered(SCENARIOS))


@pytest.fixture(scope="module")
def world(lake: Lake) -> pa.Table:
    return matched(lake)


def test_the_kernel_judges_every_scenario_as_an_expert_would(lake: Lake, world: pa.Table) -> None:
    found = answers(lake, world)
    wrong = {}
    for each in lake.scenarios:
        expected = {subject: said for subject, said in each.scenario.verdicts.items() if said}
        if (judged := by_subject(found.get(each.number, ()))) != expected:
            wrong[each.scenario.name] = (judged, expected)
    assert wrong == {}


@pytest.mark.parametrize("name", file_rules.GROUPS)
def test_the_kernel_judges_subjects_other_than_files_as_an_expert_would(name: str) -> None:
    asked = [scenario for scenario in GROUP_SCENARIOS if scenario.table == name]
    schema = SCHEMAS[name]
    rows = duck.small(
        pa.schema([("at", pa.int64()), *schema]),
        [(at, *(scenario.row[column] for column in schema.names)) for at, scenario in enumerate(asked)],
    )
    fired = duck.rows_of(
        apply_rules(connection(), rows, file_rules.FACTS_OF[name], {name: file_rules.TABLES[name]}),
    )
    judged = {asked[row["at"]].name: verdict_text(file_rules.RULES[row[f"rule_{name}"]]) for row in fired}
    assert judged == {scenario.name: scenario.verdict for scenario in asked}


READ = set().union(*(columns_of(fact) for fact in ALL_FACTS.values())) - {"table_name"}
LATE = {"h_storage", "h_metastore", "v_assumed", "l_confirmation"}


def test_match_agrees_with_its_plain_twin_in_every_column_that_facts_read(
    lake: Lake, world: pa.Table
) -> None:
    columns = sorted(READ - LATE)
    found = {(r["bucket"], r["key"], r["table_name"]): r for r in world.to_pylist()}
    expected = {
        (each.bucket, row["key"], row["table_name"] and each.name(row["table_name"])): row
        for each in lake.scenarios
        for row in pair_rows(each.scenario)
    }
    assert found.keys() == expected.keys()
    differing = [
        (at, name, _utc(found[at][name]), row[name])
        for at, row in expected.items()
        for name in columns
        if _utc(found[at][name]) != row[name] and not _is_finer_than_twin(name, row)
    ]
    assert differing == []


def _utc(value: Any) -> Any:
    """Inside an audit times have no zone; DuckDB gives spans as months, days and nanoseconds."""
    if isinstance(value, pa.MonthDayNano):
        return timedelta(days=value.days, microseconds=value.nanoseconds // 1000)
    return value.replace(tzinfo=CUT.tzinfo) if hasattr(value, "tzinfo") else value


def _is_finer_than_twin(name: str, row: dict[str, Any]) -> bool:
    """Return whether the twin has a coarser category: for it markers and temporary files are `data`."""
    return name == "category" and row["c_state"] is None and row["e_state"] is None


EXHAUSTIVE = 14
SAMPLE = 5_000


@pytest.mark.parametrize("axis", file_rules.TABLES)
def test_both_evaluators_of_a_rule_table_agree_on_every_combination_of_facts(axis: str) -> None:
    table = file_rules.TABLES[axis]
    names = sorted({condition.removeprefix("!") for rule in table for condition in rule.when})
    codes = list(_codes(table, names))
    bits = ", ".join(f"(code >> {at}) & 1 = 1 AS f_{name}" for at, name in enumerate(names))
    sql = f"SELECT code, {first_rule(table)} AS rule FROM (SELECT code, {bits} FROM codes)"
    con = connection()
    fired = duck.rows_of(duck.query(con, sql, codes=pa.table({"code": codes})))
    compiled = {row["code"]: row["rule"] for row in fired}
    plain = {code: file_rules.judge(table, _decoded(code, names)).id for code in codes}
    assert compiled == plain


def _decoded(code: int, names: list[str]) -> dict[str, bool]:
    return {name: bool(code >> at & 1) for at, name in enumerate(names)}


def _codes(table: tuple[file_rules.Rule, ...], names: list[str]) -> Iterable[int]:
    """All combinations where there are few; else a seeded sample, and each rule's own facts with one or two flipped."""
    if len(names) <= EXHAUSTIVE:
        return range(2 ** len(names))
    chosen = random.Random(14)
    drawn = {chosen.getrandbits(len(names)) for _ in range(SAMPLE)}
    return sorted(drawn | {code for rule in table for code in _near(rule, names)})


def _near(rule: file_rules.Rule, names: list[str]) -> Iterator[int]:
    witness = sum(1 << names.index(condition) for condition in rule.when if not condition.startswith("!"))
    for one in range(len(names)):
        for other in range(one, len(names)):
            yield witness ^ (1 << one) ^ (1 << other if other != one else 0)
    yield witness


MOMENTS = [
    CUT.replace(tzinfo=None) + timedelta(seconds=s)
    for s in (-(10**6), -259_200, -7200, -3601, -3600, -3599, -2, -1, 0, 1, 3600)
]
DOMAINS: dict[pa.DataType, list[Any]] = {
    pa.timestamp("us"): MOMENTS,
    pa.duration("us"): [timedelta(0), timedelta(hours=1), timedelta(days=1), timedelta(days=3)],
    pa.int64(): [0, 1, 2, 100],
    pa.bool_(): [True, False],
    pa.list_(pa.string()): [[], ["a"]],
}
TEXTS: dict[str, list[str]] = {
    "c_state": ["live", "history", "gone"],
    "e_state": ["live", "gone"],
    "s_presence": ["present", "absent", "unclear", "uncovered"],
    "m_state": ["file", "dir", "tombstone", "none", "unscoped"],
    "s_encryption": ["NONE", "SSE-S3", "SSE-KMS", "DSSE-KMS", "SSE-C"],
    "s_versus_claimed": ["same", "differs"],
    "s_footer_fault": ["it does not end as a Parquet file does"],
    "category": ["data", "deletes", "changes", "log", "marker", "temporary", "other"],
    "l_confirmation": ["live", "none", "denied", "error", "limit"],
    "x_state": ["live", "history", "gone"],
    "does": ["deletes", "archives"],
    "deed": ["write", "list", "read"],
    "found": ["written", "removed", "missing"],
    "replaced": ["no", "partly", "whole"],
}
ETAGS = ["0cc175b9c0f1b6a831c399e269772661", "92eb5ffee6ae2fec3ad71c777531578f", "be-12", "be-12\n", "", "0CC1",
         "0cc175b9c0f1b6a831c399e269772661\u2028", "0cc175b9c0f1b6a831c399e269772661\n"]  # fmt: skip
CHECKSUMS = ["md5:0cc175b9c0f1b6a831c399e269772661", "sha256:aa", "sha256:bb", "crc32", ":", ""]
ENDS = ["", "/", "\n", "\r", "/\r\n", "/\u0085", "/\u2028", "\u2029", "_$folder$", "_$folder$\n", "._COPYING_",
        "._COPYING_\n"]  # fmt: skip
KEYS = [f"{start}{end}" for start in ("", "a", "_temporary", "_delta_log/x", "a/./b", "a//b", "\U0001d4b3:", "a/..",
                                      "_temporary\n", "x=_temporary", "__magic_job-1", "d\ne/_temporary")
        for end in ENDS]  # fmt: skip


def _row(chosen: random.Random, schema: pa.Schema) -> list[Any]:
    return [_value(chosen, field.name, field.type) for field in schema]


def _value(chosen: random.Random, name: str, kind: pa.DataType) -> Any:
    if chosen.random() < 0.25:
        return None
    if kind != pa.string():
        return chosen.choice(DOMAINS[kind])
    if name in ("key", "relative", "parent"):
        return chosen.choice(KEYS)
    if name.endswith("checksum"):
        return chosen.choice(CHECKSUMS)
    return chosen.choice(ETAGS if name.endswith("etag") else TEXTS.get(name, ["v1", "v2"]))


ASKED_OF = {
    "pairs": (ALL_FACTS, PAIR),
    "tree": (TREE_FACTS, TREE),
    **{name: (file_rules.FACTS_OF[name], schema) for name, schema in SCHEMAS.items()},
}
"""Facts, and the rows that they are computed from."""


@pytest.mark.parametrize(("facts", "schema"), ASKED_OF.values(), ids=ASKED_OF)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=max(2, settings().max_examples // 50))  # six in the soak
def test_both_evaluators_of_a_fact_agree_on_rows_full_of_nulls(
    facts: dict[str, Any], schema: pa.Schema, seed: int
) -> None:
    chosen = random.Random(seed)
    rows = [dict(zip(schema.names, _row(chosen, schema), strict=True)) for _ in range(800)]
    columns = [f"{duck_sql(fact)} AS f_{name}" for name, fact in facts.items()]
    con = connection()
    frame = duck.small(
        pa.schema([("at", pa.int64()), *schema]), [[at, *row.values()] for at, row in enumerate(rows)]
    )
    differing = [
        (name, rows[got["at"]])
        for got in duck.rows_of(duck.query(con, f'SELECT "at", {", ".join(columns)} FROM input', input=frame))
        for name, fact in facts.items()
        if got[f"f_{name}"] is not evaluate(fact, rows[got["at"]])
    ]
    assert differing == []
