"""Caches rows in files next to the results of an audit; an incomplete file counts as absent.

A file is a list of records: a head (_HEAD), a kind and a payload. The first record has the file's identity, the next
ones a batch of rows of that kind in Arrow's stream format. The last one is empty: a file without it is incomplete.
A record is decoded only if its checksum is correct.
"""

import io
import struct
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO
from uuid import uuid4

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import fetched, list_files, remove_file
from lakeaudit.keys import Location, digest
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.scratch import scratch_root

FORMAT = "1"
"""Version of the file format; increment it with every change."""
_HEAD = struct.Struct("<IIQ")
"""CRC of the rest of the record, length of the kind, length of the payload."""
_LENGTHS = struct.Struct("<IQ")
_FIRST, _LAST = "identity", "end"
_PACKED = pa.ipc.IpcWriteOptions(compression="zstd")
Record = tuple[str, pa.RecordBatch]
"""A kind of rows, and a batch of them."""
FAILED = (OSError, SourceError, ClientError, BotoCoreError)


@dataclass(frozen=True)
class CachedFiles:
    """The cached files of one folder, each named by the identity of its rows: plain data that travels to the tasks."""

    folder: Location
    clients: Clients

    def place(self, named: str) -> Location:
        """Return the place of the file with this name."""
        return self.folder.join(digest(_formatted(named)))

    def tidy(self, wanted: Collection[str]) -> None:
        """Create the folder and delete files with other names; called on the driver before files are written."""
        places = {self.place(named) for named in wanted}
        with suppress(*FAILED):
            if self.folder.is_local and places:
                Path(self.folder.spark_path).mkdir(parents=True, exist_ok=True)
            for file in list_files(self.clients, self.folder):
                if file.place not in places:
                    remove_file(self.clients, file.place)

    @contextmanager
    def opened(self, named: str) -> Iterator[Iterator[Record] | None]:
        """Yield the records of a file; None if there is no complete one. All checksums are verified first."""
        with ExitStack() as held:
            found = None
            with suppress(*FAILED):
                path = held.enter_context(fetched(self.clients, self.place(named)))
                if path is not None:
                    source = held.enter_context(pa.memory_map(str(path)))
                    found = _sound(source.read_buffer(), _formatted(named))
            yield None if found is None else _unpacked(found)

    @contextmanager
    def writing(self, named: str) -> "Iterator[Writer]":
        """Yield the writer of a file; errors of the cache are ignored."""
        place = self.place(named)
        with TemporaryDirectory(prefix="lakeaudit-", dir=scratch_root()) as scratch:
            at = Path(scratch, "rows")
            if place.is_local:  # no folder: another machine's disk, where the driver made none
                at = Path(place.spark_path).with_name(f"{uuid4().hex}.new")
            out = Writer(at, _formatted(named))
            try:
                yield out
                if out.is_whole:
                    self._put(at, place)
            finally:
                out.discard()

    def _put(self, path: Path, place: Location) -> None:
        with suppress(*FAILED):
            if place.is_local:
                path.replace(place.spark_path)
            else:
                with path.open("rb") as content:
                    s3 = self.clients.s3(place.bucket, place.key)
                    s3.put_object(Bucket=place.bucket, Key=place.key, Body=content)


class Writer:
    """Writes a file of rows. After an error the file is discarded; errors are not reported."""

    def __init__(self, path: Path, named: str) -> None:
        self.is_whole = False
        self._path = path
        self._file: IO[bytes] | None = None
        with suppress(OSError):
            self._file = path.open("wb")
        self._write(_FIRST, named.encode())

    def add(self, kind: str, batch: pa.RecordBatch) -> None:
        """Add a batch of rows."""
        if self._file is not None:
            self._write(kind, _packed(batch))

    def close(self) -> None:
        """Write the last record, after all rows were added."""
        self._write(_LAST, b"")
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
                self.is_whole = True

    def discard(self) -> None:
        """Delete the file, unless it was moved to its place."""
        if self._file is not None:
            file, self._file = self._file, None
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _write(self, kind: str, payload: bytes) -> None:
        if self._file is None:
            return
        name = kind.encode()
        lengths = _LENGTHS.pack(len(name), len(payload))
        crc = zlib.crc32(payload, zlib.crc32(lengths + name))
        try:
            self._file.write(_HEAD.pack(crc, len(name), len(payload)) + name)
            self._file.write(payload)
        except OSError:
            self.discard()


def code_of(*names: str) -> str:
    """Return a digest of these parts of the package: other code may make other rows of the same content."""
    package = files("lakeaudit")
    own = [text for name in names for text in _texts(package.joinpath(name))]
    return digest(*own, *(version(library) for library in ("duckdb", "pyarrow")))


def _texts(code: Traversable) -> Iterator[str]:
    if code.is_file() and code.name.endswith(".py"):
        yield code.read_text(encoding="utf-8")
    elif code.is_dir():
        for each in sorted(code.iterdir(), key=lambda one: one.name):
            yield from _texts(each)


def _formatted(named: str) -> str:
    return f"{FORMAT}\n{named}"


def _sound(content: pa.Buffer, named: str) -> Sequence[tuple[str, pa.Buffer]] | None:
    """Return the records of a complete file with this identity, or None."""
    records: list[tuple[str, pa.Buffer]] = []
    at = 0
    while at + _HEAD.size <= content.size:
        crc, name, size = _HEAD.unpack(content.slice(at, _HEAD.size))
        begin, end = at + _HEAD.size, at + _HEAD.size + name + size
        if end > content.size or zlib.crc32(content.slice(at + 4, end - at - 4)) != crc:
            return None
        kind = content.slice(begin, name).to_pybytes().decode()
        records.append((kind, content.slice(begin + name, size)))
        at = end
    ends = len(records) > 1 and at == content.size and records[-1][0] == _LAST
    if not ends or (records[0][0], records[0][1].to_pybytes()) != (_FIRST, named.encode()):
        return None
    return records[1:-1]


def _unpacked(records: Sequence[tuple[str, pa.Buffer]]) -> Iterator[Record]:
    for kind, payload in records:
        with pa.ipc.open_stream(payload) as rows:
            yield from ((kind, batch) for batch in rows)


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema, options=_PACKED) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
