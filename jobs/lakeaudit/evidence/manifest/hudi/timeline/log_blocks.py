"""Read the records in a file of Hudi's log format, without decoding them. Pure.

Format: "Log File Format" of Apache Hudi's specification, blocks of kind Avro.
"""

import struct
from collections.abc import Iterator

from lakeaudit.evidence.avro.blocks import Torn

_MAGIC = b"#HUDI#"
_VERSIONS = (1, 2, 3)
_AVRO_BLOCK, _SCHEMA = 3, 2


def avro_blocks(content: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield (schema, records) of the file's blocks.

    Raises:
        Torn: it is incomplete or damaged from some block on.
    """
    at, number = 0, 0
    while at < len(content):
        try:
            begin, end, kind = _block(content, at)
            block = _avro_block(content, begin, end) if kind == _AVRO_BLOCK else None
        except (struct.error, ValueError, LookupError) as error:
            raise Torn(f"it is incomplete or damaged after {number} blocks") from error
        if block is not None:
            yield block
        at, number = end, number + 1


def _block(content: bytes, at: int) -> tuple[int, int, int]:
    """Return (where the header of a block begins, where the block ends, its kind)."""
    size, version, kind = struct.unpack_from(">qii", content, at + len(_MAGIC))
    begin = at + len(_MAGIC) + 8
    if content[at : at + len(_MAGIC)] != _MAGIC or size < 8 or version not in _VERSIONS:
        raise ValueError("no block")
    if begin + size > len(content):
        raise ValueError("no whole block")
    return begin + 8, begin + size, kind


def _avro_block(content: bytes, at: int, end: int) -> tuple[bytes, list[bytes]]:
    header: dict[int, bytes] = {}
    (count,) = struct.unpack_from(">i", content, at)
    at += 4
    for _ in range(count):
        name, size = struct.unpack_from(">ii", content, at)
        header[name] = _slice(content, at + 8, size, end)
        at += 8 + size
    _, _, records = struct.unpack_from(">qii", content, at)
    at += 16
    found = []
    for _ in range(records):
        (size,) = struct.unpack_from(">i", content, at)
        found.append(_slice(content, at + 4, size, end))
        at += 4 + size
    return header[_SCHEMA], found


def _slice(content: bytes, at: int, size: int, end: int) -> bytes:
    if size < 0 or at + size > end:
        raise ValueError("it ends before")
    return content[at : at + size]
