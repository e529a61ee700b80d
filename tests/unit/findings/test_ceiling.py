"""When so much is missing that the evidence itself is doubted, and what a sample says of it."""

from dataclasses import replace
from typing import Any

import pytest

from lakeaudit.findings.absence_ceiling import (
    BAD,
    LEAST,
    REAL,
    UNSURE,
    Missing,
    SampleCheck,
    doubts,
    losses,
    of_table,
    over_ceiling,
    uncovered_tables,
)

HALF = Missing("orders", "storage:1", "storage", 500, 1000)

CEILINGS = [
    # missing, of, share, whether a sample has to be looked at first
    (500, 1000, 0.2, True),
    (200, 1000, 0.2, False),
    (201, 1000, 0.2, True),
    (LEAST - 1, LEAST - 1, 0.2, False),
    (LEAST, LEAST, 0.2, True),
    (LEAST, LEAST, 1.0, False),
    (150_000, 1_000_000, 0.2, False),
]


@pytest.mark.parametrize(("files", "of", "share", "over"), CEILINGS)
def test_a_ceiling_is_a_share_of_many(files: int, of: int, share: float, over: bool) -> None:
    assert replace(HALF, files=files, of=of).over(share) is over


TRIALS = [
    # asked, answered, gone, verdict
    (400, 400, 400, REAL),
    (400, 400, 360, REAL),
    (400, 400, 359, UNSURE),
    (400, 400, 41, UNSURE),
    (400, 400, 40, BAD),
    (400, 400, 0, BAD),
    (400, 200, 200, REAL),
    (400, 199, 199, UNSURE),
    (400, 0, 0, UNSURE),
    (0, 0, 0, BAD),
]


@pytest.mark.parametrize(("asked", "answered", "gone", "verdict"), TRIALS)
def test_a_sample_decides(asked: int, answered: int, gone: int, verdict: str) -> None:
    check = SampleCheck(HALF, asked, answered, gone)
    assert check.verdict == verdict
    assert (check in doubts([check]), check in losses([check])) == (verdict != REAL, verdict == REAL)


MESSAGES = [
    (SampleCheck(HALF, 400, 400, 399),
     "mass loss: storage:1 lacks 500 of 1,000 files of orders, and a live check of 400 found 399 missing"),
    (SampleCheck(HALF, 400, 400, 1),
     "storage:1 lacks 500 of 1,000 files of orders, but a live check of 400 found 1 missing"),
    (SampleCheck(HALF, 400, 100, 1),
     "storage:1 lacks 500 of 1,000 files of orders, but a live check of 100 found 1 missing (no answer for 300 more)"),
    (SampleCheck(replace(HALF, source="metastore:0", role="metastore"), 400, 400, 399),
     ("mass loss: of entries, not of files: metastore:0 lacks the entries of 500 of 1,000 files of orders, and a live "
      "check of 400 found 399 in storage without an entry")),
    (SampleCheck(HALF), "storage:1 lacks 500 of 1,000 files of orders, and confirm.mode forbids requests to storage"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "words"), MESSAGES)
def test_the_message_states_the_counts(check: SampleCheck, words: str) -> None:
    assert check.message == words


OF_STORE = SampleCheck(replace(HALF, source="metastore:0", role="metastore"))


@pytest.mark.parametrize(
    ("axis", "table", "expected"),
    [
        ("content", "orders", [SampleCheck(HALF)]),
        ("leftover", "orders", [SampleCheck(HALF)]),
        ("metastore", "orders", [SampleCheck(HALF), OF_STORE]),
        ("metastore_tree", "orders", [SampleCheck(HALF), OF_STORE]),
        ("content", "customers", []),
    ],
)
def test_a_check_affects_the_axes_that_depend_on_its_source(
    axis: str, table: str, expected: list[SampleCheck]
) -> None:
    assert of_table([SampleCheck(HALF), OF_STORE], table, axis) == expected


SMALL = [
    # files that a source lacks of tables of 50 files each, share, tables of a sample, how messages name them
    ({"a": 50, "b": 50, "c": 50}, 0.2, {"a", "b", "c"}, "3 tables (in a, b, c)"),
    ({"a": 50, "b": 49}, 0.2, set(), ""),
    ({"a": 0, "b": 50, "c": 50}, 0.2, {"b", "c"}, "3 tables (in b, c)"),
    (dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 5), 0.2, set(), ""),
    (
        dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 11),
        0.2,
        set("abcdefghijklmnopqrstuvwxyz"),
        "26 tables (in a, b, c and 23 more)",
    ),
]


@pytest.mark.parametrize(("lacks", "share", "over", "among"), SMALL)
def test_a_source_that_lacks_a_little_of_every_small_table_is_over_its_ceiling(
    lacks: dict[str, int], share: float, over: set[str], among: str
) -> None:
    missing = [Missing(name, "storage:1", "storage", files, 50) for name, files in lacks.items() if files]
    found = over_ceiling(missing, {(name, "storage:1"): 50 for name in lacks}, share)
    assert {each.table for each in found} == over
    assert {(each.files, each.of, each.among) for each in found} == (
        {(sum(lacks.values()), 50 * len(lacks), among)} if over else set()
    )


def test_a_table_that_is_over_alone_speaks_for_itself_and_not_for_the_others() -> None:
    missing = [
        HALF,
        replace(HALF, table="small", files=60, of=100),
        replace(HALF, table="well", files=60, of=900),
    ]
    should_hold = {(each.table, each.source): each.of for each in missing} | {("orders", "storage:2"): 7}
    assert over_ceiling(missing, should_hold, 0.2) == [HALF]
    assert [each.table for each in over_ceiling(missing, should_hold, 0.1)] == ["orders", "small", "well"]


def test_files_missing_in_several_tables_are_reported_once() -> None:
    one, other = (
        SampleCheck(Missing(name, "storage:1", "storage", 120, 300, among="6 tables"), 120, 120, 0)
        for name in ("a", "b")
    )
    assert (
        one.message
        == other.message
        == "storage:1 lacks 120 of 300 files of 6 tables, but a live check of 120 found 0 missing"
    )


UNCOVERED = [
    # what differs from a check of a table that lacks every file although the whole sample exists; is it reported?
    ({}, {}, True),
    ({"whole": False}, {}, False),
    ({"role": "metastore"}, {}, False),
    ({}, {"gone": 1}, False),
    ({}, {"asked": 0, "answered": 0}, False),
    ({}, {"answered": 199}, False),
]


@pytest.mark.parametrize(("missing", "check", "told"), UNCOVERED)
def test_a_table_whose_every_file_is_there_is_not_covered_by_a_report_that_has_none(
    missing: dict[str, Any], check: dict[str, Any], told: bool
) -> None:
    lacking = replace(HALF, **{"files": 1000, "whole": True, **missing})
    assert uncovered_tables([replace(SampleCheck(lacking, 400, 400, 0), **check)]) == (
        ["orders"] if told else []
    )
