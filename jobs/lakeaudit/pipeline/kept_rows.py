"""Rows of immutable parts, kept beside the results, so that they are decoded once and not in every reading.

A report's data file, or an export's, is gzipped CSV or JSON, and to decode it is most of an audit. What a part says of
itself (`Part.identity`: the content's own checksum, and all that its rows are made with) names the file that keeps its
rows: the second reading of the same audit takes it, and so does the next audit of the same report. Nothing but the rows
is kept, nothing of what was judged. A file that is missing, torn or of another format is as good as none: the part is
read. It may be deleted at any time, and what an audit does not use, it deletes.

FILE: records of a head (_HEAD), a kind and a payload. The first has format, code and identity, the next ones a batch of
rows of that kind in Arrow's stream format, and the last one nothing: a file that ends without it is torn. A record is
looked into only when its checksum holds.
"""

import io
import struct
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO
from uuid import uuid4

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.digests import digest
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import fetched, list_files
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.keys import Location
from lakeaudit.pipeline.chunks import drained
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import Connection
from lakeaudit.runtime.scratch import scratch_root

FOLDER = ".kept"
FORMAT = "1"
"""Counts up with every change of what this module writes."""
WORTH = 1 << 20
"""Bytes of a part, as stored, from which on its rows are kept."""
_HEAD = struct.Struct("<IIQ")
"""CRC of all that follows it in the record, bytes of the kind, bytes of the payload."""
_LENGTHS = struct.Struct("<IQ")
_FIRST, _LAST = "identity", "end"
_PACKED = pa.ipc.IpcWriteOptions(compression="zstd")
Record = tuple[str, pa.Buffer]
"""A kind of rows, and a batch of them."""
_FAILED = (OSError, SourceError, ClientError, BotoCoreError)


@dataclass(frozen=True)
class KeptRows:
    """The kept rows of one lake, below `folder`: plain data that travels to the tasks."""

    folder: Location
    clients: Clients
    code: str
    """What is kept by other code is not taken, see `code_of_readers`."""

    def rows(self, con: Connection, part: Part) -> Batches:
        """A part's rows, as kept where they are, else as the part reads them."""
        if not _is_worth(part) or not (yield from self._kept(part)):
            yield from part.read(con)

    def rows_to_keep(self, con: Connection, part: Part) -> Batches:
        """The same; rows that were not kept are, if the part was read without a fault."""
        if not _is_worth(part):
            yield from part.read(con)
        elif not (yield from self._kept(part)):
            with self._writing(part) as out:
                for kind, batch in drained(part.read(con), con):
                    out.add(kind, batch)
                    yield kind, batch
                out.close()

    def prepare(self, parts: Sequence[Part]) -> None:
        """On the driver, before parts are read: the folder, without the files of parts that are not among these."""
        wanted = {self._place(part) for part in parts if _is_worth(part)}
        with suppress(*_FAILED):
            if self.folder.is_local and wanted:
                Path(self.folder.spark_path).mkdir(parents=True, exist_ok=True)
            for file in list_files(self.clients, self.folder):
                if file.place not in wanted:
                    self._remove(file.place)

    def _place(self, part: Part) -> Location:
        return self.folder.join(digest(self._named(part)))

    def _named(self, part: Part) -> str:
        return "\n".join((FORMAT, self.code, part.identity))

    def _remove(self, place: Location) -> None:
        if place.is_local:
            Path(place.spark_path).unlink(missing_ok=True)
        else:
            self.clients.s3(place.bucket, place.key).delete_object(Bucket=place.bucket, Key=place.key)

    def _kept(self, part: Part) -> Generator[tuple[str, pa.RecordBatch], None, bool]:
        """Whether rows are kept (returned), after the rows."""
        with self._opened(part) as records:
            for kind, payload in records or ():
                with pa.ipc.open_stream(payload) as rows:
                    yield from ((kind, batch) for batch in rows)
            return records is not None

    @contextmanager
    def _opened(self, part: Part) -> Iterator[Sequence[Record] | None]:
        """What is kept of a part, None where nothing is. It is checked whole before it is given."""
        with ExitStack() as held:
            records = None
            with suppress(*_FAILED):
                path = held.enter_context(fetched(self.clients, self._place(part)))
                if path is not None:
                    source = held.enter_context(pa.memory_map(str(path)))
                    records = _sound(source.read_buffer(), self._named(part))
            yield records

    @contextmanager
    def _writing(self, part: Part) -> "Iterator[_Writer]":
        """What keeps the rows of a part; where they cannot be kept they are not, and nothing else comes of it."""
        place = self._place(part)
        with TemporaryDirectory(prefix="lakeaudit-", dir=scratch_root()) as scratch:
            at = Path(scratch, "rows")
            if place.is_local:  # no folder: another machine's disk, where the driver made none
                at = Path(place.spark_path).with_name(f"{uuid4().hex}.new")
            out = _Writer(at, self._named(part))
            try:
                yield out
                if out.is_whole:
                    self._put(at, place)
            finally:
                out.discard()

    def _put(self, path: Path, place: Location) -> None:
        with suppress(*_FAILED):
            if place.is_local:
                path.replace(place.spark_path)
            else:
                with path.open("rb") as content:
                    s3 = self.clients.s3(place.bucket, place.key)
                    s3.put_object(Bucket=place.bucket, Key=place.key, Body=content)


class _Writer:
    """A file of rows while it is written. What fails on the way makes it worth nothing, and is told to nobody."""

    def __init__(self, path: Path, named: str) -> None:
        self.is_whole = False
        self._path = path
        self._file: IO[bytes] | None = None
        with suppress(OSError):
            self._file = path.open("wb")
        self._write(_FIRST, named.encode())

    def add(self, kind: str, batch: pa.RecordBatch) -> None:
        if kind == "notes" and batch.column("reason").null_count < batch.num_rows:
            self.discard()  # what was at fault may be mended without another content
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


def kept_rows(results: Location, lake: str, clients: Clients) -> KeptRows:
    """The kept rows of a lake beside its results."""
    return KeptRows(results.join(FOLDER, digest(lake)), clients, code_of_readers())


@cache
def code_of_readers() -> str:
    """A digest of all code that rows are made by: another version of it may make others of the same content."""
    package = files("lakeaudit")
    own = [text for name in _CODE for text in _texts(package.joinpath(name))]
    return digest(*own, *(version(library) for library in ("duckdb", "pyarrow")))


_CODE = ("evidence", "keys.py", "schemas", "runtime/duck.py")


def _texts(code: Traversable) -> Iterator[str]:
    if code.is_file() and code.name.endswith(".py"):
        yield code.read_text(encoding="utf-8")
    elif code.is_dir():
        for each in sorted(code.iterdir(), key=lambda one: one.name):
            yield from _texts(each)


def _is_worth(part: Part) -> bool:
    return part.identity != "" and part.weight >= WORTH


def _sound(content: pa.Buffer, named: str) -> list[Record] | None:
    """The records of rows of a file that is whole and has the rows of this part; None: it is not, or has others."""
    records: list[Record] = []
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


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema, options=_PACKED) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
