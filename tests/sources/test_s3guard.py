"""S3Guard: the meaning of its items, from a live table and from an export, and faults of broken ones."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.config import S3Options
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.metastore.s3guard import reader as s3guard
from lakeaudit.evidence.metastore.s3guard.items import ATTRIBUTES
from lakeaudit.evidence.protocol import Context, Entries
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders import s3guard as built
from tests.builders.examples import examples
from tests.builders.s3guard import Item
from tests.conftest import Aws
from tests.sources.metastore_contract import (
    AT,
    BUCKETS,
    DELETED,
    FILES,
    FOLDERS,
    OLD,
    MetastoreContract,
    World,
    rows_of,
)

HOUR = timedelta(hours=1)


def context(clients: Clients, *, live: bool = True, as_of: datetime = AT) -> Context:
    return Context(InProcessEngine(2), clients, as_of=as_of, now=as_of, live=live)


def world_items() -> list[Item]:
    """As an ordinary day of Spark leaves a table: renamed files, many tombstones, authoritative flags of renames."""
    items: list[Item] = []
    for bucket in BUCKETS:
        items += [built.folder(bucket, key, last_updated=OLD, authoritative=True) for key in FOLDERS]
        items += [built.file(bucket, key, size, mod_time=OLD) for key, size in FILES.items()]
        items += [built.tombstone(bucket, key, at=OLD) for key in DELETED]
    return items


def options(clients: Clients) -> S3Options:
    at = clients.default
    return S3Options(endpoint=at.endpoint, region=at.region, path_style=True)


def world_of(clients: Clients, **source: Any) -> World:
    everything, orders = (
        s3guard.read(S3Guard(kind="s3guard", **source, location=place), context(clients), "metastore:0")
        for place in (None, Location("lake", "wh/orders"))
    )
    return World(everything, rows_of(everything), rows_of(orders))


class TestLiveTable(MetastoreContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, clients: Clients, aws: Aws) -> World:
        built.create_table(aws.dynamodb, "contract-live", world_items())
        return world_of(clients, table="contract-live", s3=options(clients))


class TestExport(MetastoreContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> World:
        folder = tmp_path_factory.mktemp("export [odd] {name}* %20 é")
        built.export(built.into(folder), [built.marker(), *world_items()], at=AT - HOUR)
        return world_of(clients, export=Location.parse(str(folder)))


@pytest.fixture
def exported(clients: Clients, tmp_path: Path) -> Any:
    """Reads the items by way of an export, taken at AT."""

    def read(items: Sequence[Item], *, marker: Item | None = None, **source: Any) -> Entries:
        built.export(built.into(tmp_path), [marker or built.marker(), *items], at=AT)
        asked = S3Guard(kind="s3guard", export=Location.parse(str(tmp_path)), **source)
        return s3guard.read(asked, context(clients), "metastore:0")

    return read


def naive(at: datetime) -> datetime:
    return at.replace(tzinfo=None)


def test_what_items_mean(exported: Any) -> None:
    """Item, and the columns it becomes (of those not null)."""
    ms = timedelta(milliseconds=7)
    item = built.file("b", "d/f", 5, mod_time=OLD + ms, last_updated=OLD, etag='"e"', version_id="null")
    items = [
        item,
        built.file("b", "renamed", 6, mod_time=OLD, etag=None, version_id="3HL4"),
        built.without(built.file("b", "hadoop-3.2", 7, mod_time=OLD), "last_updated", "is_deleted"),
        built.without(built.file("b", "no-length", mod_time=OLD), "file_length", "mod_time"),
        built.folder("b", "d", last_updated=OLD, authoritative=True),
        built.tombstone("b", "dead", at=OLD + ms),
    ]
    common = {
        "source": "metastore:0",
        "bucket": "b",
        "expired": False,
        "honoured": False,
        "authoritative": False,
    }
    alive = common | {"is_dir": False, "tombstone": False, "last_updated_given": True}
    md5 = "9b2cf535f27731c974343645a3985328"
    assert rows_of(exported(items, ttl="none")) == [
        alive | {"key": "d", "parent": "", "is_dir": True, "authoritative": True, "last_updated": naive(OLD)},
        alive
        | {
            "key": "d/f",
            "parent": "d",
            "size": 5,
            "etag": "e",
            "mod_time": naive(OLD + ms),
            "last_updated": naive(OLD),
        },
        alive
        | {"key": "dead", "parent": "", "size": 0, "tombstone": True}
        | {"mod_time": naive(OLD + ms), "last_updated": naive(OLD + ms)},
        alive
        | {"key": "hadoop-3.2", "parent": "", "size": 7, "etag": md5, "mod_time": naive(OLD)}
        | {"last_updated_given": False},
        alive | {"key": "no-length", "parent": "", "etag": md5},
        alive | {"key": "renamed", "parent": "", "size": 6, "version_id": "3HL4", "mod_time": naive(OLD)},
    ]


MINUTE = timedelta(minutes=1)
TTL_CASES = [
    # key, last updated before the cut, expired with a ttl of 15 minutes
    ("long-ago", 2 * HOUR, True),
    ("just-expired", 15 * MINUTE, True),
    ("just-not", 15 * MINUTE - timedelta(milliseconds=1), False),
    ("renamed", None, False),
    ("auth/old", 2 * HOUR, False),
    ("auth-2/old", 2 * HOUR, True),
    ("auth", 2 * HOUR, False),
]


def test_ttl_expires_what_is_old_outside_honoured_paths(exported: Any) -> None:
    items = [
        built.file("b", key, mod_time=OLD, last_updated=AT - age if age is not None else None)
        for key, age, _ in TTL_CASES
    ]
    items += [built.tombstone("b", f"dead/{key}", at=AT - (age or 2 * HOUR)) for key, age, _ in TTL_CASES[:3]]
    read = exported(items, ttl=15 * MINUTE, authoritative=(Location("b", "auth"), Location("c", "long-ago")))
    rows = {row["key"]: row for row in rows_of(read)}
    assert {key: rows[key]["expired"] for key, _, _ in TTL_CASES} == {key: gone for key, _, gone in TTL_CASES}
    assert [rows[f"dead/{key}"]["expired"] for key, _, _ in TTL_CASES[:3]] == [True, True, False]
    assert {key for key, row in rows.items() if row["honoured"]} == {"auth", "auth/old"}


@pytest.mark.parametrize(("told", "honoured", "expired"), [("all", True, False), ("none", False, True)])
def test_authoritative_everywhere_or_nowhere(exported: Any, told: str, honoured: bool, expired: bool) -> None:
    (row,) = rows_of(exported([built.file("b", "x", mod_time=OLD, last_updated=OLD)], authoritative=told))
    assert (row["honoured"], row["expired"]) == (honoured, expired)


BROKEN: list[tuple[Item, str]] = [
    ({"file_length": {"N": "12.5"}}, "file_length is not a number of bytes"),
    ({"file_length": {"N": "-1"}}, "file_length is not a number of bytes"),
    ({"file_length": {"N": "99999999999999999999"}}, "file_length is not a number of bytes"),
    ({"file_length": {"S": "12"}}, "file_length is not a number of bytes"),
    ({"file_length": {"N": "many"}}, "file_length is not a number of bytes"),
    ({"mod_time": {"N": "253402300800000"}}, "mod_time is not a time"),
    ({"mod_time": {"N": "1" * 38}}, "mod_time is not a time"),
    ({"last_updated": {"N": "-5"}}, "last_updated is not a time"),
    ({"last_updated": {}}, "last_updated is not a time"),
    ({"is_dir": {"S": "true"}}, "is_dir is neither true nor false"),
    ({"is_deleted": {"N": "1"}}, "is_deleted is neither true nor false"),
    ({"etag": {"L": []}}, "etag is not text"),
    ({"child": {"S": "a/b"}}, "child is not a name"),
    ({"child": {"N": "7"}}, "child is not a name"),
    ({"parent": {"S": "/b/"}}, "parent is not a path below a bucket"),
    ({"parent": {"S": "b/x"}}, "parent is not a path below a bucket"),
    ({"parent": {"S": "/b//x"}}, "parent is not a path below a bucket"),
    ({"parent": {"S": "/"}}, "parent is not a path below a bucket"),
    ({"parent": {"B": "YQ=="}}, "parent is not a path below a bucket"),
]


def test_broken_items_are_reported_and_the_others_read(exported: Any) -> None:
    sound = built.file("b", "sound", mod_time=OLD)
    items = [{**built.file("b", f"x/f{n}", mod_time=OLD), **change} for n, (change, _) in enumerate(BROKEN)]
    items.append({})
    read = exported([sound, *items])
    rejects = sorted(
        row["reject"].partition(" in the item of ")[0] for row in rows_of(read) if "reject" in row
    )
    assert rejects == sorted([*(fault for _, fault in BROKEN), "parent is not a path below a bucket"])
    assert [row["key"] for row in rows_of(read) if "reject" not in row] == ["sound"]


PART = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=12)
KEYS = st.sets(st.lists(PART, min_size=1, max_size=5).map("/".join), min_size=150, max_size=150)


@examples(2, 50)
@given(KEYS)
def test_any_unicode_key_comes_back_as_it_was(exported: Any, keys: set[str]) -> None:
    rows = rows_of(exported([built.file("b", key, mod_time=OLD) for key in keys]))
    assert [row["key"] for row in rows] == sorted(keys)
    assert [row["parent"] for row in rows] == [key.rpartition("/")[0] for key in sorted(keys)]


VALUE = st.one_of(
    st.fixed_dictionaries({"S": st.text(st.characters(exclude_categories=["Cs"]), max_size=9)}),
    st.fixed_dictionaries(
        {"N": st.from_regex(r"-?[0-9]{1,38}(\.[0-9]{1,9})?([eE][0-9]{1,3})?", fullmatch=True)}
    ),
    st.fixed_dictionaries({"BOOL": st.booleans() | st.just("maybe")}),
    st.just({"NULL": True}),
    st.just({"M": {"a": {"S": "b"}}}),
)
HOSTILE = st.dictionaries(st.sampled_from(ATTRIBUTES), VALUE, max_size=6)


@examples(2, 100)
@given(st.lists(HOSTILE, min_size=150, max_size=150))
def test_every_item_is_a_row_or_a_reject(exported: Any, drawn: list[Item]) -> None:
    items = [{**built.file("b", f"f{n}", mod_time=OLD), **item} for n, item in enumerate(drawn)]
    rows = rows_of(exported(items))
    assert len(rows) == len(items)
    assert all("reject" in row or (row["bucket"] and row["key"]) for row in rows)


@pytest.mark.parametrize("number", ["1000.0000000E29", "1e40", "9223372036854775808", "0.5"])
def test_an_invalid_number_of_bytes_is_a_reject(exported: Any, number: str) -> None:
    """The first is more than a DECIMAL of DuckDB holds, and yet no null of TRY_CAST."""
    items = [
        {**built.file("b", "odd", mod_time=OLD), "file_length": {"N": number}},
        built.file("b", "sound", mod_time=OLD),
    ]
    assert [row.get("reject") for row in rows_of(exported(items))] == [
        "file_length is not a number of bytes in the item of /b/odd",
        None,
    ]


def test_broken_items_of_other_places_do_not_count_here(exported: Any) -> None:
    items = [
        {**built.file("b", "t/f", mod_time=OLD), "file_length": {"N": "x"}},
        {**built.file("b", "t-2/f", mod_time=OLD), "file_length": {"N": "x"}},
        {**built.file("b", "elsewhere/f", mod_time=OLD), "parent": {"S": "nobody knows"}},
    ]
    rejects = [row["reject"] for row in rows_of(exported(items, location=Location("b", "t")))]
    assert [reject.rpartition(" ")[2] for reject in rejects] == ["knows/f", "/b/t/f"]


@pytest.mark.parametrize("version", [99, 101, None])
@pytest.mark.parametrize("way", ["live", "export"])
def test_a_table_of_another_layout_is_refused(
    clients: Clients, aws: Aws, tmp_path: Path, version: int | None, way: str
) -> None:
    items = [built.file("b", "x", mod_time=OLD)]
    if way == "live":
        built.create_table(aws.dynamodb, f"layout-{version}", items, version=version)
        source = S3Guard(kind="s3guard", table=f"layout-{version}", s3=options(clients))
    else:
        marked = [built.marker(version)] if version else []
        built.export(built.into(tmp_path), [*marked, *items], at=AT)
        source = S3Guard(kind="s3guard", export=Location.parse(str(tmp_path)))
    with pytest.raises(SourceError, match="another layout"):
        s3guard.read(source, context(clients), "m")


def test_items_without_parent_and_child_are_another_layout(exported: Any) -> None:
    with pytest.raises(SourceError, match=r"another layout.*no item has a parent and a child"):
        exported([{"id": {"S": "1"}}, {"id": {"S": "2"}}], marker={"id": {"S": "0"}})


def test_a_table_with_other_keys_is_another_layout(clients: Clients, aws: Aws) -> None:
    aws.dynamodb.create_table(
        TableName="other-keys",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    source = S3Guard(kind="s3guard", table="other-keys", s3=options(clients))
    with pytest.raises(SourceError, match=r"another layout.*keys are not parent and child"):
        s3guard.read(source, context(clients), "m")


def test_a_new_empty_table_is_empty(clients: Clients, aws: Aws) -> None:
    built.create_table(aws.dynamodb, "empty-table", [], version=None)
    source = S3Guard(kind="s3guard", table="empty-table", s3=options(clients))
    assert rows_of(s3guard.read(source, context(clients), "m")) == []
