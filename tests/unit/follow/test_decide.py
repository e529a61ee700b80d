"""Decisions about events: two checks of a loss, objects that no table lists, objects without an answer, messages."""

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import pairwise

import pytest

from lakeaudit.evidence.references import Key
from lakeaudit.follow.decide import (
    GIVE_UP,
    LONGEST_RETRY,
    MANY_WAITING,
    REFRESH,
    RETRY,
    SECOND_CHECK,
    Decisions,
    Loss,
    NoAnswer,
    NoLoss,
    OpenMessages,
)
from lakeaudit.follow.events import Change, ObjectEvent

AT = datetime(2026, 11, 29)  # noqa: DTZ001 - events have no zone
A, B, C = (("lake", f"wh/orders/{name}") for name in "abc")


def event(key: Key, change: Change = "removed") -> ObjectEvent:
    return ObjectEvent(*key, None, None, change, "ObjectRemoved:Delete", AT)


class Settled:
    """Decisions, and the objects whose events are decided."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.decisions = Decisions(lambda key, _: self.keys.append(key))

    def add(self, key: Key, *tables: str, around: str | None = "orders", at: float = 0.0) -> None:
        self.decisions.add(key, [event(key)], tables, around, at)

    def check(self, shown: str, at: float, key: Key = A) -> list[Key]:
        assert [each.key for each in self.decisions.due(at)] == [key]
        return [each.key for each in self.decisions.decide({key: shown}, at)]


def nobody(keys: Sequence[Key]) -> list[Collection[str]]:
    return [() for _ in keys]


def test_a_loss_is_reported_after_a_second_check() -> None:
    world = Settled()
    world.add(A, "orders")
    assert world.check(Loss, 0) == []
    assert world.decisions.due(SECOND_CHECK - 0.1) == []
    assert world.check(Loss, SECOND_CHECK) == [A]
    assert world.keys == [], "its messages are needed until it is published"
    world.decisions.reported([*world.decisions.candidates.values()])
    assert world.keys == [A]


def test_a_file_that_a_commit_removes_between_the_checks_is_not_reported() -> None:
    world = Settled()
    world.add(A, "orders")
    world.check(Loss, 0)
    assert world.check(NoLoss, SECOND_CHECK) == []
    assert (world.keys, len(world.decisions)) == ([A], 0)


def test_a_loss_that_could_not_be_published_is_checked_again() -> None:
    world = Settled()
    world.add(A, "orders")
    world.check(Loss, 0)
    world.check(Loss, 10)
    world.decisions.put_off(world.decisions.candidates.values(), 10)
    assert world.decisions.due(10 + RETRY - 0.1) == []
    assert world.check(Loss, 10 + RETRY) == [A]


def test_an_object_without_an_answer_is_tried_less_and_less_often_and_given_up_at_last() -> None:
    world = Settled()
    world.add(A, "orders")
    at, tries = 0.0, []
    while world.decisions.candidates:
        world.check(NoAnswer, at)
        tries.append(at)
        at = min((each.due for each in world.decisions.candidates.values()), default=at)
    assert tries[:3] == [0, RETRY, 3 * RETRY]
    assert max(after - before for before, after in pairwise(tries)) == LONGEST_RETRY
    assert tries[-1] >= GIVE_UP
    assert (world.decisions.given_up, world.keys) == (1, [A])


def test_removed_objects_that_no_table_lists_wait_for_the_newest_commits() -> None:
    world = Settled()
    world.add(A)
    world.add(B)
    assert world.decisions.to_read(0) == ["orders"]
    world.decisions.commits_read(
        "orders", lambda keys: [{"orders"} if key == B else () for key in keys], 0, whole=True
    )
    assert world.keys == [A]
    assert [*world.decisions.candidates] == [B], "a commit since the index was built lists it"


def test_commits_are_read_at_most_every_few_seconds_unless_many_objects_wait() -> None:
    world = Settled()
    world.add(A)
    world.decisions.commits_read("orders", nobody, 0, whole=True)
    world.add(B, at=1)
    assert world.decisions.to_read(REFRESH - 0.1) == []
    assert world.decisions.to_read(REFRESH) == ["orders"]
    for number in range(MANY_WAITING):
        world.add(("lake", f"wh/orders/{number}"), at=1)
    assert world.decisions.to_read(1) == ["orders"]


def test_if_the_commits_cannot_be_read_every_waiting_object_is_checked() -> None:
    world = Settled()
    world.add(A)
    world.decisions.commits_read("orders", nobody, 0, whole=False)
    assert {each.key: each.tables for each in world.decisions.due(0)} == {A: {"orders"}}


@pytest.mark.parametrize(("change", "around"), [("created", "orders"), ("removed", None)])
def test_new_objects_and_objects_outside_of_tables_are_decided_at_once(
    change: Change, around: str | None
) -> None:
    world = Settled()
    world.decisions.add(A, [event(A, change)], (), around, 0)
    assert (world.keys, len(world.decisions)) == ([A], 0)


def test_another_event_of_an_undecided_object_belongs_to_its_candidate() -> None:
    world = Settled()
    world.add(A, "orders")
    world.check(Loss, 0)
    world.add(A, "orders", at=3)
    (candidate,) = world.decisions.candidates.values()
    assert (len(candidate.events), candidate.shown) == (2, 0)


def test_a_message_is_done_once_all_of_its_objects_are_decided() -> None:
    messages = OpenMessages()
    messages.add("1", [A, B])
    messages.add("2", [B])
    messages.add("3", [])
    messages.add("1", [A, B])  # delivered twice
    assert messages.take_decided() == ["3"]
    messages.settle(B)
    assert messages.take_decided() == ["2"]
    messages.settle(A)
    messages.settle(C)
    assert messages.take_decided() == ["1"]
    assert (len(messages), messages.take_decided()) == (0, [])
