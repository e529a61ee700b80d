"""The order of the events of one key, and duplicate and late events."""

import tracemalloc
from datetime import datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.follow.events import Change, ObjectEvent
from lakeaudit.follow.order import DecidedEvents, by_key, order

AT = datetime.fromisoformat("2026-11-28T07:36:00")


def event(
    sequencer: str | None = None,
    seconds: float | None = 0,
    request: str | None = "r",
    change: Change = "removed",
    key: str = "k",
) -> ObjectEvent:
    at = None if seconds is None else AT + timedelta(seconds=seconds)
    return ObjectEvent("lake", key, None, sequencer, change, change, at, None, request)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (event("0055AED6DCD90281E5"), event("0055AED6DCD90281E6"), "earlier"),
        (event("0A"), event("09FF"), "later"),  # padded on the right: 0A00
        (event("0A"), event("0A01"), "earlier"),
        (event("0A"), event("0A00"), "same"),
        (event("0B", seconds=-3600), event("0A", seconds=0), "later"),  # the time does not matter
        (event("0A", request="q"), event("0A", request="r"), "same"),
        (event(), event(), "same"),
        (event(request=None), event(request=None), "unknown"),
        (event(seconds=0), event(seconds=5), "earlier"),
        (event("0A", seconds=0), event(seconds=5), "earlier"),  # one of a lifecycle rule has no sequencer
        (event(seconds=0), event(seconds=1, change="created"), "unknown"),
        (event(seconds=None), event(seconds=5), "unknown"),
        (event(seconds=None, request=None), event(seconds=None, request=None), "unknown"),
    ],
)
def test_order_of_two_events(first: ObjectEvent, second: ObjectEvent, expected: str) -> None:
    mirrored = {"earlier": "later", "later": "earlier"}.get(expected, expected)
    assert (order(first, second), order(second, first)) == (expected, mirrored)


@given(st.lists(st.text("0123456789ABCDEF", min_size=1, max_size=20), min_size=2, max_size=2))
def test_sequencers_compare_as_if_padded(two: list[str]) -> None:
    first, second = (int(text.ljust(20, "0"), 16) for text in two)
    expected = "same" if first == second else "earlier" if first < second else "later"
    assert order(event(two[0]), event(two[1])) == expected


def test_events_of_a_key_in_any_order_and_twice() -> None:
    first, second, third = event("0A"), event("0A8", change="created"), event("0B")
    for arrived in permutations([first, second, third, second]):
        known = by_key(arrived)["lake", "k"]
        assert (known.events, known.is_ordered, known.last) == ((first, second, third), True, third)


def test_one_event_in_two_forms_is_one() -> None:
    known = by_key([event("0A", seconds=0.5), event("0A", seconds=0, request="other")])["lake", "k"]
    assert (len(known.events), known.is_ordered) == (1, True)


def test_ties_without_sequencers_are_not_ordered() -> None:
    known = by_key([event(change="created"), event(change="removed")])["lake", "k"]
    assert (len(known.events), known.is_ordered) == (2, False)


def test_keys_have_orders_of_their_own() -> None:
    assert set(by_key([event("0A"), event("09", key="other")])) == {("lake", "k"), ("lake", "other")}


@pytest.mark.parametrize(
    ("arrived", "covered"),
    [
        (event("0B"), True),  # twice
        (event("0A"), True),  # late
        (event("0C"), False),
        (event("0C", seconds=-3600), False),  # a clock that is off
        (event("0A", key="other"), False),
        (event(seconds=-3600, change="created"), True),  # late by an hour
        (event(seconds=0, change="created"), False),  # a tie is decided again
        (event(seconds=None), False),
    ],
)
def test_decided_events_cover_duplicates_and_late_ones(arrived: ObjectEvent, covered: bool) -> None:
    decided = DecidedEvents()
    decided.record(event("0B"))
    decided.record(event("0A"))  # a late one does not replace a later one
    assert decided.covers(arrived) is covered


def test_the_oldest_keys_are_dropped() -> None:
    decided = DecidedEvents(capacity=2)
    for key in ("a", "b", "a", "c"):
        decided.record(event("0A", key=key))
    assert [decided.covers(event("0A", key=key)) for key in "abc"] == [True, False, True]


def test_memory_is_bounded_over_many_keys() -> None:
    decided = DecidedEvents(capacity=1_000)
    tracemalloc.start()
    for number in range(20_000):
        decided.record(event(f"{number:016X}", key=f"t/{number}"))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(decided) == 1_000
    assert used < 2_000_000
