"""The lines of a plain writer manifest: JSON Lines, CSV or Parquet, each also gzipped. Runs on executors.

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

from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients, explain

SUFFIX = re.compile(r"\.(jsonl|json|csv|parquet)(\.gz)?\Z", re.IGNORECASE)
TEXTS = ("path", "etag", "version_id", "checksum", "job_id", "action", "scope")
COLUMNS = (*TEXTS, "size", "records", "committed_at")
LONGEST_LINE = 1 << 20
CHUNK = 1 << 20
UNREAD_REST = (1 << 62) - 1
"""The number of what stands behind the last line that could be read."""

Row = Mapping[str, object]


class Fault(Exception):
    """A row that cannot be understood. `key` is set where it is sure which path alone it is about."""

    def __init__(self, what: str, key: tuple[str, str] | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.key = key


class Line(NamedTuple):
    """A line of a list: its number (0: the list as a whole), and its row or what is wrong with it."""

    number: int
    row: Row | Fault


@dataclass(frozen=True)
class ListFile:
    """One list: the table it speaks for and where that lies, its own place, order and time.

    `whole` asks a JSON list for its end line.
    """

    table: str
    home: Location
    place: Location
    number: int
    modified_at: datetime
    etag: str | None
    whole: bool


class _Unread(Exception):
    """The list, or the rest of it, cannot be read."""


def lines(listed: ListFile, clients: Clients) -> Iterator[Line]:
    """Every line of one list; what ends the reading early is the last one, as a fault."""
    seen = 0
    try:
        with ExitStack() as stack:
            for line in _decoded(_opened(listed, clients, stack), listed):
                seen = line.number
                yield line
    except (ClientError, BotoCoreError) as error:
        yield _cut_off(seen, explain(error)[0])
    except (OSError, EOFError, zlib.error, csv.Error, pa.ArrowException, _Unread) as error:
        yield _cut_off(seen, " ".join(str(error).split())[:200] or type(error).__name__)


def _cut_off(seen: int, why: str) -> Line:
    if not seen:
        return Line(0, Fault(f"cannot be read: {why}"))
    return Line(UNREAD_REST, Fault(f"cannot be read after line {seen}: {why}"))


def _opened(listed: ListFile, clients: Clients, stack: ExitStack) -> IO[bytes]:
    """The plain bytes of the very object that was listed: another one of that name is refused by its ETag."""
    place = listed.place
    stored: Any
    if place.is_local:
        stored = stack.enter_context(io.BufferedReader(io.FileIO(place.spark_path), CHUNK))
    else:
        asked: dict[str, Any] = {"IfMatch": f'"{listed.etag}"'} if listed.etag else {}
        body: Any = clients.s3(place.bucket).get_object(Bucket=place.bucket, Key=place.key, **asked)["Body"]
        stored = stack.enter_context(io.BufferedReader(body, CHUNK))
    zipped = place.key.lower().endswith(".gz")
    return cast("IO[bytes]", gzip.GzipFile(fileobj=stored) if zipped else stored)


def _decoded(stream: IO[bytes], listed: ListFile) -> Iterator[Line]:
    suffix = SUFFIX.search(listed.place.key)
    form = suffix[1].lower() if suffix else ""
    if form == "csv":
        return _csv_lines(stream)
    return _parquet_lines(stream) if form == "parquet" else _json_lines(stream, whole=listed.whole)


def _json_lines(stream: IO[bytes], *, whole: bool) -> Iterator[Line]:
    """JSON objects, one a line, then `{"end": true, "lines": n}` with n rows before it; blank lines do not count."""
    rows = number = 0
    ended = False
    for number, text in enumerate(_bounded(stream), 1):
        if not text.strip():
            continue
        if ended:
            yield Line(number, Fault("stands behind the end line"))
        row = _parsed(text)
        ended = not isinstance(row, Fault) and row.get("end") is True
        if not ended:
            rows += 1
            yield Line(number, row)
        elif isinstance(row, Mapping) and row.get("lines") != rows:
            yield Line(number, Fault(f"the end line tells of {row.get('lines')!r} rows, there are {rows}"))
    if whole and not ended:
        yield Line(number + 1, Fault("no end line: the list may be cut off"))


def _bounded(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines; one of more than LONGEST_LINE bytes comes as a line that nobody can read."""
    while line := stream.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while (rest := stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
            line = b"too long"
        yield line


def _parsed(text: bytes) -> Row | Fault:
    try:
        row = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return Fault("is no JSON")
    return row if isinstance(row, dict) else Fault("is no JSON object")


def _csv_lines(stream: IO[bytes]) -> Iterator[Line]:
    """Columns by the names in the first row; an empty cell is an absent value."""
    text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    reader = csv.reader(text, strict=True)
    names = next(reader, [])
    if "path" not in names:
        raise _Unread("its first row names no column `path`")
    for cells in reader:
        if len(cells) == len(names):
            filled = {name: cell for name, cell in zip(names, cells, strict=True) if cell != ""}
            yield Line(reader.line_num, filled)
        elif cells:
            yield Line(reader.line_num, Fault(f"has {len(cells)} cells, not {len(names)}"))


def _parquet_lines(stream: IO[bytes]) -> Iterator[Line]:
    """Rows in the order of the file, which is fetched whole first, since its index stands at its end."""
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream, copy, CHUNK)
        file = pq.ParquetFile(copy)
        known = [name for name in COLUMNS if name in file.schema_arrow.names]
        if "path" not in known:
            raise _Unread("it has no column `path`")
        number = 0
        for batch in file.iter_batches(8192, columns=known):
            for row in _plain_rows(batch):
                number += 1
                yield Line(number, row)


def _plain_rows(batch: pa.RecordBatch) -> list[Row]:
    try:
        rows: list[Row] = batch.to_pylist()
    except (ValueError, OverflowError, LookupError) as error:  # times beyond the calendar, unknown zones
        raise _Unread(f"a value of it cannot be understood ({type(error).__name__})") from error
    return rows
