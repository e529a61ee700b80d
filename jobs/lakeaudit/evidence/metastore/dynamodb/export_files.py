"""The data files of a DynamoDB export, in tasks: MD5, gzip and number of items are checked, lines become items."""

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
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain
from lakeaudit.runtime.duck import Connection, Relation

CHUNK = 1 << 20
HEAD_LINES = 1000
LONGEST_LINE = 16 << 20
"""Bytes of an item's line: an item has 400 KB at most, and DuckDB takes no longer line either."""

_BROKEN_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)
NO_GZIP = "is no whole gzip file"
_OTHER_MD5 = "its MD5 is not the one in the manifest"


class TooLongError(Exception):
    """A line that is longer than any item; in words."""


@dataclass(frozen=True)
class DataFile:
    """One data file: where it lies, how many items and which MD5 its manifest promises, and its bytes as stored."""

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
    """What is wrong with a data file (None: nothing), and the tally of its items where they were read."""

    fault: str | None
    tally: Tally = field(default_factory=Tally)


def same_md5(digest: bytes, written: str) -> bool:
    """Whether a digest is the one written in base64 or hex."""
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
    """Whether the bytes as stored have the manifest's MD5; nothing is unpacked."""
    try:
        with closing(opened(clients, file.place)) as raw:
            hashing = _Hashing(raw)
            _drain(io.BufferedReader(hashing, CHUNK))
    except (ClientError, BotoCoreError, OSError) as error:
        return Checked(f"cannot be read: {explain(error)[0]}")
    return Checked(None if same_md5(hashing.md5.digest(), file.md5) else _OTHER_MD5)


def check_whole(file: DataFile, clients: Clients, layout: ItemLayout) -> Checked:
    """The same, and whether the file can be unpacked and holds as many items as the manifest says."""
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
    """The tally of the first lines of a file; of nothing where it cannot be read, which is judged elsewhere."""
    tally = Tally()
    try:
        with closing(opened(clients, file.place)) as raw:
            stored = io.BufferedReader(_Hashing(raw), CHUNK)
            _tally_lines(_unpacked(stored, zipped=file.zipped), tally, layout, HEAD_LINES)
    except (ClientError, BotoCoreError, OSError, TooLongError, *_BROKEN_GZIP):
        pass
    return tally


def export_items(con: Connection, path: Path, items: pa.Schema, *, zipped: bool) -> Relation:
    """Every line of a local file as an item of a schema; a line that is none lacks every attribute. Lazy.

    Without `records`, DuckDB takes one line that is no object for a sign that no line near it is one.
    """
    line = f"{{Item: '{duck.type_of(pa.struct(list(items)))}'}}"
    options = f"format='newline_delimited', records=true, ignore_errors=true, columns={line}"
    packed = f"compression={duck.literal('gzip' if zipped else 'none')}"
    return duck.query(con, f"SELECT Item.* FROM read_json({duck.literal(path)}, {options}, {packed})")


def count_fault(file: DataFile, tally: Tally) -> str | None:
    """What is wrong where a file holds another number of items than its manifest says."""
    same = tally.items == file.items
    return None if same else f"holds {tally.items} items, the manifest says {file.items}"


def is_torn(path: Path, file: DataFile) -> bool:
    """Whether a file that is to be gzip cannot be unpacked to its end."""
    try:
        with path.open("rb") as raw:
            _drain(_unpacked(raw, zipped=file.zipped))
    except _BROKEN_GZIP:
        return True
    return False


class _Hashing(io.RawIOBase):
    """Passes bytes on and keeps their MD5."""

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
    """The tally of all lines (None: broken gzip); in any case the bytes as stored are read to their end."""
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
    """Lines; one that is longer than any item ends the reading.

    Raises:
        TooLongError: it is.
    """
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
