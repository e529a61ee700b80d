"""The places that `--partition` selects, and the results of such a run about its tables."""

import pytest

from lakeaudit.collect.partitions import partitions_of, requested_reasons, scope_reasons, uris
from lakeaudit.config import Table
from lakeaudit.errors import BadInput
from lakeaudit.keys import Location

ORDERS = Table(name="orders", location=Location("lake", "orders"))
ITEMS = Table(name="items", location=Location("lake", "items"))


@pytest.mark.parametrize(
    ("partitions", "places"),
    [
        ([], {}),
        (["day=1"], {"orders": ("orders/day=1",), "items": ("items/day=1",)}),
        (["/day=1/hour=2/", "day=1/hour=2"], {"orders": ("orders/day=1/hour=2",), "items": ("items/day=1/hour=2",)}),
        (["day=1/hour=2", "day=1", "day=12"], {"orders": ("orders/day=1", "orders/day=12"),
                                               "items": ("items/day=1", "items/day=12")}),
        (["day=", "a=%3A"], {"orders": ("orders/day=", "orders/a=%3A"), "items": ("items/day=", "items/a=%3A")}),
    ],
)  # fmt: skip
def test_places_of_partitions(partitions: list[str], places: dict[str, tuple[str, ...]]) -> None:
    found = partitions_of([ORDERS, ITEMS], partitions)
    assert {table: tuple(place.key for place in of_table) for table, of_table in found.items()} == places


@pytest.mark.parametrize("text", ["", "/", "day", "=1", "day=1//hour=2", "day=1/../x", "s3://lake/orders"])
def test_texts_that_are_not_partitions(text: str) -> None:
    with pytest.raises(BadInput, match="is not a partition"):
        partitions_of([ORDERS], [text])


def test_a_partition_that_nobody_knows_is_not_fine() -> None:
    partitions = partitions_of([ORDERS, ITEMS], ["day=1", "day=2"])
    both = {f"s3://lake/orders/day={day}" for day in (1, 2)}
    said = scope_reasons(partitions, {*both, "s3://lake/items/day=1"})
    assert said == {
        "orders": "only s3://lake/orders/day=1, s3://lake/orders/day=2 was requested and checked",
        "items": "neither a manifest nor storage knows a file in s3://lake/items/day=2",
    }
    assert requested_reasons(said) == {said["orders"]}


def test_every_requested_place_has_its_uri() -> None:
    partitions = partitions_of([ORDERS, ITEMS], ["day=1"])
    assert uris(partitions) == {
        Location("lake", "orders/day=1"): "s3://lake/orders/day=1",
        Location("lake", "items/day=1"): "s3://lake/items/day=1",
    }
    assert uris({}) == {}
