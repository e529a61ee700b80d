"""Check the data files of a DynamoDB export (MD5, gzip, number of items) and parse their lines, in tasks."""

import base64
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.files import opened
from lakeaudit.evidence.metastore.dynamodb.tally import ItemLayout, Tally
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.duck import Connection, Relation

CHUNK = 1 << 20
HEAD_LINES = 1000
LONGEST_LINE = 16 << 20
"""The most bytes of an item's line: an item has 400 KB at most, and DuckDB reads no longer line either."""

_BROKEN_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)
NO_GZIP = "is not a complete gzip file"
_OTHER_MD5 = "its MD5 is not the one in the manifest"


class TooLongError(Exception):
    """A line is longer than any item; `str` is the message."""


@dataclass(frozen=True)
class DataFile:
    """One data file: its place, number of items and MD5 as its manifest declares them, and its size in storage."""

    place: Location
    items: int
    md5: str
    size: int = 1

    @property
    def uri(self) -> str:
        return self.place.uri

    @property
    def zipped(self) -> bool:
        return self.place.key.endswith(".gz")


@dataclass(frozen=True)
class Checked:
    """The fault of a data file (None: it is valid), and the tally of its items where they were read."""

    fault: str | None
    tally: Tally = field(default_factory=Tally)


def same_md5(digest: bytes, written: str) -> bool:
    """Return whether a digest equals the one written in base64 or hex."""
    text = written.strip().strip('"')
    try:
        return bytes.fromhex(text) == digest
    except ValueError:
        pass
    try:
        return base64.b64decode(text, validate=True) == digest
    except ValueError:
        return False


def check_digest(file: DataFile, clients: Clients) -> Checked:
    """Check that the stored bytes have the manifest's MD5, without unpacking them."""
    try:
        with closing(opened(clients, file.place)) as raw:
            hashing = _Hashing(raw)
            _drain(io.BufferedReader(hashing, CHUNK))
    except (ClientError, BotoCoreError, OSError) as error:
        return Checked(f"cannot be read: {explain(error)[0]}")
    return Checked(None if same_md5(hashing.md5.digest(), file.md5) else _OTHER_MD5)


def check_whole(file: DataFile, clients: Clients, layout: ItemLayout) -> Checked:
    """Check the MD5, the compression and the number of items of a file."""
    try:
        with closing(opened(clients, file.place)) as raw:
            hashing = _Hashing(raw)
            tally = _whole_tally(io.BufferedReader(hashing, CHUNK), layout, zipped=file.zipped)
    except (ClientError, BotoCoreError, OSError) as error:
        return Checked(f"cannot be read: {explain(error)[0]}")
    except TooLongError as error:
        return Checked(str(error))
    if not same_md5(hashing.md5.digest(), file.md5):
        return Checked(_OTHER_MD5)
    if tally is None:
        return Checked(NO_GZIP)
    return Checked(count_fault(file, tally), tally)


def head_tally(file: DataFile, clients: Clients, layout: ItemLayout) -> Tally:
    """Return the tally of the first lines of a file; an empty one if it cannot be read, which is reported elsewhere."""
    tally = Tally()
    try:
        with closing(opened(clients, file.place)) as raw:
            stored = io.BufferedReader(_Hashing(raw), CHUNK)
            _tally_lines(_unpacked(stored, zipped=file.zipped), tally, layout, HEAD_LINES)
    except (ClientError, BotoCoreError, OSError, TooLongError, *_BROKEN_GZIP):
        pass
    return tally


def export_items(con: Connection, path: Path, items: pa.Schema, *, zipped: bool) -> Relation:
    """Return every line of a local file as an item of a schema; an invalid line lacks every attribute. Lazy.

    Without `records`, DuckDB infers from one line that is not an object that the lines near it are not objects either.
    """
    line = f"{{Item: '{duck.type_of(pa.struct(list(items)))}'}}"
    options = f"format='newline_delimited', records=true, ignore_errors=true, columns={line}"
    packed = f"compression={duck.literal('gzip' if zipped else 'none')}"
    return duck.query(con, f"SELECT Item.* FROM read_json({duck.literal(path)}, {options}, {packed})")


def count_fault(file: DataFile, tally: Tally) -> str | None:
    """Return the fault of a file with another number of items than its manifest declares, or None."""
    same = tally.items == file.items
    return None if same else f"holds {tally.items} items, the manifest says {file.items}"


def is_torn(path: Path, file: DataFile) -> bool:
    """Return whether a gzip file cannot be unpacked to its end."""
    try:
        with path.open("rb") as raw:
            _drain(_unpacked(raw, zipped=file.zipped))
    except _BROKEN_GZIP:
        return True
    return False


class _Hashing(io.RawIOBase):
    """Passes bytes on and computes their MD5."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.md5 = hashlib.md5(usedforsecurity=False)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self.raw.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self.md5.update(chunk)
        return len(chunk)


def _unpacked(stored: Any, *, zipped: bool) -> Any:
    return io.BufferedReader(gzip.GzipFile(fileobj=stored), CHUNK) if zipped else stored


def _drain(stored: Any) -> None:
    while stored.read(CHUNK):
        pass


def _whole_tally(stored: Any, layout: ItemLayout, *, zipped: bool) -> Tally | None:
    """Return the tally of all lines (None: broken gzip); the stored bytes are read to their end in any case."""
    tally, torn = Tally(), False
    try:
        _tally_lines(_unpacked(stored, zipped=zipped), tally, layout)
    except _BROKEN_GZIP:
        torn = True
    _drain(stored)
    return None if torn else tally


def _tally_lines(lines: Any, tally: Tally, layout: ItemLayout, most: int | None = None) -> None:
    """Count lines; only those are parsed that may be the marker, or the first path."""
    for line in islice(_bounded(lines), most):
        if tally.paths and (layout.marker is None or layout.marker not in line):
            tally.items += bool(line.strip())
        elif line.strip():
            tally.add(_tally_of_line(line, layout))


def _bounded(lines: Any) -> Iterator[bytes]:
    """Yield lines. Raises TooLongError: a line is longer than any item."""
    size = 0
    while line := lines.readline(LONGEST_LINE):
        size += len(line)
        if len(line) >= LONGEST_LINE:
            raise TooLongError(
                f"has a line of more than {LONGEST_LINE >> 20} MiB; {size >> 20} MiB were unpacked"
            )
        yield line


def _tally_of_line(line: bytes, layout: ItemLayout) -> Tally:
    try:
        return layout.tally_of(json.loads(line)["Item"])
    except (ValueError, RecursionError, LookupError, TypeError):
        return Tally(items=1)
