"""Audits of partitions of the same table at the same time: whether they have a file in common."""

import pytest

from lakeaudit.collect.partitions import scope_reasons
from lakeaudit.judged import is_other_part
from lakeaudit.keys import Location

TABLE = Location.parse("s3://lake/orders")

PARTS = [
    # the partitions of the other audit, those of this one, whether they have nothing in common
    pytest.param(["day=1"], ["day=2"], True, id="two days"),
    pytest.param(["day=1"], ["day=1"], False, id="the same day"),
    pytest.param(["day=1"], ["day=10"], True, id="a day whose name begins like the other"),
    pytest.param(["day=1"], ["day=1/hour=3"], False, id="an hour of the day"),
    pytest.param(["day=1/hour=3"], ["day=1"], False, id="the day of the hour"),
    pytest.param(["day=1", "day=2"], ["day=3", "day=2"], False, id="one of two"),
    pytest.param(["day=1", "day=2"], ["day=3", "day=4"], True, id="none of two"),
    pytest.param(["day=1"], [], False, id="this audit is of the whole table"),
    pytest.param(["day=a, s3://lake/orders/day=b"], ["day=a, s3://lake/orders/day=b"], False, id="a hostile value"),
]  # fmt: skip


@pytest.mark.parametrize(("other", "mine", "expected"), PARTS)
@pytest.mark.parametrize("hindrance", ["", "3 files undecided: x was not read completely; "])
def test_other_parts(other: list[str], mine: list[str], expected: bool, hindrance: str) -> None:
    places = tuple(TABLE.join(each) for each in other)
    reason = scope_reasons({"orders": places}, {place.uri for place in places})["orders"]
    assert is_other_part(f"{hindrance}{reason}", [TABLE.join(each).uri for each in mine]) is expected


@pytest.mark.parametrize("reason", ["", "no storage source could be read"])
def test_an_audit_of_the_whole_table_is_no_other_part(reason: str) -> None:
    assert is_other_part(reason, ["s3://lake/orders/day=1"]) is False


def test_a_partition_that_nobody_knows_may_be_the_same() -> None:
    reason = scope_reasons({"orders": (TABLE.join("day=1"),)}, ())["orders"]
    assert is_other_part(reason, ["s3://lake/orders/day=2"]) is False
