"""A form of delete lists: how it is recognised, and how its lines become LISTED rows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from lakeaudit.schemas import LISTED

Row = tuple[int, str | None, str | None, bool, str | None]
"""A row of LISTED."""
BATCH = 50_000
MOST_AT_ONCE = 1 << 30
"""Bytes of the longest block that is split at once."""
HEAD, BLOCK = 4 << 10, 8 << 20
"""Bytes of a list that are read at once, first and later."""


@dataclass(frozen=True)
class ListForm:
    """A form of delete lists.

    Attributes:
        name: the value of `--as`.
        title: what people call such a list.
        recognises: whether the first bytes of a list, at most `SAMPLE`, show that it has this form.
        read: yields LISTED batches of an open list, and at its end what is missing in it, see `Lines`.
    """

    name: str
    title: str
    recognises: Callable[[bytes], bool]
    read: "Callable[[BinaryIO, Lines], Iterator[pa.RecordBatch]]"


SAMPLE = 1 << 16


@dataclass
class Lines:
    """What a reader noticed about its list besides its lines: `cut_off` states why files may be missing in it."""

    cut_off: str = ""


def batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches."""
    held: list[Row] = []
    for row in rows:
        held.append(row)
        if len(held) == BATCH:
            yield _batch(held)
            held = []
    if held:
        yield _batch(held)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, LISTED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LISTED)


def listed_batch(
    first: int, text: pa.Array, bucket: pa.Array | None = None, *, encoded: bool = False
) -> pa.RecordBatch:
    """Return the rows of lines that name files; `first` is the number of the first line."""
    count = len(text)
    columns = [
        pa.array(np.arange(first, first + count), pa.int64()),
        text,
        pa.nulls(count, pa.string()) if bucket is None else bucket,
        pa.repeat(pa.scalar(encoded), count),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LISTED)


def blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a list in blocks of whole lines; the first one is small, since it is parsed by lines."""
    size = min(HEAD, BLOCK)
    while lines := stream.readlines(size):
        yield b"".join(lines)
        size = BLOCK


def split_text(content: bytes, separator: bytes) -> pa.StringArray | None:
    """Return the texts between single bytes; None: the content is not UTF-8, or too large."""
    if len(content) > MOST_AT_ONCE:
        return None
    try:
        content.decode()
    except UnicodeDecodeError:
        return None
    octets = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(octets == separator[0])
    starts = np.concatenate([[0], ends - np.arange(len(ends)), [len(octets) - len(ends)]]).astype(np.int32)
    values = np.delete(octets, ends)
    return pa.StringArray.from_buffers(len(ends) + 1, pa.py_buffer(starts), pa.py_buffer(values))


def file_row(line: int, text: str, bucket: str | None = None, *, encoded: bool = False) -> Row:
    """Return the row of a line that names a file."""
    return line, text, bucket, encoded, None


def fault_row(line: int, text: str | None, fault: str) -> Row:
    """Return the row of a line that names no file."""
    return line, text, None, False, fault
