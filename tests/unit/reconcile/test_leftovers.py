"""Which unused files are left to people, and when two objects hold the same bytes. Without storage."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import load_lake
from lakeaudit.evidence.storage.head import ObjectHead
from lakeaudit.keys import Location
from lakeaudit.reconcile.actions.files import leftovers
from lakeaudit.reconcile.actions.files.hide_leftover import HideLeftover
from lakeaudit.reconcile.actions.files.leftovers import LeftoverState
from lakeaudit.reconcile.actions.files.quarantine import Quarantine
from lakeaudit.reconcile.copying import ranges
from lakeaudit.reconcile.key_state import ENABLED, Current
from lakeaudit.reconcile.protocol import Case
from lakeaudit.schemas import DISCREPANCIES

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MD5, OTHER = "0" * 32, "1" * 32
LAKE = """
version: 1
lake: shop
results: /tmp/results
quarantine: {location: s3://quarantine/shop}
inventories: [{kind: listing, location: s3://lake/warehouse}]
tables:
- {name: orders, location: s3://lake/warehouse/orders, manifests: [{kind: delta}]}
"""
LISTS = (
    "- {name: all, location: s3://lake/warehouse, manifests: [{kind: file_list, location: s3://lists/all}]}\n"
)
STORE = "metastores: [{kind: s3guard, table: guard, location: s3://lake}]\n"


def case(folder: Path, lake: str = LAKE, **row: Any) -> Case:
    """A file that no commit lists, of a table that was watched for a month."""
    file = folder / "lake.yaml"
    file.write_text(lake)
    loaded = load_lake(file, {})
    usual = {"kind": "uncommitted", "category": "data", "bucket": "lake", "key": "warehouse/orders/a.parquet"}
    return Case(
        dict.fromkeys(DISCREPANCIES.names) | usual | row, loaded, loaded.table("orders"), (), NOON,
        NOON - timedelta(days=30),
    )  # fmt: skip


def head(**given: Any) -> ObjectHead:
    """An object of a week before noon."""
    usual = ObjectHead(7, MD5, None, NOON - timedelta(days=7), "STANDARD", False, False, "NONE", None, None)
    return replace(usual, **given)


def state(current: Current | None = None, **given: Any) -> LeftoverState:
    place = Location("quarantine", "shop/plan/lake/warehouse/orders/a.parquet")
    return replace(LeftoverState("", current or Current(head()), place=place), **given)


LISTED_COPY = {"kind": "duplicate_content", "related_key": "b", "manifest_time": NOON}


@pytest.mark.parametrize(
    ("lake", "row", "why"),
    [
        (LAKE, {}, None),
        (LAKE.replace("quarantine:", "#"), {}, "the lake file names no quarantine"),
        (LAKE + STORE, {}, "a metadata store lists files there"),
        (LAKE + LISTS, {}, "the claims of all are incomplete"),
        (LAKE, {"category": "log"}, "files of category log are not removed"),
        (LAKE, {"category": "other"}, "files of category other are not removed"),
        (LAKE, {"category": None}, "files of category None are not removed"),
        (LAKE, {"kind": "conflicting_owner"}, "files of kind conflicting_owner are not removed"),
        (LAKE, {"kind": "stale_visible"}, "files of kind stale_visible are not removed"),
        (LAKE, {"kind": "duplicate_content", "category": None, "related_key": "b"}, None),
        (LAKE, {"kind": "duplicate_content"}, "the finding does not name the file that stays"),
        (LAKE, LISTED_COPY | {"manifest_kind": "delta"}, "its table lists the file"),
        (LAKE, LISTED_COPY | {"manifest_kind": "previous"}, None),
    ],
)
def test_refusals_before_any_request_to_storage(
    tmp_path: Path, lake: str, row: dict[str, Any], why: str | None
) -> None:
    for action in (HideLeftover(), Quarantine()):
        told = action.refuses(case(tmp_path, lake, **row))
        assert (told is None) is (why is None)
        assert (why or "") in (told or "")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (state(), None),
        (replace(state(), current=None), "it no longer exists"),
        (state(Current(head(size=8))), "it was overwritten since the audit"),
        (state(Current(head(), legal_hold=True)), "it is under a legal hold"),
        (state(Current(head(), locked_until=NOON + timedelta(days=1))), "it is locked until 2026-11-22"),
        (state(Current(head(), locked_until=NOON - timedelta(days=1))), None),
        (state(Current(head(archived=True, storage_class="GLACIER"))), "it is archived (GLACIER)"),
        (state(inside="warehouse/orders/x/"), "it is inside a table that the lake file does not name"),
        (state(Current(head(modified_at=NOON - timedelta(days=3)))), None),
        (state(Current(head(modified_at=NOON - timedelta(days=2)))), "younger than leftover_age"),
        (
            state(Current(head(modified_at=NOON - timedelta(days=3), multipart=True, etag=f"{MD5}-2"))),
            "younger than leftover_age",
        ),
        (state(Current(head(modified_at=NOON - timedelta(days=31)))), "older than the first complete audit"),
        (state(versioning="Suspended"), "versioning of its bucket is suspended"),
        (
            state(Current(head(encryption="SSE-KMS"))),
            "a copy could not be verified",
        ),
        (state(Current(head(encryption="SSE-KMS", checksum="crc32:00"))), None),
        (state(Current(head(size=(5 << 30) + 1))), "above 5 GiB and was not uploaded in parts"),
        (state(place=None), "the quarantine is at another endpoint"),
        (state(place=Location("quarantine", "x" * 1025)), "its key is too long for the quarantine"),
    ],
)
def test_what_the_object_itself_refuses(tmp_path: Path, state: LeftoverState, why: str | None) -> None:
    size = 7 if why is None or "5 GiB" not in why else (5 << 30) + 1
    told = Quarantine().propose(case(tmp_path, storage_size=size), state)
    assert isinstance(told, str) is (why is not None)
    assert (why or "") in str(told)


def test_all_obstacles_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    lake = LAKE.replace("quarantine:", "#") + LISTS + STORE
    told = HideLeftover().refuses(
        case(tmp_path, lake, category="log", storage_time=NOON - timedelta(days=40))
    )
    assert told is not None
    for words in (
        "no quarantine",
        "a metadata store",
        "claims of",
        "of category log",
        "first complete audit",
    ):
        assert words in told
    locked = Current(
        head(modified_at=NOON - timedelta(days=31), archived=True, storage_class="GLACIER"), legal_hold=True
    )
    now = HideLeftover().propose(case(tmp_path), state(locked, inside="warehouse/orders/x/"))
    assert isinstance(now, str)
    for words in ("legal hold", "archived (GLACIER)", "it is inside a table", "first complete audit"):
        assert words in now


def test_a_versioned_bucket_does_not_need_a_verified_copy(tmp_path: Path) -> None:
    large = Current(head(size=(5 << 30) + 1, version_id="v", encryption="SSE-KMS"))
    hidden = state(large, versioning=ENABLED, place=None)
    assert not isinstance(HideLeftover().propose(case(tmp_path), hidden), str)
    assert HideLeftover().propose(case(tmp_path), state()) == "versioning of its bucket is off"


@pytest.mark.parametrize(
    ("known", "copy", "same"),
    [
        (head(), head(), True),
        (head(), head(size=8), False),
        (head(), head(etag=OTHER), False),
        (head(etag=f"{MD5}-2"), head(etag=f"{MD5}-2"), True),
        (head(etag=f"{MD5}-2"), head(etag=f"{OTHER}-2"), None),
        (head(etag=f"{MD5}-2"), head(), None),
        (head(encryption="SSE-KMS"), head(encryption="SSE-KMS"), None),
        (head(encryption="SSE-C"), head(), None),
        (head(encryption="SSE-S3"), head(), True),
        (head(etag="opaque"), head(etag="opaque"), None),
        (head(checksum="crc32:aa"), head(checksum="crc32:aa", etag=OTHER), True),
        (head(checksum="crc32:aa"), head(checksum="crc32:bb"), False),
        (head(checksum="crc32:aa"), head(checksum="sha256:bb"), True),
        (head(checksum="crc32:aa", encryption="SSE-KMS"), head(encryption="SSE-KMS"), None),
    ],
)
def test_same_different_or_could_not_tell(known: ObjectHead, copy: ObjectHead, same: bool | None) -> None:
    assert leftovers.same_bytes(leftovers.recorded(known), copy) is same


@pytest.mark.parametrize(
    ("sizes", "size", "parts"),
    [
        ([5, 5, 5], 12, [(0, 4), (5, 9), (10, 11)]),
        ([5, 5], 10, [(0, 4), (5, 9)]),
        ([7, 5, 3], 15, [(0, 6), (7, 11), (12, 14)]),
    ],
)
def test_parts_follow_one_another(sizes: list[int], size: int, parts: list[tuple[int, int]]) -> None:
    assert ranges(sizes, size) == parts
