"""Which version of an object a table claimed, and which can bring it back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeaudit.evidence.storage.object_versions import Claimed, History, ObjectVersion, history_of

CLAIMED_AT = datetime(2026, 11, 20, 12)  # noqa: DTZ001 - times of an audit are UTC without a zone
CLAIMED = Claimed(CLAIMED_AT, CLAIMED_AT + timedelta(hours=1), 100)

VECTORS = Claimed(CLAIMED_AT, CLAIMED_AT + timedelta(hours=1), least_size=43)
"""Deletion vectors that end 43 bytes behind the beginning of their file."""


def at(hours: float) -> datetime:
    """Hours after the claim."""
    return CLAIMED_AT + timedelta(hours=hours)


def version(name: str, hours: float, size: int = 100, etag: str = "a", **given: Any) -> ObjectVersion:
    return ObjectVersion(name, at(hours), size=size, etag=etag, **given)


def marker(name: str, hours: float, *, latest: bool = True) -> ObjectVersion:
    return ObjectVersion(name, at(hours), is_latest=latest, is_marker=True)


GONE = marker("m1", 30)
BAD = version("v3", 20, 70, "b")
RIGHT = version("v2", -0.1)
BEFORE = version("v1", -50)

MATCHES: list[tuple[str, list[ObjectVersion], Claimed, str | None]] = [
    # what, versions newest first, what is claimed, the version that holds it
    ("deleted", [GONE, RIGHT], CLAIMED, "v2"),
    ("overwritten with another size, then deleted", [GONE, BAD, RIGHT], CLAIMED, "v2"),
    ("only the bad one is left", [GONE, BAD], CLAIMED, None),
    ("a version of the claimed size that was replaced before the claim", [GONE, BAD, version("v2", -1, 7), BEFORE],
     CLAIMED, None),
    ("deleted before the claim: what the writer wrote is not among them",
     [GONE, marker("m0", -2, latest=False), BEFORE], CLAIMED, None),
    ("overwritten with the same size: only the older version fits", [GONE, version("v3", 20), RIGHT], CLAIMED, "v2"),
    ("of the same size, and written long after", [GONE, version("v3", 20)], CLAIMED, None),
    ("put back and deleted again, known by its ETag",
     [GONE, version("v3", 20, etag="w"), marker("m0", 10, latest=False)],
     Claimed(CLAIMED_AT, at(1), 100, "w"), "v3"),
    ("the current one at the claim has another ETag", [GONE, RIGHT], Claimed(CLAIMED_AT, at(1), 100, "w"), None),
    ("written within the grace after the commit", [GONE, version("v2", 0.5)], CLAIMED, "v2"),
    ("a writer's clock behind the store's: of two, the one of before the claim goes first",
     [GONE, version("v3", 0.5), RIGHT], CLAIMED, "v2"),
    ("deleted in the second of the commit, whose time is finer than the store's",
     [marker("m1", -0.0002), RIGHT], CLAIMED, "v2"),
    ("nothing is known of the claim", [GONE, RIGHT], Claimed(), None),
    ("neither size nor ETag is claimed", [GONE, RIGHT], Claimed(CLAIMED_AT, at(1)), None),
    ("of a deletion vector's file no log records the size: what was current at the claim is it",
     [GONE, version("v2", -0.1, 43)], VECTORS, "v2"),
    ("its vectors end behind the version's end", [GONE, version("v2", -0.1, 42)], VECTORS, None),
    ("a deletion vector's file that was written long after", [GONE, version("v3", 20, 43)], VECTORS, None),
    ("the current version brings nothing back", [version("v2", -0.1, is_latest=True)], CLAIMED, None),
    ("no version at all", [], CLAIMED, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("versions", "claimed", "expected"), [m[1:] for m in MATCHES], ids=[m[0] for m in MATCHES]
)
def test_the_version_that_holds_what_was_claimed(
    versions: list[ObjectVersion], claimed: Claimed, expected: str | None
) -> None:
    found = History(versions).match(claimed)
    assert (found.version_id if found else None) == expected


def test_only_the_newest_marker_may_hide_what_its_removal_brings_back() -> None:
    older = marker("m0", 10, latest=False)
    assert History([GONE, RIGHT]).is_beneath_marker(RIGHT)
    assert not History([GONE, older, RIGHT]).is_beneath_marker(RIGHT)
    assert not History([GONE, BAD, RIGHT]).is_beneath_marker(RIGHT)
    assert not History([version("v3", 20, is_latest=True), RIGHT]).is_beneath_marker(RIGHT)
    same_second = marker("m0", -0.1, latest=False)
    assert not History([GONE, RIGHT, same_second]).is_beneath_marker(RIGHT), "which came first nobody knows"


def test_when_a_version_was_replaced_and_how_many_newer_ones_are_not_current() -> None:
    back = version("v3", 31, is_latest=True)
    between = marker("m0", 30, latest=False)
    assert (History([GONE, RIGHT]).replaced_at(RIGHT), History([GONE, RIGHT]).newer_than(RIGHT)) == (
        at(30),
        0,
    )
    gone_and_back = History([back, between, BAD, RIGHT])
    assert [gone_and_back.replaced_at(each) for each in (RIGHT, BAD)] == [at(20), at(30)]
    assert [gone_and_back.newer_than(each) for each in (RIGHT, BAD)] == [2, 1]
    assert (gone_and_back.replaced_at(back), gone_and_back.newer_than(back)) == (None, 0)
    assert (gone_and_back.marker_id, History([GONE, RIGHT]).marker_id) == (None, "m1")


def test_versions_that_may_have_been_current_at_the_claim() -> None:
    many = [version("v4", 20, is_latest=True), version("v3", 0.5), RIGHT, version("v1", -0.2)]
    assert [each.version_id for each in History(many).at_claim(CLAIMED)] == ["v3", "v2"]
    assert History(many).at_claim(Claimed()) == []


def test_a_file_that_nobody_touched_since_its_claim_is_what_was_claimed() -> None:
    current = version("v2", -0.1, is_latest=True)
    assert History([current, BEFORE]).is_untouched_since(CLAIMED)
    assert not History([version("v2", 0.5, is_latest=True)]).is_untouched_since(CLAIMED)
    assert not History([current]).is_untouched_since(Claimed(CLAIMED_AT, at(1), 100, "w"))
    assert not History([BAD, RIGHT]).is_untouched_since(CLAIMED)


def test_a_page_of_versions_becomes_the_history_of_one_key() -> None:
    def listed_version(key: str, name: str, hours: float, **more: Any) -> dict[str, Any]:
        row = {
            "Key": key,
            "VersionId": name,
            "LastModified": at(hours).replace(tzinfo=UTC),
            "IsLatest": False,
        }
        return row | more

    stored = {"Size": 100, "ETag": '"a"'}
    page: dict[str, Any] = {
        "Versions": [
            listed_version("k", "v2", 1, **stored),
            listed_version("k", "v1", 0, **stored),
            listed_version("k2", "x", 9, **stored),
        ],
        "DeleteMarkers": [
            listed_version("k", "m2", 2, IsLatest=True),
            listed_version("k", "m1", 0.5),
            listed_version("k/2", "y", 9),
        ],
    }
    history = history_of(page, "k")
    assert [each.version_id for each in history.versions] == ["m2", "v2", "m1", "v1"]
    assert (history.is_marked, history.whole) == (True, True)
    assert history.newest_older is not None
    assert (history.newest_older.version_id, history.newest_older.etag) == ("v2", "a")
    assert not history_of(page | {"IsTruncated": True, "NextKeyMarker": "k"}, "k").whole
    assert history_of(page | {"IsTruncated": True, "NextKeyMarker": "k2"}, "k").whole
    for named in (*page["Versions"], *page["DeleteMarkers"]):
        del named["IsLatest"]
    assert history_of(page, "k") == history, "the order says which one is current"
    page["DeleteMarkers"][0]["LastModified"] = page["Versions"][0]["LastModified"]
    unknown = history_of(page, "k")
    assert (unknown.is_marked, unknown.marker_id, unknown.newest_older, unknown.whole) == (
        None,
        None,
        None,
        False,
    )
    assert unknown.match(Claimed(size=100)) is None, "any of them may be current"
