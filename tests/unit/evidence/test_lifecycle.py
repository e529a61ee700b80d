"""Effects of a bucket's lifecycle rules on current objects, and their times."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lakeaudit.evidence.storage.lifecycle import (
    ARCHIVES,
    DELETES,
    SMALL,
    Action,
    Lifecycle,
    VersionExpiry,
    actions_of,
    expiries_of,
    read_lifecycle,
)
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.conftest import Aws

DELETE: Any = {"ID": "old", "Status": "Enabled", "Expiration": {"Days": 30}}
COLD: Any = {"ID": "cold", "Status": "Enabled", "Transitions": [{"Days": 90, "StorageClass": "GLACIER"}]}


def action(rule: str = "old", does: str = DELETES, below: str = "", **given: Any) -> Action:
    return Action(rule, does, Location("lake", below), **given)


RULES: list[tuple[str, Any, tuple[Action, ...]]] = [
    ("of the whole bucket", DELETE, (action(days=30),)),
    ("with an empty filter", DELETE | {"Filter": {}}, (action(days=30),)),
    ("disabled", DELETE | {"Status": "Disabled"}, ()),
    ("below a prefix", DELETE | {"Filter": {"Prefix": "tmp/"}}, (action(below="tmp/", days=30),)),
    ("in the old spelling", DELETE | {"Prefix": "tmp/"}, (action(below="tmp/", days=30),)),
    ("with a tag", DELETE | {"Filter": {"Tag": {"Key": "k", "Value": "v"}}}, (action(days=30, tags=True),)),
    ("with several filters",
     DELETE | {"Filter": {"And": {"Prefix": "a/", "ObjectSizeGreaterThan": 5, "ObjectSizeLessThan": 9}}},
     (action(below="a/", days=30, larger_than=5, smaller_than=9),)),
    ("with a prefix and tags", DELETE | {"Filter": {"And": {"Prefix": "a/", "Tags": [{"Key": "k", "Value": "v"}]}}},
     (action(below="a/", days=30, tags=True),)),
    ("on a date", DELETE | {"Expiration": {"Date": datetime(2027, 1, 1, tzinfo=UTC)}},
     (action(date=datetime(2027, 1, 1)),)),  # noqa: DTZ001 - as inside an audit
    ("that only clears markers", DELETE | {"Expiration": {"ExpiredObjectDeleteMarker": True}}, ()),
    ("of older versions alone", {"Status": "Enabled", "NoncurrentVersionExpiration": {"NoncurrentDays": 3}}, ()),
    ("that archives", COLD, (action("cold", ARCHIVES, days=90),)),
    ("that moves to a class that is read at once",
     COLD | {"Transitions": [{"Days": 90, "StorageClass": "GLACIER_IR"}]}, ()),
    ("without a name", {k: v for k, v in DELETE.items() if k != "ID"}, (action("rule 1", days=30),)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "expected"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_what_a_rule_does_to_current_objects(rule: Any, expected: tuple[Action, ...]) -> None:
    assert actions_of({"Rules": [rule]}, "lake") == expected


OLDER: Any = {"ID": "old", "Status": "Enabled", "NoncurrentVersionExpiration": {"NoncurrentDays": 30}}


def expiry(rule: str = "old", below: str = "", days: int = 30, **given: Any) -> VersionExpiry:
    return VersionExpiry(rule, Location("lake", below), days, **given)


EXPIRIES: list[tuple[str, Any, tuple[VersionExpiry, ...]]] = [
    ("of the whole bucket", OLDER, (expiry(),)),
    ("disabled", OLDER | {"Status": "Disabled"}, ()),
    ("below a prefix", OLDER | {"Filter": {"Prefix": "tmp/"}}, (expiry(below="tmp/"),)),
    ("in the old spelling", OLDER | {"Prefix": "tmp/"}, (expiry(below="tmp/"),)),
    ("that keeps some", OLDER | {"NoncurrentVersionExpiration": {"NoncurrentDays": 3, "NewerNoncurrentVersions": 2}},
     (expiry(days=3, newer=2),)),
    ("that names no days", OLDER | {"NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 2}},
     (expiry(days=0, newer=2),)),
    ("with a tag", OLDER | {"Filter": {"Tag": {"Key": "k", "Value": "v"}}}, (expiry(tags=True),)),
    ("with several filters",
     OLDER | {"Filter": {"And": {"Prefix": "a/", "ObjectSizeGreaterThan": 5, "ObjectSizeLessThan": 9,
                                 "Tags": [{"Key": "k", "Value": "v"}]}}},
     (expiry(below="a/", larger_than=5, smaller_than=9, tags=True),)),
    ("of current objects alone", DELETE, ()),
    ("that only moves older versions", {"Status": "Enabled", "NoncurrentVersionTransitions": [
        {"NoncurrentDays": 3, "StorageClass": "GLACIER"}]}, ()),
    ("that waits for ever", OLDER | {"NoncurrentVersionExpiration": {"NoncurrentDays": 2147483647}}, ()),
    ("without a name", {k: v for k, v in OLDER.items() if k != "ID"}, (expiry("rule 1"),)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "expected"), [row[1:] for row in EXPIRIES], ids=[row[0] for row in EXPIRIES]
)
def test_what_a_rule_does_to_older_versions(rule: Any, expected: tuple[VersionExpiry, ...]) -> None:
    assert expiries_of({"Rules": [rule]}, "lake") == expected


@pytest.mark.parametrize(
    ("name", "endpoint", "archives"),
    [
        ("COLD", "http://ceph.lake.local", False),
        ("COLD", "https://obs.cn-north-4.myhuaweicloud.com", True),
        ("ARCHIVE", None, False),
        ("ARCHIVE", "https://cos.ap-guangzhou.myqcloud.com", True),
        ("GLACIER", "http://ceph.lake.local", True),
        ("GLACIER_IR", None, False),
    ],
)
def test_a_move_to_a_class_archives_where_the_store_archives_it(
    name: str, endpoint: str | None, archives: bool
) -> None:
    rule = COLD | {"Transitions": [{"Days": 90, "StorageClass": name}]}
    classes = Clients(Endpoint(endpoint=endpoint)).storage_classes("lake")
    assert bool(actions_of({"Rules": [rule]}, "lake", classes)) == archives


def test_small_objects_are_not_archived_where_the_bucket_says_so() -> None:
    answer = {"Rules": [COLD, DELETE], "TransitionDefaultMinimumObjectSize": "all_storage_classes_128K"}
    assert [each.larger_than for each in actions_of(answer, "lake")] == [SMALL - 1, None]


@pytest.mark.parametrize(
    ("prefix", "meets"),
    [("", True), ("wh/orders/", True), ("wh/orders/day=1/", True), ("wh/ord", True), ("wh/orders_2/", False)],
)
def test_a_rule_meets_a_table_whose_place_its_prefix_touches(prefix: str, meets: bool) -> None:
    assert action(below=prefix).meets(Location("lake", "wh/orders")) is meets
    assert not action(below=prefix).meets(Location("other", "wh/orders"))


def test_a_rule_that_waits_for_ever_never_acts() -> None:
    assert action(days=2147483647).acts_at(datetime(2026, 11, 1)) is None  # noqa: DTZ001


def test_days_end_at_the_midnight_that_follows() -> None:
    written = datetime(2026, 11, 1, 13, 30)  # noqa: DTZ001
    assert action(days=30).acts_at(written) == datetime(2026, 12, 2)  # noqa: DTZ001
    assert action(days=30).acts_at(written.replace(hour=0, minute=0)) == datetime(2026, 12, 1)  # noqa: DTZ001


def test_a_bucket_without_rules_has_none_and_a_missing_bucket_is_reported(
    clients: Clients, aws: Aws, bucket: str
) -> None:
    assert read_lifecycle(clients, bucket) == Lifecycle(bucket)
    aws.s3.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": [DELETE | {"Filter": {"Prefix": "wh/"}}]}
    )
    assert read_lifecycle(clients, bucket).actions == (Action("old", DELETES, Location(bucket, "wh/"), 30),)
    assert read_lifecycle(clients, "no-such-bucket").unread
