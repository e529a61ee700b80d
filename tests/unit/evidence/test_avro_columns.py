"""Columns of Avro files: they equal the records that fastavro decodes, and damaged or hostile files are torn."""

import io
import json
import time
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.evidence.avro.blocks import Torn, header_of, plain_blocks
from lakeaudit.evidence.avro.columns import Piece, column, decode, pieces
from lakeaudit.evidence.avro.layout import MOST_TYPES, layout_of
from lakeaudit.evidence.avro.values import logical_value
from tests.builders.slowness import slowness

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
    "no partition": (record("p"), st.just({})),
    "no value": ("null", st.none()),
    "fixed": ({"type": "fixed", "name": "x", "size": 5}, st.binary(min_size=5, max_size=5)),
    "a word": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    "text": ("string", TEXTS),
    "a date": ({"type": "int", "logicalType": "date"}, st.dates()),
    "a type by its name": (record("o", ("a", {"type": "fixed", "name": "x", "size": 2}), ("b", "x")),
                           st.just({"a": b"12", "b": b"34"})),
}  # fmt: skip


def schema_of(kind: Any) -> dict[str, Any]:
    """Return a schema with a field of this type between others, in a record within the record."""
    inner = record("r2", ("odd", kind), ("size", "long"), ("day", ["null", "string"]))
    return record("r", ("status", "int"), ("data_file", inner), ("more", ["null", "long"]))


def packed(schema: Any, rows: Sequence[Any], codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec=codec, sync_interval=300)
    return out.getvalue()


def rows_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    file = st.fixed_dictionaries({"odd": values, "size": LONGS, "day": st.none() | TEXTS})
    row = st.fixed_dictionaries({"status": INTS, "data_file": file, "more": st.none() | LONGS})
    return st.lists(row, max_size=8)


def pieces_of(content: bytes, size: int = 1 << 20) -> list[Piece]:
    return list(pieces(plain_blocks(content, header_of(content)), size))


def decoded(content: bytes, *fields: tuple[str, ...]) -> list[list[Any]]:
    """Return the values of these fields in all records; Torn if they cannot be decoded."""
    layout = layout_of(header_of(content).values["avro.schema"])
    found: list[list[Any]] = [[] for _ in fields]
    for records in decode(layout, pieces_of(content)):
        if isinstance(records, Torn):
            raise records
        for values, field in zip(found, fields, strict=True):
            values.extend(column(layout, records, *field)[0].to_pylist())
    return found


@pytest.mark.parametrize("kind", list(KINDS))
@settings(max_examples=12)
@given(data=st.data())
def test_columns_equal_the_records(kind: str, data: st.DataObject) -> None:
    schema, values = KINDS[kind]
    rows = data.draw(rows_of(values))
    found = decoded(
        packed(schema_of(schema), rows),
        ("status",),
        ("data_file", "size"),
        ("data_file", "day"),
        ("more",),
        ("x",),
    )
    files = [row["data_file"] for row in rows]
    expected = [[row["status"] for row in rows], [f["size"] for f in files], [f["day"] for f in files]]
    assert found == [*expected, [row["more"] for row in rows], [None] * len(rows)]


@given(
    block=st.binary(max_size=300),
    count=st.integers(0, 40),
    kind=st.sampled_from([kind for kind, _ in KINDS.values()]),
)
def test_bytes_without_meaning_are_torn_or_have_as_many_records_as_they_count(
    block: bytes, count: int, kind: Any
) -> None:
    layout = layout_of(json.dumps(schema_of(kind)).encode())
    (records,) = decode(layout, [Piece(count, (block,), len(block))])
    assert isinstance(records, Torn) or len(records) == count


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_files_are_decoded_together_and_a_damaged_one_alone_is_torn(codec: str) -> None:
    rows = [{"status": n, "data_file": {"odd": "x", "size": n, "day": None}, "more": None} for n in range(50)]
    content = packed(schema_of("string"), rows, codec)
    whole = pieces_of(content)[0]
    layout = layout_of(header_of(content).values["avro.schema"])
    damaged = [
        Piece(whole.count - 1, whole.blocks, whole.size),
        Piece(whole.count + 1, whole.blocks, whole.size),
        Piece(whole.count, (b"\x01" * whole.size,), whole.size),
    ]
    found = decode(layout, [whole, *damaged, whole])
    assert [isinstance(each, Torn) for each in found] == [False, True, True, True, False]
    assert found[0] == found[4]
    assert len(found[0]) == 50  # type: ignore[arg-type]


def test_pieces_have_whole_blocks_and_those_before_a_tear() -> None:
    content = packed(record("r", ("n", "long")), [{"n": n} for n in range(1000)])
    assert len(pieces_of(content, 300)) > 2
    assert sum(piece.count for piece in pieces_of(content, 300)) == 1000
    found: list[Piece] = []
    torn = content[:-20]
    with pytest.raises(Torn, match="incomplete or damaged after"):
        found.extend(pieces(plain_blocks(torn, header_of(torn)), 1 << 20))
    assert decode(layout_of(header_of(torn).values["avro.schema"]), found)[0] is not None


def nested(depth: int) -> Any:
    return record(f"n{depth}", ("a", nested(depth - 1)), ("b", "long")) if depth else "long"


def doubled(depth: int) -> list[tuple[str, Any]]:
    """Return fields whose types each have the type before them twice: 2^depth values."""
    fields: list[tuple[str, Any]] = [("t0", record("t0", ("a", "long")))]
    for number in range(1, depth):
        before = f"t{number - 1}"
        fields.append((f"t{number}", record(f"t{number}", ("a", before), ("b", before))))
    return fields


EMPTY = record("empty")
REFUSED: dict[str, tuple[Any, str]] = {
    "no record": ("string", "not records"),
    "an array": ({"type": "array", "items": "long"}, "not records"),
    "no number": (record("r", ("s", "string")), "no number"),
    "a field more than types": (record("r", *((f"f{n}", "long") for n in range(MOST_TYPES))), "schema"),
    "types that double": (record("r", *doubled(40)), "schema"),
    "itself": (record("r", ("n", "long"), ("next", ["null", "r"])), "schema"),
    "an array of nothing": (record("r", ("n", "long"), ("a", {"type": "array", "items": "null"})), "schema"),
    "an array of empty records by their name": (
        record("r", ("n", "long"), ("e", EMPTY), ("a", {"type": "array", "items": "empty"})), "schema"
    ),
    "an array of fixed of no bytes": (
        record("r", ("n", "long"), ("a", {"type": "array", "items": {"type": "fixed", "name": "z", "size": 0}})),
        "schema",
    ),
    "an endless fixed": (record("r", ("n", "long"), ("a", {"type": "fixed", "name": "z", "size": 1 << 40})), "schema"),
    "an unknown type": (record("r", ("n", "long"), ("a", "nothing")), "schema"),
    "a type without fields": ({"type": "record", "name": "r"}, "schema"),
    "deep": (nested(200), "schema"),
}  # fmt: skip


def test_a_million_fields_are_refused_at_once() -> None:
    assert_refused(record("r", *((f"f{n}", "long") for n in range(1_000_000))), "schema")


@pytest.mark.parametrize("case", REFUSED)
def test_such_a_schema_is_refused_at_once(case: str) -> None:
    assert_refused(*REFUSED[case])


def assert_refused(schema: Any, why: str) -> None:
    began = time.process_time()
    with pytest.raises(Torn, match=why):
        layout_of(json.dumps(schema).encode())
    took = time.process_time() - began
    assert took < 10 * slowness()


def test_text_of_invalid_utf_8_is_torn() -> None:
    layout = layout_of(json.dumps(record("r", ("n", "long"), ("s", "string"))).encode())
    assert isinstance(decode(layout, [Piece(1, (b"\x02\x02\xff",), 3)])[0], Torn)
    assert isinstance(decode(layout, [Piece(1, (b"\x02\x02a",), 3)])[0], pa.StructArray)


NAMES = ("a-b", "1x", "день", "a b", "", "f0", "select", "a.b")


@pytest.mark.parametrize("name", NAMES)
def test_a_field_may_have_any_name(name: str) -> None:
    """Only Avro's own libraries require letters, digits and underscores."""
    content = packed(record("r", ("n", "long"), ("good", "string")), [{"n": 1, "good": "x"}])
    schema = json.dumps(record("r", ("n", "long"), (name, "string"))).encode()
    layout = layout_of(schema)
    (records,) = decode(layout, pieces_of(content))
    assert not isinstance(records, Torn)
    assert column(layout, records, name)[0].to_pylist() == ["x"]


LOGICAL: dict[str, tuple[Any, Sequence[Any]]] = {
    "date": ("int", [0, 20_000, -1, -719_162]),
    "time-millis": ("int", [0, 86_399_999]),
    "time-micros": ("long", [0, 86_399_999_999, 1]),
    "timestamp-millis": ("long", [0, 1_700_000_000_123, -1]),
    "timestamp-micros": ("long", [0, 1_700_000_000_123_456, -1]),
    "local-timestamp-millis": ("long", [0, 1_700_000_000_123]),
    "local-timestamp-micros": ("long", [0, 1_700_000_000_123_456]),
    "timestamp-nanos": ("long", [0, 1_700_000_000_123_456_789]),
    "uuid": ("string", ["5FBA94ED-9794-4965-BA6E-6EE3C0D22AF9"]),
}


@pytest.mark.parametrize("name", LOGICAL)
def test_a_logical_value_is_that_of_fastavro(name: str) -> None:
    kind, plain = LOGICAL[name]
    declared = {"type": kind, "logicalType": name}
    for value in plain:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, kind, value)
        expected: Any = fastavro.schemaless_reader(io.BytesIO(out.getvalue()), declared, None)
        found = logical_value(value, kind, declared)
        assert (found, str(found)) == (expected, str(expected))


@pytest.mark.parametrize("scale", [0, 2, 9])
@pytest.mark.parametrize(
    "value", [bytes(8), b"\0\0\0\0\0\0\x04\xd2", b"\xff\xff\xff\xff\xff\xff\xfb\x2e", b"\x01" * 8]
)
@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_a_decimal_is_that_of_fastavro(kind: str, value: bytes, scale: int) -> None:
    attributes = {"logicalType": "decimal", "precision": 18, "scale": scale}
    declared = {"type": kind, "name": "d", "size": len(value), **attributes}
    packed_value = value if kind == "fixed" else bytes([len(value) * 2]) + value
    expected: Any = fastavro.schemaless_reader(io.BytesIO(packed_value), declared, None)
    assert str(logical_value(value, kind, declared)) == str(expected)


@pytest.mark.parametrize(
    ("value", "kind", "name"),
    [
        (1 << 30, "int", "date"),
        (1 << 62, "long", "timestamp-micros"),
        (-5, "int", "time-millis"),
        ("x", "string", "uuid"),
    ],
)
def test_a_value_outside_the_calendar_stays_plain(value: object, kind: str, name: str) -> None:
    assert logical_value(value, kind, {"logicalType": name}) == value
