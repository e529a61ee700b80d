"""The owner of a key in DuckDB: the twin of `keys.owner_of`, with few places and with many."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.findings import finding_rows
from lakeaudit.keys import Location, owner_of, uri_of
from lakeaudit.matching.prefix_match import FEW, attach_label, holds, label_of
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from tests.builders.connections import connection

PARTS = st.sampled_from(["orders", "orders_2", "orders%2F", "", "d=1", "a b", "\U0001d4b3", "Ä", ".", "..",
                         "_temporary", "%", "+", "a\nb", "\u2028", "'", "[*]"])  # fmt: skip
ODD = st.sampled_from(["\x00", "a\x00b"])
"""In keys alone: no lake file can hold a NUL."""
BUCKETS = st.sampled_from(["lake", "wh@lake", ""])
PLACE = st.builds(
    Location, BUCKETS, st.lists(PARTS, max_size=4).map(lambda parts: "/".join(parts).rstrip("/"))
)
KEYS = st.tuples(BUCKETS, st.lists(PARTS | ODD, max_size=5).map("/".join))
ENDS = ("", "/", "/x", "_2/x", "//", "\U0001d4b3", "/\x00")
SCHEMA = pa.schema([("bucket", pa.string()), ("key", pa.string())])


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    opened = connection()
    yield opened
    opened.close()


def owners(
    con: Connection, places: dict[Location, str], objects: list[tuple[str, str]]
) -> dict[tuple[str, str], str | None]:
    rows = duck.rows_of(attach_label(con, duck.small(SCHEMA, objects), places, "owner"))
    assert len(rows) == len(objects)
    return {(row["bucket"], row["key"]): row["owner"] for row in rows}


def agree(con: Connection, places: list[Location], objects: list[tuple[str, str]]) -> None:
    labels = {place: f"table {number}'s" for number, place in enumerate(places)}
    near = [(place.bucket, f"{place.key}{end}") for place in places for end in ENDS]
    every = sorted({*objects, *near})
    assert owners(con, labels, every) == {at: owner_of(labels, *at) for at in every}


@given(places=st.lists(PLACE, max_size=FEW, unique=True), objects=st.lists(KEYS, min_size=20, max_size=60))
@settings(max_examples=25)
def test_both_agree_on_every_owner_among_few_places(
    con: Connection, places: list[Location], objects: list[tuple[str, str]]
) -> None:
    agree(con, places, objects)


@given(
    places=st.lists(PLACE, min_size=FEW + 1, max_size=4 * FEW, unique=True),
    objects=st.lists(KEYS, min_size=20, max_size=60),
)
@settings(max_examples=25)
def test_both_agree_on_every_owner_among_many_places(
    con: Connection, places: list[Location], objects: list[tuple[str, str]]
) -> None:
    agree(con, places, objects)


def test_without_any_place_nobody_owns_anything(con: Connection) -> None:
    assert owners(con, {}, [("lake", "a")]) == {("lake", "a"): None}


@pytest.mark.parametrize("more", [0, 2 * FEW], ids=["few", "many"])
def test_the_label_is_beside_every_column_that_was_there(con: Connection, more: int) -> None:
    places = {Location("lake", "orders"): "orders"} | {
        Location("other", f"t{number}"): f"t{number}" for number in range(more)
    }
    rows = pa.table(
        {"label": [1], "bucket": ["lake"], "key": ["orders/a"], "place": [2], "place_bucket": [3]}
    )
    labelled = duck.table(attach_label(con, rows, places, "owner"))
    assert labelled.column_names == [*rows.column_names, "owner"]
    assert labelled.to_pylist() == [*rows.append_column("owner", pa.array(["orders"])).to_pylist()]


def test_two_thousand_places_cost_one_hash_join_for_each_depth(con: Connection) -> None:
    places = {Location("lake", f"wh/t{number}"): f"t{number}" for number in range(1990)}
    places |= {Location("lake", f"wh/deep/er/t{number}"): f"d{number}" for number in range(10)}
    keys = duck.query(con, "SELECT 'lake' AS bucket, 'wh/t' || i || '/x' AS key FROM range(10) r(i)")
    labelled = attach_label(con, keys, places, "owner")
    plan = labelled.explain()
    assert plan.count("Hash Join") == len({place.depth for place in places}) == 2
    assert plan.count("Join ─") == plan.count("Hash Join ─")
    assert "t1989" not in plan
    assert {row["owner"] for row in duck.rows_of(labelled)} == {f"t{number}" for number in range(10)}


def test_a_place_as_a_condition(con: Connection) -> None:
    rows = duck.small(SCHEMA, [("lake", "orders/a"), ("lake", "orders_2/a"), ("other", "orders/a")])
    place, whole = Location("lake", "orders"), Location("lake", "")
    found = duck.query(
        con, f"SELECT {holds(place)} AS inside, {holds(whole)} AS there FROM rows_", rows_=rows
    )
    assert [tuple(row.values()) for row in duck.rows_of(found)] == [
        (True, True),
        (False, True),
        (False, False),
    ]
    assert label_of({}) == "CAST(NULL AS VARCHAR)"


@given(objects=st.lists(KEYS, min_size=1, max_size=20))
@settings(max_examples=10)
def test_a_key_is_shown_in_findings_as_everywhere_else(
    con: Connection, objects: list[tuple[str, str]]
) -> None:
    shown = duck.query(
        con,
        f"SELECT *, {finding_rows.uri('bucket', 'key')} AS uri FROM rows",
        rows=duck.small(SCHEMA, objects),
    )
    assert [row["uri"] for row in duck.rows_of(shown)] == [uri_of(*each) for each in objects]
