"""Read the lines of a plain writer manifest: JSON Lines, CSV or Parquet, each also gzipped. Runs in tasks.

A line that cannot be read is a `Fault` with its number, and the rest of the list is read.
"""

import csv
import gzip
import io
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import one_line
from lakeaudit.evidence.files import opened
from lakeaudit.evidence.manifest.file_list.columns import COLUMNS, Columns, flat_json, plain_columns
from lakeaudit.evidence.whole_streams import whole
from lakeaudit.keys import Aliases, Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.scratch import scratch_root

SUFFIX = re.compile(r"\.(jsonl|json|csv|parquet)(\.gz)?\Z", re.IGNORECASE)
LONGEST_LINE = 1 << 20
CHUNK = 1 << 20
BLOCK = 4 << 20
UNREAD_REST = (1 << 62) - 1
"""The line number for everything after the last line that could be read."""

Row = Mapping[str, object]


class Fault(Exception):
    """A row cannot be understood. `key` is set if the row can concern only that path."""

    def __init__(self, what: str, key: tuple[str, str] | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.key = key


class Line(NamedTuple):
    """Holds a line of a list: its number (0: the list as a whole), and its row or its fault."""

    number: int
    row: Row | Fault


Pieces = Iterator[Line | Columns]


@dataclass(frozen=True)
class ListFile:
    """Names one list: its table and the table's place, its own place, order, time and size in bytes.

    `whole` requires the end line of a JSON list; `aliases` are other names of places, which its paths may have.
    """

    table: str
    home: Location
    place: Location
    number: int
    modified_at: datetime
    etag: str | None
    whole: bool
    size: int = 0
    aliases: Aliases = ()


_BROKEN = (ClientError, BotoCoreError, OSError, EOFError, zlib.error)
"""Errors that a stream may raise in the middle of a list."""


class _Unread(Exception):
    """The list, or the rest of it, cannot be read."""


def lines(listed: ListFile, clients: Clients) -> Iterator[Line]:
    """Yield every line of one list; an error that ends it early is the last one, as a fault."""
    return cast("Iterator[Line]", _pieces(listed, clients, columnar=False))


def pieces(listed: ListFile, clients: Clients) -> Pieces:
    """Yield every line of one list, many plain ones at once as columns."""
    return _pieces(listed, clients, columnar=True)


def _pieces(listed: ListFile, clients: Clients, *, columnar: bool) -> Pieces:
    seen = 0
    try:
        with ExitStack() as stack:
            for piece in _decode(_open(listed, clients, stack), listed, columnar=columnar):
                seen = piece.last if isinstance(piece, Columns) else piece.number
                yield piece
    except (ClientError, BotoCoreError) as error:
        yield _cut_off(seen, explain(error)[0])
    except (OSError, EOFError, zlib.error, csv.Error, pa.ArrowException, UnicodeError, _Unread) as error:
        yield _cut_off(seen, one_line(str(error), 200) or type(error).__name__)


def _cut_off(seen: int, why: str) -> Line:
    if not seen:
        return Line(0, Fault(f"cannot be read: {why}"))
    return Line(UNREAD_REST, Fault(f"cannot be read after line {seen}: {why}"))


def _open(listed: ListFile, clients: Clients, stack: ExitStack) -> io.BufferedIOBase:
    """Open exactly the object that was listed, unpacked: the ETag excludes another one of that name."""
    place = listed.place
    if place.is_local or place.is_azure:
        body: Any = opened(clients, place)
    else:
        condition: dict[str, Any] = {"IfMatch": f'"{listed.etag}"'} if listed.etag else {}
        body = clients.s3(*place).get_object(Bucket=place.bucket, Key=place.key, **condition)["Body"]
    stored = stack.enter_context(whole(body, listed.size))
    zipped = place.key.lower().endswith(".gz")
    if zipped and not stored.peek(1):
        raise _Unread("it is empty, and so not a gzip file")
    return cast("io.BufferedIOBase", gzip.GzipFile(fileobj=stored) if zipped else stored)


def _decode(stream: io.BufferedIOBase, listed: ListFile, *, columnar: bool) -> Pieces:
    suffix = SUFFIX.search(listed.place.key)
    form = suffix[1].lower() if suffix else ""
    if form == "csv":
        return _csv_lines(stream)
    if form == "parquet":
        return _parquet_pieces(stream, columnar=columnar)
    return _json_pieces(stream, whole=listed.whole, columnar=columnar)


@dataclass
class _Progress:
    """Counts the progress in a JSON list: its last line, the rows so far, and whether its end line was read."""

    number: int = 0
    rows: int = 0
    ended: bool = False


def _json_pieces(stream: io.BufferedIOBase, *, whole: bool, columnar: bool) -> Pieces:
    """Yield JSON objects, one in each line, then `{"end": true, "lines": n}` after n rows; blank lines do not count."""
    at = _Progress()
    for block in _blocks(stream):
        table = flat_json(block, LONGEST_LINE) if columnar and not at.ended else None
        if table is None:
            yield from _json_lines(block, at)
        else:
            yield Columns(at.number + 1, table)
            at.number += table.num_rows
            at.rows += table.num_rows
    if whole and not at.ended:
        yield Line(at.number + 1, Fault("no end line: the list may be cut off"))
    elif at.number and not at.rows and not at.ended:
        yield Line(at.number, Fault("holds blank lines alone: its rows may be lost"))


def _json_lines(block: bytes, at: _Progress) -> Iterator[Line]:
    for text in _split(block):
        at.number += 1
        if not text.strip():
            continue
        if at.ended:
            yield Line(at.number, Fault("is after the end line"))
        row = _parse(text)
        at.ended = not isinstance(row, Fault) and row.get("end") is True
        if not at.ended:
            at.rows += 1
            yield Line(at.number, row)
        elif isinstance(row, Mapping) and row.get("lines") != at.rows:
            wrong = f"the end line counts {row.get('lines')!r} rows, there are {at.rows}"
            yield Line(at.number, Fault(wrong))


def _blocks(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Yield whole lines, about BLOCK bytes at once; a line that may be the end line is a block of its own.

    Only the beginning of a line that is longer than LONGEST_LINE is kept.
    """
    rest = b""
    for read in _reads(stream):
        held = rest + read
        cut = held.rfind(b"\n") + 1
        end = held.rfind(b"\n", 0, max(cut - 1, 0)) + 1
        blocks = (held[:end], held[end:cut]) if b'"end"' in held[end:cut] else (held[:cut],)
        yield from filter(None, blocks)
        rest = held[cut:][: LONGEST_LINE + 1]
    if rest:
        yield rest


def _reads(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Yield the bytes of a stream, about BLOCK at once, and raise an error only after the bytes before it."""
    size = BLOCK
    while size >= BLOCK:
        held: list[bytes] = []
        size, failure = 0, None
        try:
            while size < BLOCK and (read := stream.read1(BLOCK)):
                held.append(read)
                size += len(read)
        except _BROKEN as error:
            failure = error
        if held:
            yield b"".join(held)
        if failure is not None:
            raise failure


def _split(block: bytes) -> Iterator[bytes]:
    """Return the lines of a block; one of more than LONGEST_LINE bytes becomes an invalid line."""
    texts = block.split(b"\n")
    if not texts[-1]:
        texts.pop()
    return (text if len(text) < LONGEST_LINE else b"too long" for text in texts)


def _parse(text: bytes) -> Row | Fault:
    try:
        row = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return Fault("is not JSON")
    return row if isinstance(row, dict) else Fault("is not a JSON object")


def _csv_lines(stream: io.BufferedIOBase) -> Iterator[Line]:
    """Read columns by the names in the first row; an empty cell is an absent value."""
    text = io.TextIOWrapper(cast("IO[bytes]", stream), "utf-8-sig", errors="surrogateescape", newline="")
    reader = csv.reader(text, strict=True)
    names = next(reader, [])
    if any("\0" in name for name in names):
        raise _Unread("its first row holds NUL characters, as a lost block leaves them")
    if "path" not in names:
        raise _Unread("its first row names no column `path`")
    for cells in reader:
        if len(cells) == len(names):
            filled = {name: cell for name, cell in zip(names, cells, strict=True) if cell != ""}
            yield Line(reader.line_num, filled)
        elif cells:
            yield Line(reader.line_num, Fault(f"has {len(cells)} cells, not {len(names)}"))


def _parquet_pieces(stream: io.BufferedIOBase, *, columnar: bool) -> Pieces:
    """Yield rows in the order of the file, which is copied whole first, since its index is at its end."""
    with tempfile.TemporaryFile(dir=scratch_root()) as copy:
        shutil.copyfileobj(stream, copy, CHUNK)
        file = pq.ParquetFile(copy)
        known = [name for name in COLUMNS if name in file.schema_arrow.names]
        if "path" not in known:
            raise _Unread("it has no column `path`")
        number = 0
        for batch in file.iter_batches(8192, columns=known):
            table = plain_columns(batch) if columnar else None
            if table is not None:
                yield Columns(number + 1, table)
            else:
                yield from (Line(at, row) for at, row in enumerate(_plain_rows(batch), number + 1))
            number += batch.num_rows


def _plain_rows(batch: pa.RecordBatch) -> list[Row]:
    try:
        rows: list[Row] = batch.to_pylist()
    except (ValueError, OverflowError, LookupError) as error:  # times beyond the calendar, unknown zones
        raise _Unread(f"a value of it cannot be understood ({type(error).__name__})") from error
    return rows
