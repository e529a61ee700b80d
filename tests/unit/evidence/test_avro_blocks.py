"""Avro files that claim to be more than they are, and those of every codec: none of them is believed."""

import io
import zlib
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakeaudit.evidence.avro import blocks
from lakeaudit.evidence.avro.blocks import Torn
from lakeaudit.evidence.avro.records import open_avro

RECORD = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}],
}
ROWS = [{"n": n, "s": "é" * (n % 7)} for n in range(500)]


def packed(schema: Any = RECORD, rows: Any = ROWS, codec: str = "null", **more: Any) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec=codec, metadata={"why": "test"}, **more)
    return out.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate"])
@pytest.mark.parametrize("interval", [10, 16_000])
def test_records_come_back_as_they_were_written(codec: str, interval: int) -> None:
    file = open_avro(packed(codec=codec, sync_interval=interval))
    assert (list(file.records), file.header["why"]) == (ROWS, "test")


def in_blocks(codec: bytes, block: bytes, count: int = 1, schema: bytes = b'"string"') -> bytes:
    """A file of one block, packed by hand."""
    header = {"avro.schema": schema, "avro.codec": codec}
    values = blocks._packed_values(header)
    sync = b"0123456789abcdef"
    number = blocks.varint
    return blocks.MAGIC + values + sync + number(count) + number(len(block)) + block + sync


def deflated(plain: bytes) -> bytes:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packing.compress(plain) + packing.flush()


EMPTY = '{"type": "record", "name": "e", "fields": []}'
HOSTILE: Mapping[str, tuple[bytes, str]] = {
    "a bomb": (in_blocks(b"deflate", deflated(bytes(blocks.LARGEST_BLOCK + 1))), "incomplete or damaged after 0"),
    "more entries than bytes": (in_blocks(b"null", b"\x00", 1 << 40, EMPTY.encode()), "1099511627776 in 1 bytes"),
    "a list of nothings": (
        in_blocks(b"null", b"\x00", 1, b'{"type": "array", "items": "null"}'), "header cannot be understood"
    ),
    "a list of empty records": (
        in_blocks(b"null", b"\x00", 1, f'{{"type": "array", "items": {EMPTY}}}'.encode()), "header cannot be understood"
    ),
    "a codec of nobody": (in_blocks(b"rot13", b"x"), "its codec b'rot13' is not known"),
    "no block after all": (in_blocks(b"deflate", b"\xff\xff"), "incomplete or damaged after 0"),
    "snappy without an end": (in_blocks(b"snappy", b"\xff\xff\xff\xff\x0f1234"), "incomplete or damaged after 0"),
    "snappy of another checksum": (in_blocks(b"snappy", b"\x02\x04ab0000"), "incomplete or damaged after 0"),
    "zstandard of nothing": (in_blocks(b"zstandard", b"nothing at all"), "incomplete or damaged after 0"),
    "a number without end": (blocks.MAGIC + b"\xff" * 40, "header cannot be understood"),
    "a size below nothing": (blocks.MAGIC + b"\x02\x01", "header cannot be understood"),
    "a schema of no JSON": (in_blocks(b"null", b"", 0, b"{"), "header cannot be understood"),
    "too deep": (in_blocks(b"null", b"", 0, b"[" * 100_000), "header cannot be understood"),
    "cut in a block": (packed()[:-30], "incomplete or damaged after 0"),
    "cut at the mark": (packed()[:-1], "incomplete or damaged after 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_what_claims_to_be_more_than_it_is_is_torn(case: str) -> None:
    content, why = HOSTILE[case]
    with pytest.raises(Torn, match=why):
        list(open_avro(content).records)


def test_blocks_before_a_torn_one_are_read() -> None:
    content = packed(sync_interval=100)
    taken: list[Any] = []
    with pytest.raises(Torn, match=r"after \d+ entries"):
        taken.extend(open_avro(content[:-50]).records)
    file = open_avro(content[:-50])
    first = [next(file.records) for _ in range(10)]
    assert first == ROWS[:10]


def test_snappy_and_zstandard_are_unpacked() -> None:
    """By the bytes that Avro's own libraries write, in the form of the specification."""
    plain = b"".join(blocks.varint(len(word)) + word for word in (b"a", b"bc", b""))
    check = zlib.crc32(plain).to_bytes(4, "big")
    by_codec = {
        b"snappy": pa.compress(plain, codec="snappy", asbytes=True) + check,
        b"zstandard": pa.compress(plain, codec="zstd", asbytes=True),
    }
    for codec, block in by_codec.items():
        content = in_blocks(codec, block, 3)
        assert list(blocks.plain_blocks(content, blocks.header_of(content))) == [(3, plain)]
