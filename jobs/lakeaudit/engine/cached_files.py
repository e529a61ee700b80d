"""Files of rows that an audit keeps beside its results for later readings; one that is torn is as good as none.

FILE: records of a head (_HEAD), a kind and a payload. The first has what the file is named by, the next ones a batch of
rows of that kind in Arrow's stream format, and the last one nothing: a file that ends without it is torn. A record is
looked into only when its checksum holds.
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
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.scratch import scratch_root

FORMAT = "1"
"""Counts up with every change of what this module writes."""
_HEAD = struct.Struct("<IIQ")
"""CRC of all that follows it in the record, bytes of the kind, bytes of the payload."""
_LENGTHS = struct.Struct("<IQ")
_FIRST, _LAST = "identity", "end"
_PACKED = pa.ipc.IpcWriteOptions(compression="zstd")
Record = tuple[str, pa.RecordBatch]
"""A kind of rows, and a batch of them."""
FAILED = (OSError, SourceError, ClientError, BotoCoreError)


@dataclass(frozen=True)
class CachedFiles:
    """The files of one folder, each named by all that its rows follow from: plain data that travels to the tasks."""

    folder: Location
    clients: Clients

    def place(self, named: str) -> Location:
        """Where the file of this name is."""
        return self.folder.join(digest(_formatted(named)))

    def tidy(self, wanted: Collection[str]) -> None:
        """On the driver, before files are written: the folder, without the files of other names than these."""
        places = {self.place(named) for named in wanted}
        with suppress(*FAILED):
            if self.folder.is_local and places:
                Path(self.folder.spark_path).mkdir(parents=True, exist_ok=True)
            for file in list_files(self.clients, self.folder):
                if file.place not in places:
                    remove_file(self.clients, file.place)

    @contextmanager
    def opened(self, named: str) -> Iterator[Iterator[Record] | None]:
        """What a file has; None where there is none that is whole. It is checked whole before it is given."""
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
        """What writes a file; where it cannot be kept it is not, and nothing else comes of it."""
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
    """A file of rows while it is written. What fails on the way makes it worth nothing, and is told to nobody."""

    def __init__(self, path: Path, named: str) -> None:
        self.is_whole = False
        self._path = path
        self._file: IO[bytes] | None = None
        with suppress(OSError):
            self._file = path.open("wb")
        self._write(_FIRST, named.encode())

    def add(self, kind: str, batch: pa.RecordBatch) -> None:
        """A batch of rows."""
        if self._file is not None:
            self._write(kind, _packed(batch))

    def close(self) -> None:
        """All rows were added."""
        self._write(_LAST, b"")
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
                self.is_whole = True

    def discard(self) -> None:
        """Leave nothing behind, unless the file has been put where it belongs."""
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
    """A digest of these parts of the package: other code may make other rows of the same content."""
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
    """The records of rows of a file that is whole and has this name; None: it is not, or has another."""
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
