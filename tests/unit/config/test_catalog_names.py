"""Names of catalogs' tables, and places: what is joined is taken apart again, whatever stands in it."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakeaudit.evidence.catalog.names import name_of, parts_of
from lakeaudit.evidence.catalog.protocol import CatalogTable, folder_of
from lakeaudit.keys import Location


@given(st.lists(st.text("a.`\n/é", max_size=5), min_size=1, max_size=4))
@example(["a", ""])
@example(["`", "."])
@settings(max_examples=60, deadline=None)
def test_names_are_taken_apart_as_they_were_joined(parts: list[str]) -> None:
    assert parts_of(name_of(parts)) == parts


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (["shop", "orders"], "shop.orders"),
        (["shop", "eu", "orders"], "shop.eu.orders"),
        (["a.b", "orders"], "`a.b`.orders"),
        (["shop", "or`ders"], "shop.`or``ders`"),
    ],
)
def test_names_are_the_catalogs_own_words(parts: list[str], name: str) -> None:
    assert name_of(parts) == name


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("s3://lake/wh/orders", ("lake", "wh/orders/")),
        ("s3a://lake/wh/orders//", ("lake", "wh/orders/")),
        ("s3://alias/wh/orders/", ("lake", "wh/orders/")),
        ("s3://lake", ("lake", "")),
        ("file:/data/orders", ("", "data/orders/")),
        ("s3://lake/a%20b", ("lake", "a%20b/")),
        ("hdfs://nn/wh/orders", ("", "")),
        ("", ("", "")),
    ],
)
def test_places_go_by_their_own_names(uri: str, place: tuple[str, str]) -> None:
    assert folder_of(uri, ((Location("alias", ""), Location("lake", "")),)) == place


def test_a_table_has_a_location_only_where_the_catalog_names_one() -> None:
    assert CatalogTable("metastore:0", "a.b", "lake", "wh/b/", "delta").location == Location("lake", "wh/b")
    assert CatalogTable("metastore:0", "a.b", "lake", "", "delta").location == Location("lake", "")
    assert CatalogTable("metastore:0", "a.b", "", "", "delta").location is None
