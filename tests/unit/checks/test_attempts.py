"""Files of attempts beside copies of equal bytes: a file has one verdict on the axis, and is counted once."""

from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.checks.records.attempts import other_copies, tally_rows
from lakeaudit.runtime import duck
from tests.builders.connections import connection

Pair = tuple[str, str]


def table(pairs: list[Pair], outcome: str = "finding") -> pa.Table:
    names = ("judged_table", "bucket", "key", "related_key", "axis", "outcome")
    schema = pa.schema([(name, pa.string()) for name in names])
    return duck.small(schema, [("events", "lake", *pair, "duplicate", outcome) for pair in pairs])


CASES: list[tuple[list[Pair], list[Pair], list[Pair], dict[str, int]]] = [
    # (attempts, copies, copies that are left, what is counted more)
    ([("a", "b")], [], [], {"finding": 1, "consistent": -1}),
    ([("a", "b")], [("a", "b")], [], {}),
    ([("a", "b")], [("b", "a")], [], {}),  # the older of two equal files is the one that a copy repeats
    ([("a", "b")], [("b", "c")], [("b", "c")], {"finding": 1, "consistent": -1}),
    ([("a", "b"), ("c", "d")], [("d", "c")], [], {"finding": 1, "consistent": -1}),
    ([], [("a", "b")], [("a", "b")], {}),
]


@pytest.mark.parametrize(("attempts", "copies", "left", "counted"), CASES)
def test_an_attempt_and_a_copy_of_the_same_two_files_are_one(
    attempts: list[Pair], copies: list[Pair], left: list[Pair], counted: dict[str, int]
) -> None:
    con = connection()
    rows: list[dict[str, Any]] = duck.rows_of(other_copies(con, table(copies), table(attempts)))
    assert [(row["key"], row["related_key"]) for row in rows] == left
    found = duck.rows_of(tally_rows(con, table(attempts), table(copies)))
    assert {row["outcome"]: row["files"] for row in found} == counted


def test_a_pair_that_is_too_young_leaves_its_copy_alone() -> None:
    con = connection()
    rows = duck.rows_of(other_copies(con, table([("a", "b")]), table([("a", "b")], "out_of_window")))
    assert len(rows) == 1
