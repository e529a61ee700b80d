"""Whatever concerns one subject on one axis is one finding, and names the rest."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.lineage import CLAIMS_ABOUT_STATES, LAST_AUDIT, METADATA, Witness
from lakeaudit.findings.finding_rows import RunStamp, from_plain
from lakeaudit.findings.lineage import finding, judge_witnesses
from lakeaudit.findings.one_per_subject import kind_order, one_per_subject
from lakeaudit.kinds import KINDS, rank
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from tests.builders.delta_lake import NOW, table

STAMP = RunStamp("run", "shop", NOW)
TABLES = [table(name, f"s3://lake/{name}") for name in ("orders", "sales")]
FILES = ("s3://lake/orders/m/1.json", "s3://lake/orders/m/2.json", "s3://lake/orders")
Row = dict[str, Any]


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with duck.task_connection(threads=1) as connection:
        yield connection


WITNESSES = st.lists(
    st.builds(
        Witness,
        st.sampled_from([each.name for each in TABLES]),
        st.sampled_from(CLAIMS_ABOUT_STATES),
        st.sampled_from([(LAST_AUDIT,), (METADATA,)]),
        st.sampled_from(FILES),
        st.sampled_from(["state 7 is gone", "the file was written again"]),
    ),
    max_size=12,
)
OF_FILES = st.lists(
    st.builds(
        lambda name, kind, subject: about(name, kind, "file", subject),
        st.sampled_from([each.name for each in TABLES]),
        st.sampled_from([kind for kind in KINDS if KINDS[kind].axis == "content"]),
        st.sampled_from(FILES),
    ),
    max_size=4,
)


def about(name: str, kind: str, subject_type: str, subject: str, **given: Any) -> Row:
    of_kind = {"kind": kind, "axis": KINDS[kind].axis, "severity": KINDS[kind].severity, "explanation": "x"}
    return {"table_name": name, "subject_type": subject_type, "subject": subject} | of_kind | given


def subject_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("table_name", "axis", "subject_type", "subject"))


def place_of(row: Row) -> tuple[int, int]:
    return rank(row["severity"]), kind_order().index(row["kind"])


def one_each(con: Connection, rows: list[Row]) -> list[Row]:
    return duck.rows_of(one_per_subject(con, duck.hold(con, from_plain(con, rows, STAMP))))


@given(WITNESSES, OF_FILES)
def test_no_two_findings_have_one_subject_and_none_is_forgotten(
    con: Connection, witnesses: list[Witness], of_files: list[Row]
) -> None:
    verdicts = judge_witnesses(con, witnesses, TABLES, {"orders"}, finding_policy(TABLES, (), NOW.date()))
    rows = [*(finding(one) for one in verdicts if one.outcome == "finding"), *of_files]
    by_subject = defaultdict(list)
    for row in rows:
        by_subject[subject_of(row)].append(row)
    answers = one_each(con, rows)
    assert {subject_of(row) for row in answers} == set(by_subject)
    assert len({row["discrepancy_id"] for row in answers}) == len(answers) == len(by_subject)
    for answer in answers:
        same = by_subject[subject_of(answer)]
        assert place_of(answer) == min(map(place_of, same))
        others = len(same) - 1
        assert answer["explanation"].count("; also ") == min(others, 5)
        assert f"; and {others - 5} more" in answer["explanation"] or others <= 5


@pytest.mark.parametrize("turn", [1, -1])
def test_the_worst_is_reported_whatever_came_first(con: Connection, turn: int) -> None:
    hint = about(
        "orders", "missing_metadata", "file", FILES[0], severity="warning", explanation="hint is empty"
    )
    lost = about("orders", "lost_commit", "file", FILES[0], explanation="lacks 3 files", files=3)
    other = about("orders", "dropped", "file", FILES[1], explanation="is gone")
    rows = one_each(con, [hint, lost, other][::turn])
    assert sorted((row["kind"], row["files"], row["explanation"]) for row in rows) == [
        ("dropped", None, "is gone"),
        ("lost_commit", 3, "lacks 3 files; also missing_metadata (warning): hint is empty"),
    ]
