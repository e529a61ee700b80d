"""Read lists with columns: CSV with or without a header, and manifests of S3 Batch Operations."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, BinaryIO

import pyarrow as pa

from lakeaudit.errors import BadInput
from lakeaudit.guard.lists.columns import (
    file_columns,
    knows,
    locations_in,
    looks_like_location,
    unclear_columns,
)
from lakeaudit.guard.lists.protocol import Lines, ListForm, Row, batches, fault_row, file_row
from lakeaudit.guard.lists.text_lists import limit_of_dry_run
from lakeaudit.keys import is_utf8

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_DELIMITERS = (",", ";", "\t")
_MOST = 1 << 20
"""Characters of the longest cell."""


@dataclass(frozen=True)
class _Columns:
    """The positions of the bucket and the file in a row, and how many cells a row may have."""

    bucket: int | None
    file: int
    cells: Sequence[int]
    encoded: bool = False

    def row(self, number: int, cells: Sequence[str]) -> Row:
        """Return the LISTED row of the cells of a line."""
        whole = ",".join(cells)[:1000]
        if not is_utf8(whole):
            return fault_row(number, None, "the line is not UTF-8")
        if len(cells) not in self.cells:
            return fault_row(number, whole, "the line has another number of values than the first line")
        bucket = None if self.bucket is None else cells[self.bucket]
        if not cells[self.file] or bucket == "":
            return fault_row(number, whole, "the line names no file")
        return file_row(number, cells[self.file], bucket, encoded=self.encoded)


def _delimiter(line: str) -> str:
    """Return the delimiter that gives most cells."""
    return max(_DELIMITERS, key=lambda each: len(_split(line, each)))


def _split(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _cells(line: str) -> list[str]:
    return _split(line, _delimiter(line))


def _is_manifest(cells: Sequence[str]) -> bool:
    """Return whether a line is one of a manifest of S3 Batch Operations: bucket, key, and perhaps a version.

    S3 User Guide, "Specifying a manifest": without a header, with URL-encoded keys.
    """
    known = knows(cells)
    return (
        len(cells) in (2, 3) and not known and bool(_BUCKET.fullmatch(cells[0])) and not locations_in(cells)
    )


def _first_lines(sample: bytes) -> list[str]:
    text = sample.decode("utf-8-sig", errors="replace")
    return [line for line in text.splitlines()[:2] if line]


def _recognises_csv(sample: bytes) -> bool:
    """Return whether a list is CSV with a header.

    Raises:
        BadInput: the first line may be a path with a comma, or CSV without a header.
    """
    first = _first_lines(sample)
    if not first or b"\0" in sample:
        return False
    cells = _cells(first[0])
    if len(cells) > 1 and looks_like_location(first[0]):
        what = "the first line may be one path with a comma, or CSV without a header"
        raise BadInput("LIST", what, "add --as plain or --as csv")
    return len(cells) > 1 or knows(cells)


def _recognises_manifest(sample: bytes) -> bool:
    first = _first_lines(sample)
    return bool(first) and all(_is_manifest(_cells(line)) for line in first)


def _rows(stream: BinaryIO, columns: _Columns | None) -> Iterator[Row]:
    text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    first = text.readline()
    delimiter = _delimiter(first)
    csv.field_size_limit(_MOST)
    rows = _numbered(csv.reader(_with_first(first, text), delimiter=delimiter))
    head = list(islice(rows, 2))
    if columns is None and head:
        columns, is_header = _columns(*(cells for _, cells in head))
        head = head[1:] if is_header else head
    for number, cells in chain(head, rows):
        if cells is None:
            yield fault_row(number, None, "the line is not CSV")
        elif columns is not None:
            yield columns.row(number, cells)


def _numbered(rows: Any) -> Iterator[tuple[int, list[str] | None]]:
    """Yield the cells of each line with its number; None: the rest cannot be read."""
    try:
        for cells in rows:
            if cells:
                yield rows.line_num, cells
    except csv.Error:
        yield rows.line_num, None


def _with_first(first: str, rest: io.TextIOWrapper) -> Iterator[str]:
    yield first
    yield from rest


def _columns(first: Sequence[str] | None, second: Sequence[str] | None = None) -> tuple[_Columns, bool]:
    """Return the columns of a list, and whether its first line is a header.

    Raises:
        BadInput: no column names files, or several do.
    """
    names = first or ()
    number, is_header = (len(names),), not locations_in(names)
    bucket, file = file_columns(names, second or ()) if is_header else (None, _only(locations_in(names)))
    if file is not None:
        return _Columns(bucket, file, number), is_header
    raise unclear_columns(names)


def _only(positions: Sequence[int]) -> int | None:
    return positions[0] if len(positions) == 1 else None


def _read_csv(stream: BinaryIO, lines: Lines) -> Iterator[pa.RecordBatch]:
    files = 0
    for batch in batches(_rows(stream, None)):
        files += batch.num_rows
        yield batch
    lines.cut_off = limit_of_dry_run(files)


def _read_manifest(stream: BinaryIO, lines: Lines) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    yield from batches(_rows(stream, _Columns(0, 1, (2, 3), encoded=True)))


CSV = ListForm(
    "csv",
    "CSV with a column of URIs or paths, or with the columns bucket and key",
    _recognises_csv,
    _read_csv,
)
S3_BATCH = ListForm("s3-batch", "manifest of S3 Batch Operations", _recognises_manifest, _read_manifest)
