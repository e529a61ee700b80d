"""Until when an older version is kept, rule by rule."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from lakeaudit.collect.lifecycles import OF_THE_PAST, Lifecycles, version_rules
from lakeaudit.evidence.storage.lifecycle import DELETES, Action, Lifecycle, VersionExpiry
from lakeaudit.findings import restorable_until
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import OLDER_VERSIONS
from tests.builders.connections import connection
from tests.conftest import Aws

REPLACED = datetime(2026, 11, 20, 10, 30)  # noqa: DTZ001 - times of an audit are UTC without a zone
KEY = "wh/orders/a.parquet"


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    opened = connection()
    yield opened
    opened.close()


def day(month: int, number: int) -> datetime:
    return datetime(2026, month, number)  # noqa: DTZ001


def rule(days: int = 3, name: str = "old", below: str = "", **given: Any) -> VersionExpiry:
    return VersionExpiry(name, Location("lake", below), days, **given)


ENDS: list[tuple[str, list[VersionExpiry], dict[str, Any], datetime | None]] = [
    # what, rules, what differs from a version of 100 bytes that is the newest one replaced, its end
    ("no rule", [], {}, None),
    ("at the midnight that follows", [rule(3)], {}, day(11, 24)),
    ("replaced at midnight", [rule(3)], {"since": day(11, 20)}, day(11, 23)),
    ("within the day", [rule(0)], {}, day(11, 21)),
    ("the first of two rules", [rule(9), rule(3, "b")], {}, day(11, 24)),
    ("of this place", [rule(below="wh/orders/")], {}, day(11, 24)),
    ("of a prefix that ends within a name", [rule(below="wh/ord")], {}, day(11, 24)),
    ("of another place", [rule(below="wh/orders_2/")], {}, None),
    ("of another bucket", [rule(3)], {"bucket": "other"}, None),
    ("of larger ones", [rule(larger_than=100)], {}, None),
    ("of smaller ones", [rule(smaller_than=100)], {}, None),
    ("of its size", [rule(larger_than=99, smaller_than=101)], {}, day(11, 24)),
    ("the newest of three that are kept", [rule(newer=3)], {}, None),
    ("the third of three that are kept", [rule(newer=3)], {"newer": 2}, None),
    ("the fourth, of which three are kept", [rule(newer=3)], {"newer": 3}, day(11, 24)),
    ("kept by one rule and not by the other", [rule(newer=3), rule(9, "b")], {}, day(11, 30)),
    ("long due", [rule(3)], {"since": day(1, 1)}, day(1, 4)),
]


@pytest.mark.parametrize(
    ("rules", "version", "expected"), [each[1:] for each in ENDS], ids=[each[0] for each in ENDS]
)
def test_the_end_of_a_version(
    con: Connection, rules: list[VersionExpiry], version: dict[str, Any], expected: datetime | None
) -> None:
    told = ends(con, Lifecycle("lake", older=tuple(rules)), **version)
    assert [row["recoverable_until"] for row in told] == ([] if expected is None else [expected])
    assert [row["doubt"] for row in told] == [None] * len(told)


def ends(con: Connection, lifecycle: Lifecycle, **version: Any) -> list[dict[str, Any]]:
    given = {"bucket": "lake", "key": KEY, "version_id": "v1", "size": 100, "since": REPLACED, "newer": 0}
    row = given | version
    versions = duck.small(OLDER_VERSIONS, [[row[name] for name in OLDER_VERSIONS.names]])
    return duck.rows_of(restorable_until.ends(con, versions, version_rules([lifecycle])))


def test_the_rule_is_named_with_its_day(con: Connection) -> None:
    (told,) = ends(con, Lifecycle("lake", older=(rule(9), rule(3, "b"))))
    assert (
        told["kept_words"]
        == "on 2026-11-24 or later, lifecycle rule b deletes the version that can be restored"
    )


UNTOLD: list[tuple[str, Lifecycle, dict[str, Any], str, bool]] = [
    # what, the lifecycle, what differs, why not, whether it is said of the bucket too
    ("not read", Lifecycle("lake", unread="AccessDenied"), {}, "s3://lake cannot be read: AccessDenied", True),
    ("by tags alone", Lifecycle("lake", older=(rule(tags=True),)), {}, "rule old selects objects by tags", True),
    ("by tags, sooner than by another", Lifecycle("lake", older=(rule(9), rule(3, "b", tags=True))), {},
     "rule b selects objects by tags", True),
    ("replaced nobody knows when", Lifecycle("lake", older=(rule(),)), {"since": None, "newer": None},
     "rule old deletes it 3 days after it was replaced, and it is unknown when that was", False),
    ("nobody knows how many are newer", Lifecycle("lake", older=(rule(newer=2),)), {"since": None, "newer": None},
     "it is unknown when that was", False),
    ("by tags, replaced nobody knows when", Lifecycle("lake", older=(rule(tags=True),)), {"since": None, "newer": None},
     "rule old selects objects by tags", True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("lifecycle", "version", "why", "of_bucket"),
    [each[1:] for each in UNTOLD],
    ids=[each[0] for each in UNTOLD],
)
def test_an_unknown_expiry_is_reported(
    con: Connection, lifecycle: Lifecycle, version: dict[str, Any], why: str, of_bucket: bool
) -> None:
    (told,) = ends(con, lifecycle, **version)
    assert told["recoverable_until"] is None
    assert told["kept_words"].startswith("it is unknown how long the version to restore is kept: ")
    assert why in told["kept_words"]
    assert (told["doubt"] is not None) is of_bucket


def test_a_later_rule_by_tags_changes_nothing(con: Connection) -> None:
    (told,) = ends(con, Lifecycle("lake", older=(rule(3), rule(9, "b", tags=True))))
    assert (told["recoverable_until"], told["doubt"]) == (day(11, 24), None)


@pytest.mark.parametrize("hours", [0, 0.5, 13.5, 23.999])
def test_midnight_is_that_of_rules_for_current_objects(con: Connection, hours: float) -> None:
    since = day(11, 20) + timedelta(hours=hours)
    (told,) = ends(con, Lifecycle("lake", older=(rule(7),)), since=since)
    assert told["recoverable_until"] == Action("old", DELETES, Location("lake", ""), days=7).acts_at(since)


def test_one_request_a_bucket_and_none_for_the_past(clients: Clients, aws: Aws, bucket: str) -> None:
    older: Any = {"Rules": [{"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""},
                             "NoncurrentVersionExpiration": {"NoncurrentDays": 3}}]}  # fmt: skip
    aws.s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=older)
    lifecycles = Lifecycles(clients)
    first = lifecycles.of([bucket])
    aws.s3.delete_bucket_lifecycle(Bucket=bucket)
    assert lifecycles.of([bucket, bucket]) == first == [
        Lifecycle(bucket, older=(VersionExpiry("old", Location(bucket, ""), 3),))
    ]  # fmt: skip
    assert Lifecycles(clients, live=False).of([bucket]) == [Lifecycle(bucket, unread=OF_THE_PAST)]
    assert lifecycles.of([]) == []
