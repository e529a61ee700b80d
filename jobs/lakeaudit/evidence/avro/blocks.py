"""Unpack the blocks of an Avro container file within limits: a small file must not become an endless one.

Format: "Object Container Files" of the Avro specification, with the codecs null, deflate, snappy and zstandard.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

MAGIC = b"Obj\x01"
LARGEST_BLOCK = 1 << 26
"""Most bytes of an unpacked block; writers begin a new one after some thousands."""
LARGEST = 1 << 30
"""Most bytes of a file; writers begin a new manifest after a few million."""
LARGEST_PLAIN = 4 << 30
"""Most unpacked bytes of all blocks of a file."""
_SYNC = 16
_MOST_NAMES = 1000


class Torn(Exception):
    """Part of a file cannot be understood; the message says which."""


@dataclass(frozen=True)
class Header:
    """Holds the header of a file: its values, its sync marker, and where its blocks begin."""

    values: Mapping[str, bytes]
    sync: bytes
    end: int

    @property
    def text(self) -> dict[str, str]:
        """Return the values as text; invalid UTF-8 is replaced."""
        return {name: value.decode("utf-8", "replace") for name, value in self.values.items()}


def header_of(content: bytes) -> Header:
    """Parse the header of a file.

    Raises:
        Torn: it is not an Avro file, or its header cannot be understood.
    """
    if len(content) > LARGEST:
        raise Torn(f"it has {len(content)} bytes, which no such file has")
    if not content.startswith(MAGIC):
        raise Torn("it is not an Avro file" if content else "it is empty")
    try:
        values, at = _header_values(content, len(MAGIC))
        sync = _slice(content, at, _SYNC)
        _has_size(json.loads(values["avro.schema"]))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Torn("its Avro header cannot be understood") from error
    codec = values.get("avro.codec", b"null")
    if codec not in _UNPACK:
        raise Torn(f"its codec {codec[:20]!r} is not known")
    return Header(values, sync, at + _SYNC)


def plain_blocks(content: bytes, header: Header) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of a file, unpacked, with the number of their records.

    Raises:
        Torn: a block is torn, or larger than writers make it, or the whole file is.
    """
    unpack, at, number, size = _UNPACK[header.values.get("avro.codec", b"null")], header.end, 0, 0
    while at < len(content):
        try:
            count, block, at = _block(content, at, header.sync, unpack)
        except (ValueError, OverflowError, zlib.error, pa.ArrowException, OSError) as error:
            raise Torn(f"it is incomplete or damaged after {number} entries") from error
        if not 0 <= count <= len(block):
            raise Torn(f"it is damaged after {number} entries: a block has {count} in {len(block)} bytes")
        number, size = number + count, size + len(block)
        if size > LARGEST_PLAIN:
            raise Torn(f"it unpacks to more than {LARGEST_PLAIN >> 30} GiB, which no such file does")
        yield count, block


def _block(content: bytes, at: int, sync: bytes, unpack: Callable[[bytes], bytes]) -> tuple[int, bytes, int]:
    """Return the number of a block's records, its unpacked bytes and its end."""
    count, at = _long(content, at)
    size, at = _long(content, at)
    block = unpack(_slice(content, at, size))
    return count, block, _after_mark(content, at + size, sync)


def plain_chunks(content: bytes, header: Header) -> Iterator[bytes]:
    """Yield the same file in pieces, with the codec null.

    Raises:
        Torn: see `plain_blocks`.
    """
    yield file_head({**header.values, "avro.codec": b"null"}, header.sync)
    for count, block in plain_blocks(content, header):
        yield packed_block(count, block, header.sync)


def file_head(values: Mapping[str, bytes], sync: bytes) -> bytes:
    """Return the bytes of a file before its first block."""
    return MAGIC + _packed_values(values) + sync


def packed_block(count: int, block: bytes, sync: bytes) -> bytes:
    """Return the bytes of a plain block of `count` records."""
    return varint(count) + varint(len(block)) + block + sync


def _header_values(content: bytes, at: int) -> tuple[dict[str, bytes], int]:
    values: dict[str, bytes] = {}
    while True:
        count, at = _long(content, at)
        if count == 0:
            return values, at
        if count < 0:
            _, at = _long(content, at)
        if abs(count) > _MOST_NAMES:
            raise ValueError("too many values")
        for _ in range(abs(count)):
            name, at = _bytes(content, at)
            values[name.decode()], at = _bytes(content, at)


def _packed_values(values: Mapping[str, bytes]) -> bytes:
    named = b"".join(
        varint(len(part)) + part for name, value in values.items() for part in (name.encode(), value)
    )
    return varint(len(values)) + named + b"\x00"


def _slice(content: bytes, at: int, size: int) -> bytes:
    if size < 0 or at + size > len(content):
        raise ValueError("it ends before")
    return content[at : at + size]


def _after_mark(content: bytes, at: int, sync: bytes) -> int:
    if _slice(content, at, _SYNC) != sync:
        raise ValueError("no mark after the block")
    return at + _SYNC


def _bytes(content: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(content, at)
    return _slice(content, at, size), at + size


def _long(content: bytes, at: int) -> tuple[int, int]:
    """Decode a number in zigzag, seven bits in each byte; return it and its end."""
    value = shift = 0
    while True:
        (byte,) = _slice(content, at, 1)
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        if shift > 63:
            raise ValueError("no number")


def varint(number: int) -> bytes:
    """Encode a number of zero or more in the same form."""
    rest, written = number << 1, bytearray()
    while rest >= 0x80:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def _plain(block: bytes) -> bytes:
    return block


def _deflate(block: bytes) -> bytes:
    unpacking = zlib.decompressobj(-15)
    plain = unpacking.decompress(block, LARGEST_BLOCK)
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("too large, or not whole")
    return plain


def _snappy(block: bytes) -> bytes:
    """Unpack a block that begins with the size of the unpacked bytes and ends with their checksum."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > LARGEST_BLOCK or len(block) < 5:
        raise ValueError("too large, or not whole")
    plain: bytes = pa.decompress(block[:-4], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(block[-4:], "big"):
        raise ValueError("another checksum")
    return plain


def _zstandard(block: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        plain: bytes = stream.read(LARGEST_BLOCK + 1)
    if len(plain) > LARGEST_BLOCK:
        raise ValueError("too large")
    return plain


_UNPACK: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"null": _plain,
    b"deflate": _deflate,
    b"snappy": _snappy,
    b"zstandard": _zstandard,
}


def _has_size(schema: Any) -> bool:
    """Return whether every value of a schema takes at least a byte.

    ValueError if the values of a list need none: a few bytes could then claim any number of values.
    """
    if isinstance(schema, list):
        return all(_has_size(each) for each in schema) or True
    if not isinstance(schema, dict):
        return bool(schema != "null")
    kind = schema["type"]
    if kind in ("array", "map"):
        if not _has_size(schema["items" if kind == "array" else "values"]):
            raise ValueError("values without a size")
        return True
    if kind in ("record", "error"):
        return any(_has_size(each["type"]) for each in schema["fields"])
    return _has_size(kind) if isinstance(kind, dict | list) else kind != "null"


def container(schema: bytes, records: Sequence[bytes]) -> bytes:
    """Return a file of these records, which were stored without one."""
    sync, block = bytes(_SYNC), b"".join(records)
    head = file_head({"avro.schema": schema, "avro.codec": b"null"}, sync)
    return head + packed_block(len(records), block, sync) if records else head
