"""Removed objects that a later commit lists."""

from datetime import datetime

from lakeaudit.evidence.references import Key
from lakeaudit.follow.decide import REFRESH
from lakeaudit.follow.events import ObjectEvent
from lakeaudit.follow.index import key_hash
from lakeaudit.follow.removed_objects import RemovedObjects

A, B, C = (("lake", f"wh/orders/{name}") for name in "abc")


def removed(key: Key) -> list[ObjectEvent]:
    return [ObjectEvent(*key, None, None, "removed", "ObjectRemoved:Delete", datetime(2026, 11, 29))]  # noqa: DTZ001


def test_an_object_that_a_commit_lists_is_returned_once() -> None:
    world = RemovedObjects()
    world.add(A, "orders", removed(A))
    world.add(B, "orders", removed(B))
    assert world.to_read(0) == []
    world.commit("orders")
    assert world.to_read(0) == ["orders"]
    assert world.commits_read("orders", {key_hash(A), 7}, 0) == [(A, removed(A))]
    assert world.commits_read("orders", {key_hash(A), 7}, 0) == []
    assert len(world) == 1


def test_commits_are_only_read_for_tables_with_removed_objects_and_not_too_often() -> None:
    world = RemovedObjects()
    world.add(A, "orders", removed(A))
    world.commit("lines")
    assert world.to_read(0) == []
    world.commit("orders")
    world.commits_read("orders", (), 0)
    world.commit("orders")
    assert (world.to_read(REFRESH - 1), world.to_read(REFRESH)) == ([], ["orders"])


def test_a_file_of_another_table_and_an_object_that_was_written_again_are_not_returned() -> None:
    world = RemovedObjects()
    world.add(A, "orders", removed(A))
    world.add(B, "lines", removed(B))
    world.discard(A)
    assert world.commits_read("orders", {key_hash(A), key_hash(B)}, 0) == []


def test_only_the_last_objects_are_remembered() -> None:
    world = RemovedObjects(most=2)
    for key in (A, B, C, B):
        world.add(key, "orders", removed(key))
    assert len(world) == 2
    listed = world.commits_read("orders", {key_hash(each) for each in (A, B, C)}, 0)
    assert [key for key, _ in listed] == [C, B]
