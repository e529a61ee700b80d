"""Read lists with columns: CSV with or without a header, and manifests of S3 Batch Operations."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.errors import BadInput
from lakeaudit.guard.lists.columns import (
    file_columns,
    knows,
    locations_in,
    looks_like_location,
    unclear_columns,
)
from lakeaudit.guard.lists.plain_csv import MOST_OF_CELL, plain_csv
from lakeaudit.guard.lists.protocol import (
    Lines,
    ListForm,
    Row,
    batches,
    blocks,
    fault_row,
    file_row,
    listed_batch,
)
from lakeaudit.guard.lists.text_lists import limit_of_dry_run
from lakeaudit.keys import is_utf8

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_DELIMITERS = (",", ";", "\t")


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

    def names_all(self, cells: pa.RecordBatch) -> bool:
        """Return whether each row has a file, and a bucket if there is a column for it."""
        named = [self.file] if self.bucket is None else [self.bucket, self.file]
        return not any(pc.any(pc.equal(cells.column(at), "")).as_py() for at in named)

    def batch(self, cells: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return the LISTED rows of the cells of lines."""
        bucket = None if self.bucket is None else cells.column(self.bucket)
        return listed_batch(first, cells.column(self.file), bucket, encoded=self.encoded)


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


def _read(stream: BinaryIO, columns: _Columns | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows in blocks; a block with other lines than plain ones is read line by line."""
    csv.field_size_limit(MOST_OF_CELL)
    number, delimiter = 0, ""
    for raw in blocks(stream):
        block = raw if number else raw.removeprefix(b"\xef\xbb\xbf")
        if not number:
            delimiter = _delimiter(next(_lines(block), ""))
        if columns is None:
            columns, block, number = _head(block, stream, delimiter)
            if columns is None:
                continue
        batch = plain_csv(block, columns.cells, delimiter)
        if batch is not None and columns.names_all(batch):
            yield columns.batch(batch, number + 1)
            number += batch.num_rows
            continue
        rows = _Rows(block, stream, delimiter, number)
        yield from batches(columns.row(at, cells) for at, cells in rows)
        number = rows.number
        if rows.is_broken:
            yield from batches([fault_row(number, None, "the line is not CSV")])
            return


def _head(block: bytes, stream: BinaryIO, delimiter: str) -> tuple[_Columns | None, bytes, int]:
    """Return the columns by the first two rows, the rest of the block after a header, and the header's lines."""
    rows = _Rows(block, stream, delimiter, 0)
    head = [*islice(rows, 2)]
    while len(head) < 2 and not rows.is_broken and (more := stream.readline()):
        rows = _Rows(b"".join([*map(_encoded, rows.given), more]), stream, delimiter, 0)
        head = [*islice(rows, 2)]
    if not head:
        return None, b"", rows.number
    columns, is_header = _columns(*(cells for _, cells in head))
    lines = head[0][0] if is_header else 0
    return columns, b"".join(map(_encoded, rows.given[lines:])), lines


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", "surrogateescape")


def _lines(block: bytes) -> Iterator[str]:
    yield from io.StringIO(block.decode("utf-8", "surrogateescape"), newline="")


class _Rows:
    """The cells of each row of a block with the number of its last line; a row may end after the block.

    `number` counts the lines, `given` has those that were read, and `is_broken` says that the rest cannot be read.
    """

    def __init__(self, block: bytes, stream: BinaryIO, delimiter: str, number: int) -> None:
        self.number, self.is_broken = number, False
        self.given = [*_lines(block)]
        self._stream, self._delimiter = stream, delimiter

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        first = self.number
        reader = csv.reader(chain([*self.given], self._more()), delimiter=self._delimiter)
        try:
            while reader.line_num < len(self.given):
                cells = next(reader, None)
                self.number = first + reader.line_num
                if cells:
                    yield self.number, cells
        except csv.Error:
            self.number, self.is_broken = first + reader.line_num, True

    def _more(self) -> Iterator[str]:
        for raw in iter(self._stream.readline, b""):
            lines = [*_lines(raw)]
            self.given += lines
            yield from lines


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
    for batch in _read(stream, None):
        files += batch.num_rows
        yield batch
    lines.cut_off = limit_of_dry_run(files)


def _read_manifest(stream: BinaryIO, lines: Lines) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    yield from _read(stream, _Columns(0, 1, (2, 3), encoded=True))


CSV = ListForm(
    "csv",
    "CSV with a column of URIs or paths, or with the columns bucket and key",
    _recognises_csv,
    _read_csv,
)
S3_BATCH = ListForm("s3-batch", "manifest of S3 Batch Operations", _recognises_manifest, _read_manifest)
