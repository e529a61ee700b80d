"""Where an inventory's data files are sought, how a place is cut into splits, how pages follow each other."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence import s3_pages
from lakeaudit.evidence.storage.inventory.report import Manifest, Report, candidates
from lakeaudit.evidence.storage.listing.listing_partitions import PAGES_A_FOLDER, Split, partition
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws_failures import BrokenListing, UnreadableResponse

MANIFEST = Manifest.model_validate(
    {
        "sourceBucket": "lake",
        "destinationBucket": "arn:aws:s3:::reports",
        "creationTimestamp": "0",
        "fileFormat": "CSV",
        "fileSchema": "Bucket, Key",
        "files": [],
    }
)


def report(place: str, *searched: str) -> Report:
    folders = tuple(Location.parse(uri) for uri in searched)
    return Report(Location.parse(place), MANIFEST, "", datetime(2024, 5, 7, tzinfo=UTC), folders)


SOUGHT = [
    (
        "as delivered",
        report("s3://reports/d/lake/c/2024/manifest.json", "s3://reports/d/lake/c"),
        "d/lake/c/data/x",
        [
            "s3://reports/d/lake/c/data/x",
            "s3://reports/d/lake/c/d/lake/c/data/x",
            "s3://reports/d/lake/c/lake/c/data/x",
            "s3://reports/d/lake/c/c/data/x",
            "s3://reports/d/lake/c/x",
        ],
    ),
    (
        "copied elsewhere",
        report("s3://copy/p/manifest.json", "s3://copy/p"),
        "d/data/x",
        ["s3://reports/d/data/x", "s3://copy/p/d/data/x", "s3://copy/p/data/x", "s3://copy/p/x"],
    ),
    ("local is sought locally", report("/r/manifest.json", "/r"), "data/x", ["/r/data/x", "/r/x"]),
    ("not out of its folder", report("/r/manifest.json", "/r"), "../etc/passwd", []),
    (
        "a doubled slash is kept",
        report("s3://copy/manifest.json", "s3://copy/p"),
        "d//x",
        ["s3://reports/d//x", "s3://copy/p/d//x", "s3://copy/p//x", "s3://copy/p/x"],
    ),
]


@pytest.mark.parametrize(
    ("where", "key", "sought"), [row[1:] for row in SOUGHT], ids=[row[0] for row in SOUGHT]
)
def test_data_files_are_sought_by_ever_shorter_keys(where: Report, key: str, sought: list[str]) -> None:
    assert [place.uri for place in candidates(where, key)] == sought


def tree(keys: set[str]) -> Any:
    """The sub-folders of a bucket with these keys, three on a page."""

    def folders(prefix: str) -> Iterator[list[str]]:
        below = {key[len(prefix) :] for key in keys if key.startswith(prefix)}
        found = sorted({prefix + rest.partition("/")[0] + "/" for rest in below if "/" in rest})
        yield from (found[i : i + 3] for i in range(0, max(len(found), 1), 3))

    return folders


def holds_key(split: Split, key: str) -> bool:
    rest = key.removeprefix(split.prefix)
    return key.startswith(split.prefix) and not (split.flat and "/" in rest)


KEYS = st.sets(
    st.lists(st.sampled_from(["a", "b", "", "ab", "c d"]), min_size=1, max_size=5).map("/".join), max_size=40
)


@given(keys=KEYS, wanted=st.integers(2, 30))
def test_every_key_lies_in_exactly_one_split(keys: set[str], wanted: int) -> None:
    splits = partition("", tree(keys), wanted)
    assert all(sum(holds_key(split, key) for split in splits) == 1 for key in keys)


def test_a_place_is_cut_into_as_many_splits_as_wanted() -> None:
    keys = {f"{a}/{b}/f" for a in range(5) for b in range(5)}
    assert [len(partition("", tree(keys), wanted)) for wanted in (2, 6, 7)] == [6, 6, 11]


def test_a_folder_whose_pages_do_not_end_stays_whole() -> None:
    read = []

    def endless(prefix: str) -> Iterator[list[str]]:
        while True:
            read.append(prefix)
            yield [f"{len(read)}/"]

    assert partition("", endless, 8) == [Split("", flat=False)]
    assert len(read) == PAGES_A_FOLDER + 1


class Store:
    """Answers with the given pages, one a call; an exception among them is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def list_objects_v2(self, **asked: Any) -> Any:
        self.asked.append(asked)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def listed(store: Any) -> list[Any]:
    return list(s3_pages.object_pages(store, "b", "", "", lambda: None))


def test_only_is_truncated_ends_a_list() -> None:
    more = {"IsTruncated": True, "Contents": []}
    store = Store(
        more | {"NextContinuationToken": "1"}, more | {"NextContinuationToken": "2"}, {"IsTruncated": False}
    )
    assert len(listed(store)) == 3
    assert [asked.get("ContinuationToken") for asked in store.asked] == [None, "1", "2"]


@pytest.mark.parametrize("again", [{}, {"NextContinuationToken": "1"}])
def test_a_list_that_goes_on_without_saying_where_is_broken(again: dict[str, str]) -> None:
    store = Store({"IsTruncated": True, "NextContinuationToken": "1"}, {"IsTruncated": True} | again)
    with pytest.raises(BrokenListing):
        listed(store)


def test_half_a_response_is_requested_again() -> None:
    assert len(listed(Store(UnreadableResponse(endpoint="e", reason="cut off"), {"IsTruncated": False}))) == 1


def test_every_request_waits_its_turn() -> None:
    waits = []
    store: Any = Store({"IsTruncated": True, "NextContinuationToken": "1"}, {"IsTruncated": False})
    list(s3_pages.object_pages(store, "b", "", "", lambda: waits.append(1)))
    assert len(waits) == 2
