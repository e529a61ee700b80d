"""The key of a row and its owner, in plain Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.keys import (
    Location,
    identify,
    in_known_store,
    moved,
    origins,
    outside_local,
    owner_of,
    true_place,
    uri_of,
)

URIS = [
    ("s3://lake/a/b", ("lake", "a/b")),
    ("s3a://lake/a/b", ("lake", "a/b")),
    ("s3n://lake/a/b", ("lake", "a/b")),
    ("s3://lake", ("lake", "")),
    ("s3://lake/", ("lake", "")),
    ("s3://lake//a", ("lake", "/a")),
    ("s3://lake/a//b/", ("lake", "a//b/")),
    ("s3://lake/a%2Fb+c%20d", ("lake", "a%2Fb+c%20d")),
    ("s3://lake/a?b#c", ("lake", "a?b#c")),
    ("s3://lake/./a/../b", ("lake", "./a/../b")),
    ("s3://lake/Ä\U0001d4b3\u2028", ("lake", "Ä\U0001d4b3\u2028")),
    ("/data/a", ("", "data/a")),
    ("file:/data/a", ("", "data/a")),
    ("file:///data/a", ("", "data/a")),
    ("s3://", None),
    ("s3:///a", None),
    ("S3://lake/a", None),
    ("gs://lake/a", ("lake", "a")),
    ("abfss://wh@acme.dfs.core.windows.net/a/b", ("wh@acme", "a/b")),
    ("abfs://wh@acme.dfs.core.windows.net/a/b", ("wh@acme", "a/b")),
    ("wasbs://wh@acme.blob.core.windows.net/a/b", ("wh@acme", "a/b")),
    ("wasb://wh@acme.blob.core.windows.net//a", ("wh@acme", "/a")),
    ("abfss://$web@acme.dfs.core.windows.net", ("$web@acme", "")),
    ("abfss://wh@acme.dfs.core.windows.net/a%20@b\n", ("wh@acme", "a%20@b\n")),
    ("abfss://c@a.dfs.core.windows.net/a", None),
    ("abfss://wh@acme.dfs.core.chinacloudapi.cn/a", None),
    ("abfss://wh@acme.dfs.core.windows.net.evil.example/a", None),
    ("abfss://user:word@acme.dfs.core.windows.net/a", None),
    ("abfss://wh@onelake.dfs.fabric.microsoft.com/a", None),
    ("https://acme.blob.core.windows.net/wh/a", None),
    ("s3://wh@acme/a", None),
    ("file:data", None),
    ("data/a", None),
    ("", None),
]


@pytest.mark.parametrize(("uri", "identity"), URIS)
def test_a_uri_names_one_key_and_keeps_it_raw(uri: str, identity: tuple[str, str] | None) -> None:
    assert identify(uri) == identity


LOCATIONS = [
    ("s3://lake/orders/", Location("lake", "orders")),
    ("s3a://lake/orders", Location("lake", "orders")),
    ("s3://lake", Location("lake", "")),
    ("s3://lake//", Location("lake", "")),
    ("s3://lake/a//b/", Location("lake", "a//b")),
    ("s3://lake/a//b//", Location("lake", "a//b/")),
    ("/data/orders//", Location("", "data/orders")),
    ("wasbs://wh@acme.blob.core.windows.net/orders/", Location("wh@acme", "orders")),
]


@pytest.mark.parametrize(("uri", "location"), LOCATIONS)
def test_a_location_loses_its_last_slash_only(uri: str, location: Location) -> None:
    assert Location.parse(uri) == location


def test_a_location_that_ends_in_two_slashes_holds_what_lies_below_both() -> None:
    place = Location.parse("s3://lake/a//")
    assert (place.prefix, place.uri, place.join("b").key) == ("a//", "s3://lake/a/", "a//b")
    assert place.holds("lake", "a//b")
    assert not place.holds("lake", "a/b")


def test_an_invalid_location_is_refused() -> None:
    with pytest.raises(ValueError, match="not an s3:// or local location: 'hdfs://lake/a'"):
        Location.parse("hdfs://lake/a")


ORDERS = Location("lake", "wh/orders")
HOLDS = [
    ("wh/orders/a", True),
    ("wh/orders/", True),
    ("wh/orders//a", True),
    ("wh/orders/d=1/a", True),
    ("wh/orders", False),
    ("wh/orders_2/a", False),
    ("wh/orders%2Fa", False),
    ("wh/Orders/a", False),
    ("wh//orders/a", False),
    ("/wh/orders/a", False),
    ("wh", False),
]


@pytest.mark.parametrize(("key", "inside"), HOLDS)
def test_a_location_ends_at_a_path_boundary(key: str, inside: bool) -> None:
    assert ORDERS.holds("lake", key) is inside
    assert ORDERS.holds("other", key) is False


PLACES = {
    Location("lake", ""): "everything",
    Location("lake", "wh/orders"): "orders",
    Location("lake", "wh/orders/archive"): "archive",
    Location("lake", "wh/orders_2"): "orders_2",
    Location("lake", "a//b"): "double",
    Location("", "data/orders"): "local",
}
OWNERS = [
    ("lake", "wh/orders/a", "orders"),
    ("lake", "wh/orders/archive/a", "archive"),
    ("lake", "wh/orders/archive", "orders"),
    ("lake", "wh/orders/archived/a", "orders"),
    ("lake", "wh/orders_2/a", "orders_2"),
    ("lake", "wh/orders", "everything"),
    ("lake", "", "everything"),
    ("lake", "a//b/c", "double"),
    ("lake", "a/b/c", "everything"),
    ("", "data/orders/a", "local"),
    ("", "data/orders_2/a", None),
    ("lake2", "wh/orders/a", None),
]


@pytest.mark.parametrize(("bucket", "key", "owner"), OWNERS)
def test_the_longest_place_that_holds_a_key_owns_it(bucket: str, key: str, owner: str | None) -> None:
    assert owner_of(PLACES, bucket, key) == owner


KEYS = st.text(min_size=1)


@given(KEYS)
def test_a_key_is_found_again_under_its_uri(key: str) -> None:
    assert identify(uri_of("lake", key)) == ("lake", key)
    assert identify(uri_of("", key)) == ("", key)
    assert identify(uri_of("wh@acme", key)) == ("wh@acme", key)


@given(KEYS, KEYS)
def test_a_place_holds_exactly_the_keys_that_begin_with_its_prefix(place: str, key: str) -> None:
    location = Location.parse(f"s3://lake/{place}")
    assert location.holds("lake", key) == key.startswith(location.prefix)
    assert location.holds("lake", f"{location.prefix}{key}")
    assert not Location("lake", f"{place}x").holds("lake", f"{place}/x")


@given(KEYS)
def test_join_leads_below_a_place(part: str) -> None:
    assert Location("lake", "").join(part) == Location("lake", part)
    assert ORDERS.holds("lake", ORDERS.join(part).key)


@pytest.mark.parametrize(("key", "depth"), [("", 0), ("a", 1), ("a/b", 2), ("a//b", 3), ("/a", 2)])
def test_depth_counts_the_parts_of_a_place(key: str, depth: int) -> None:
    assert Location("lake", key).depth == depth


def test_a_location_is_shown_and_opened_by_its_scheme() -> None:
    remote, local = ORDERS, Location("", "data/orders")
    assert (remote.uri, remote.spark_path, remote.is_local) == (
        "s3://lake/wh/orders",
        "s3a://lake/wh/orders",
        False,
    )
    blob = Location("wh@acme", "orders")
    assert (blob.uri, blob.is_azure, blob.is_in_s3) == (blob.spark_path, True, False)
    assert blob.uri == "abfss://wh@acme.dfs.core.windows.net/orders"
    assert (local.uri, local.spark_path, local.is_local) == ("/data/orders", "/data/orders", True)


OLD, NEW = Location("old", "wh"), Location("lake", "warehouse")
MAPS = ((OLD.join("big"), Location("big", "")), (OLD, NEW))


@pytest.mark.parametrize(
    ("written", "true"),
    [
        (("old", "wh/a"), ("lake", "warehouse/a")),
        (("old", "wh/big/a"), ("big", "a")),
        (("old", "wh_2/a"), ("old", "wh_2/a")),
        (("dbfs:", "mnt/prod/wh/a"), ("lake", "warehouse/a")),
        (("dbfs:", "mnt/prod/wh/big/a"), ("big", "a")),
        (("dbfs:", "mnt/prod/logs/a"), ("old", "logs/a")),
        (("big-x-s3alias", "a"), ("big", "a")),
    ],
)
def test_what_was_moved_goes_by_its_new_name_whatever_it_was_called(
    written: tuple[str, str], true: tuple[str, str]
) -> None:
    aliases = (
        (Location("dbfs:", "mnt/prod"), Location("old", "")),
        (Location("big-x-s3alias", ""), Location("big", "")),
    )
    assert true_place(moved(aliases, MAPS), *written) == true


@pytest.mark.parametrize(
    ("place", "from_"),
    [
        (NEW.join("orders"), (OLD.join("orders"),)),
        (NEW, (OLD,)),
        (Location("lake", ""), (OLD,)),
        (Location("big", "x"), (OLD.join("big", "x"),)),
        (Location("elsewhere", ""), ()),
    ],
)
def test_where_a_place_was_moved_from(place: Location, from_: tuple[Location, ...]) -> None:
    assert origins(MAPS, place) == from_


def test_local_paths_are_places_of_the_host_only_inside_the_local_places_of_a_lake() -> None:
    names = outside_local([Location("b", "wh"), Location("", "data/wh")])
    assert true_place(names, "", "data/wh/t/a") == ("", "data/wh/t/a")
    assert true_place(names, "", "data/wh2") == ("file:", "data/wh2")
    assert true_place(names, "b", "data") == ("b", "data")
    mount = (Location("", "mnt/prod"), Location("prod", ""))
    assert true_place(moved(names, (mount,)), "", "mnt/prod/x") == ("prod", "x")


@pytest.mark.parametrize(
    ("bucket", "known"),
    [("b", True), ("", True), ("wh@acme", True), ("file:", False), ("dbfs:", False), ("hdfs://nn:8020", False),
     ("http://169.254.169.254", False)],
)  # fmt: skip
def test_buckets_of_stores_that_are_read(bucket: str, known: bool) -> None:
    assert in_known_store(bucket) is known
