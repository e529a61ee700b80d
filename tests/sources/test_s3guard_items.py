"""Rows of single items: any mixture of attributes compared with plain Python rules, from JSON and from the SDK."""

import gzip
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.metastore.dynamodb.export_files import export_items
from lakeaudit.evidence.metastore.dynamodb.pages import item_batch
from lakeaudit.evidence.metastore.dynamodb.tally import Tally
from lakeaudit.evidence.metastore.dynamodb.values import LARGEST, LAST_MILLISECOND
from lakeaudit.evidence.metastore.s3guard.items import (
    ITEM,
    EntryRules,
    counted_entries,
    entry_rows,
)
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, task_connection
from lakeaudit.schemas import ENTRY
from tests.builders import s3guard as built
from tests.builders.s3guard import Item
from tests.sources.metastore_contract import OLD

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with task_connection() as opened:
        yield opened


def number(text: str | None, largest: int) -> int | None:
    if text is None or not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text):
        return None
    with localcontext(prec=400):
        value = Decimal(text)
        if abs(value) > LARGEST:
            return None
        value = value.quantize(Decimal("0.000001"), ROUND_HALF_UP)
    return int(value) if value == int(value) and 0 <= value <= largest else None


def time(item: Item, name: str) -> datetime | None:
    millis = number(item.get(name, {}).get("N"), LAST_MILLISECOND)
    return EPOCH + timedelta(milliseconds=millis) if millis else None


def reason(item: Item) -> str | None:
    """The rules of rejection, one after the other."""
    parent, child = (item.get(name, {}).get("S") for name in ("parent", "child"))
    faults = []
    if parent is None or not re.fullmatch(r"(/[^/]+)+", parent):
        faults.append("parent is not a path below a bucket")
    if child is None or not re.fullmatch(r"[^/]+", child):
        faults.append("child is not a name")
    faults += [f"{n} is not text" for n in ("etag", "version_id") if n in item and "S" not in item[n]]
    flags = ("is_dir", "is_deleted", "is_authoritative")
    faults += [f"{n} is neither true nor false" for n in flags if n in item and "BOOL" not in item[n]]
    for name, largest, words in (
        ("file_length", LARGEST, "is not a number of bytes"),
        ("mod_time", LAST_MILLISECOND, "is not a time"),
        ("last_updated", LAST_MILLISECOND, "is not a time"),
    ):
        if name in item and number(item[name].get("N"), largest) is None:
            faults.append(f"{name} {words}")
    if not faults:
        return None
    return f"{faults[0]} in the item of {'?' if parent is None else parent}/{'?' if child is None else child}"


def entry(item: Item, rules: EntryRules) -> Row:
    """A sound item's row."""
    _, bucket, *folders = item["parent"]["S"].split("/")
    key = "/".join([*folders, item["child"]["S"]])
    places = rules.honoured if isinstance(rules.honoured, tuple) else ()
    honoured = rules.honoured is True or any(place.holds(bucket, f"{key}/") for place in places)
    updated = time(item, "last_updated")
    late = rules.expired_until is not None and updated is not None and updated <= rules.expired_until
    version = item.get("version_id", {}).get("S")
    return {
        "source": rules.source,
        "bucket": bucket,
        "key": key,
        "parent": "/".join(folders),
        "is_dir": item.get("is_dir", {}).get("BOOL", False),
        "tombstone": item.get("is_deleted", {}).get("BOOL", False),
        "expired": late and not honoured,
        "honoured": honoured,
        "authoritative": item.get("is_authoritative", {}).get("BOOL", False),
        "bare": None,
        "opaque": None,
        "size": number(item.get("file_length", {}).get("N"), LARGEST),
        "etag": item.get("etag", {}).get("S", "").strip('"') or None,
        "version_id": version if version not in ("", "null") else None,
        "mod_time": time(item, "mod_time"),
        "last_updated": updated,
        "last_updated_given": "last_updated" in item,
        "reject": None,
    }


def expected(item: Item, rules: EntryRules) -> list[Row | str]:
    """The row of an item, or why it is rejected; nothing for the marker and for items of other places."""
    parent, child = (item.get(name, {}).get("S") for name in ("parent", "child"))
    if (parent, child) == ("../VERSION", "../VERSION"):
        return []
    fault = reason(item)
    sound = not (fault or "").startswith(("parent", "child"))
    if sound and rules.location is not None:
        _, bucket, *folders = str(parent).split("/")
        if not rules.location.holds(bucket, "/".join([*folders, str(child)])):
            return []
    return [entry(item, rules) if fault is None else fault]


def read_as(con: Connection, items: pa.Table | Any, rules: EntryRules) -> tuple[list[Row | str], Tally]:
    tally = Tally()
    batches = duck.table(entry_rows(con, items, rules)).to_batches()
    table = pa.Table.from_batches([counted_entries(batch, tally) for batch in batches], ENTRY)
    return [row["reject"] or row for row in table.to_pylist()], tally


def in_order(rows: list[Row | str]) -> list[str]:
    return sorted(map(repr, rows))


NAME = st.sampled_from(["a", "b", "é 🎉", "x=%2F", "wh", "null", "..", '"', "a\nb", "a\0b", r"\Z(", "'"])
WORD = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
PATH = st.one_of(
    st.lists(NAME, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    st.sampled_from(["/", "", "b/x", "/b/", "/b//x", "//", "../VERSION"]),
    WORD,
)
DIGITS = st.from_regex(r"-?[0-9]{1,22}(\.[0-9]{1,9})?", fullmatch=True)
NUMBER = st.one_of(
    st.integers(0, 10**14).map(str),
    st.integers(0, 10**12).map(lambda n: f"{n}.0"),
    st.integers(-2, LARGEST + 2).map(str),
    DIGITS,
    st.builds("{}E{}".format, st.integers(-99, 99), st.integers(0, 40)),
    st.from_regex(r"[0-9]{38}", fullmatch=True),
    st.sampled_from(
        ["", "0", "007", "+5", "1_000", "0x1F", "0b1", "NaN", "Infinity", "-0", "1600000000000.0", "1E3"]
    ),
    st.sampled_from(
        ["0.5", "1.000001", ".5", "5.", "12d", str(LARGEST), str(LARGEST + 1), str(LAST_MILLISECOND + 1)]
    ),
)
OTHER = st.sampled_from([{"NULL": True}, {"L": []}, {"M": {"S": {"S": "x"}}}, {}])
TEXT = st.fixed_dictionaries({"S": st.one_of(NAME, WORD, st.sampled_from(["", '"e"', '""', "null", '"']))})
COUNT = st.fixed_dictionaries({"N": NUMBER})
FLAG = st.fixed_dictionaries({"BOOL": st.booleans()})


def mostly(values: st.SearchStrategy[Item]) -> st.SearchStrategy[Item]:
    """A value of the type that fits, rarely another."""
    return st.integers(0, 11).flatmap(lambda n: values if n else st.one_of(TEXT, COUNT, FLAG, OTHER))


ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "parent": mostly(st.fixed_dictionaries({"S": PATH})),
        "child": mostly(TEXT),
        "etag": mostly(TEXT),
        "version_id": mostly(TEXT),
        "is_dir": mostly(FLAG),
        "is_deleted": mostly(FLAG),
        "is_authoritative": mostly(FLAG),
        "file_length": mostly(COUNT),
        "mod_time": mostly(COUNT),
        "last_updated": mostly(COUNT),
        "table_version": mostly(COUNT),
        "block_size": COUNT,
    },
).map(lambda item: {**built.place("b", "a/x"), **item})
PLACE = st.builds(lambda b, parts: Location(b, "/".join(parts)), NAME, st.lists(NAME, max_size=3))
RULES = st.builds(
    EntryRules,
    st.just("metastore:0"),
    st.none() | PLACE,
    st.booleans() | st.lists(PLACE, max_size=3).map(tuple),
    st.none() | st.datetimes(EPOCH, EPOCH + timedelta(days=50_000)),
)


@given(st.lists(ITEMS, max_size=40), RULES)
def test_items_are_what_the_rules_say(
    con: Connection, tmp_path: Path, items: list[Item], rules: EntryRules
) -> None:
    path = tmp_path / "data"
    path.write_bytes(gzip.compress("".join(json.dumps({"Item": item}) + "\n" for item in items).encode(), 1))
    wanted = in_order([row for item in items for row in expected(item, rules)])
    by_export, exported = read_as(con, export_items(con, path, ITEM, zipped=True), rules)
    by_scan, scanned = read_as(con, item_batch(items, ITEM), rules)
    assert in_order(by_export) == wanted
    assert in_order(by_scan) == wanted
    assert exported == scanned
    assert exported.items == len(items)


RULE = EntryRules("m", None, False, None)


def sizes(con: Connection, *numbers: str) -> list[int | None]:
    items = [{**built.place("b", f"{n:02d}"), "file_length": {"N": text}} for n, text in enumerate(numbers)]
    rows = duck.rows_of(entry_rows(con, item_batch(items, ITEM), RULE))
    return [row["size"] for row in sorted(rows, key=lambda row: row["key"])]


def test_numbers_are_whole_however_they_are_written(con: Connection) -> None:
    assert sizes(con, "0", "12", "1600000000000.0", "1E3", "1.5e1", "007", "+5", str(LARGEST)) == [
        *(0, 12, 1_600_000_000_000, 1000, 15, 7, 5, LARGEST)
    ]
    assert sizes(con, "12.5", "-1", "1_000", "0x1F", "", "many", "1" * 38, str(LARGEST + 1)) == [None] * 8


@pytest.mark.parametrize("many", [1, 3000])
def test_prefixes_however_many_end_at_path_boundaries(con: Connection, many: int) -> None:
    places = (Location("b", "wh/auth"), *(Location("b", f"other/{n}") for n in range(many - 1)))
    keys = ["wh/auth", "wh/auth/x/y", "wh/auth-2", "wh", "x/wh/auth"]
    items = item_batch([built.file("b", key, mod_time=OLD) for key in keys], ITEM)
    rows = duck.rows_of(entry_rows(con, items, EntryRules("m", None, places, None)))
    assert {row["key"] for row in rows if row["honoured"]} == {"wh/auth", "wh/auth/x/y"}


def test_one_invalid_line_spoils_no_other(con: Connection, tmp_path: Path) -> None:
    """Whatever the line is, those before and after it in the same block are read."""
    odd = [b"7", b"[1]", b'"x"', b"[{}]", b"{oops", b"\xff", b"null", b"{}", b'{"Item":7}', b'{"Item":[]}']
    odd += [
        b'{"Item":null}',
        b'{"item":{}}',
        b'{"Item":{}} {"Item":{}}',
        b'{"Item":{"parent":"/b"}}',
        b"[" * 9000,
    ]
    good = json.dumps({"Item": built.file("b", "x", mod_time=OLD)}).encode()
    path = tmp_path / "data"
    path.write_bytes(b"\n\n".join([good, *(line for each in odd for line in (each, good))]) + b"\n")
    rows, tally = read_as(con, export_items(con, path, ITEM, zipped=False), RULE)
    assert [row["key"] for row in rows if isinstance(row, dict)] == ["x"] * (len(odd) + 1)
    assert tally.items == 2 * len(odd) + 1


def test_what_items_show_of_the_layout(con: Connection) -> None:
    sound = built.file("b", "x", mod_time=OLD)
    for items, tally in (
        ([built.marker(), sound, {}], Tally(3, 1, "100")),
        ([built.marker(99)], Tally(1, 0, "99")),
        ([built.without(built.marker(), "table_version")], Tally(1, 0, "none")),
        ([sound, built.without(sound, "child")], Tally(2, 1, None)),
    ):
        assert read_as(con, item_batch(items, ITEM), RULE)[1] == tally
