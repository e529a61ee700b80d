"""A form of delete lists: how it is recognised, and how its lines become LISTED rows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from lakeaudit.schemas import LISTED

Row = tuple[int, str | None, str | None, bool, str | None]
"""A row of LISTED."""
BATCH = 50_000


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


def file_row(line: int, text: str, bucket: str | None = None, *, encoded: bool = False) -> Row:
    """Return the row of a line that names a file."""
    return line, text, bucket, encoded, None


def fault_row(line: int, text: str | None, fault: str) -> Row:
    """Return the row of a line that names no file."""
    return line, text, None, False, fault
