"""Records without unneeded fields: the rest equals that of a full decoding, or the block is torn."""

import io
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.evidence.avro.blocks import Torn, container
from lakeaudit.evidence.avro.projection import projection_of
from lakeaudit.evidence.avro.records import open_avro

LONGS, INTS = st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 31), (1 << 31) - 1)
TEXTS, BYTES = st.text(max_size=200), st.binary(max_size=200)


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": kind} for n, kind in fields]}


def by_number(name: str, value: Any) -> dict[str, Any]:
    """How Iceberg writes a map whose keys are numbers."""
    return {"type": "array", "logicalType": "map", "items": record(name, ("key", "int"), ("value", value))}


def pairs(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.fixed_dictionaries({"key": INTS, "value": values}), max_size=80)


KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "numbers of columns": (by_number("k1", "long"), pairs(LONGS)),
    "bounds of columns": (by_number("k2", "bytes"), pairs(BYTES)),
    "maybe": (["null", by_number("k3", "long")], st.none() | pairs(LONGS)),
    "one of three": (["null", "string", "long"], st.none() | TEXTS | LONGS),
    "turned round": (["string", "null"], st.none() | TEXTS),
    "a map": (
        {"type": "map", "values": ["null", "double"]}, st.dictionaries(TEXTS, st.none() | st.floats(allow_nan=False))
    ),
    "a list of texts": ({"type": "array", "items": "string"}, st.lists(TEXTS)),
    "lists of lists": (
        {"type": "array", "items": {"type": "array", "items": "long"}}, st.lists(st.lists(LONGS, max_size=70))
    ),
    "plain": (record("p", ("b", "boolean"), ("f", "float")), st.just({"b": True, "f": 0.5})),
    "fixed": ({"type": "fixed", "name": "x", "size": 5}, st.binary(min_size=5, max_size=5)),
    "a word": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    "text": ("string", TEXTS),
    "a date": ({"type": "int", "logicalType": "date"}, st.dates()),
}  # fmt: skip


def schema_of(kind: Any) -> dict[str, Any]:
    """Unasked fields before, between and behind others, in the record and in one within."""
    inner = record(
        "r2", ("excluded", kind), ("size", "long"), ("partition", record("r102", ("day", ["null", "string"])))
    )
    return record("r", ("status", "int"), ("data_file", inner), ("more", ["null", "long"]))


def packed(schema: Any, rows: Sequence[Any]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, sync_interval=300)
    return out.getvalue()


def rows_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    partition = st.fixed_dictionaries({"day": st.none() | TEXTS})
    file = st.fixed_dictionaries({"excluded": values, "size": LONGS, "partition": partition})
    return st.lists(
        st.fixed_dictionaries({"status": INTS, "data_file": file, "more": st.none() | LONGS}), max_size=8
    )


def without(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "data_file": {name: value for name, value in row["data_file"].items() if name != "excluded"},
    }


@pytest.mark.parametrize("kind", list(KINDS))
@settings(max_examples=12)
@given(data=st.data())
def test_all_else_is_as_it_was(kind: str, data: st.DataObject) -> None:
    schema, values = KINDS[kind]
    content = packed(schema_of(schema), data.draw(rows_of(values)))
    assert list(open_avro(content, {"excluded"}).records) == [
        without(row) for row in open_avro(content).records
    ]


@given(
    block=st.binary(max_size=300),
    count=st.integers(0, 40),
    kind=st.sampled_from([kind for kind, _ in KINDS.values()]),
)
def test_bytes_that_mean_nothing_are_torn(block: bytes, count: int, kind: Any) -> None:
    """No other error, and no more records than there can be."""
    content = container(json.dumps(schema_of(kind)).encode(), [block, *[b""] * (count - 1)])
    with suppress(Torn):
        assert len(list(open_avro(content, {"excluded"}).records)) <= count


def test_what_stands_before_a_tear_is_given() -> None:
    schema = schema_of(by_number("k", "long"))
    row = {"status": 1, "data_file": {"excluded": [], "size": 5, "partition": {"day": None}}, "more": None}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    records = open_avro(
        container(json.dumps(schema).encode(), [out.getvalue()] * 2 + [b"\x02\x01"]), {"excluded"}
    ).records
    assert [next(records), next(records)] == [without(row)] * 2
    with pytest.raises(Torn, match="after 2 entries"):
        next(records)


NOTHING_TO_DO = {
    "none of them is there": record("r", ("n", "long")),
    "a type named elsewhere": record(
        "r", ("excluded", {"type": "fixed", "name": "x", "size": 5}), ("y", "x")
    ),
    "nothing would be left": record("r", ("excluded", "long")),
    "no record": {"type": "map", "values": "long"},
    "text": "string",
}


@pytest.mark.parametrize("schema", NOTHING_TO_DO.values(), ids=list(NOTHING_TO_DO))
def test_such_a_schema_stays_as_it_is(schema: Any) -> None:
    assert projection_of(schema, {"excluded"}) is None
