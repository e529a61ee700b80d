"""Locate the event logs of Spark applications, and read their lines with any compression.

A log is a file `<application>[_<attempt>][.<codec>][.inprogress]`, or, if logs roll, a folder
`eventlog_v2_<application>[_<attempt>]/` of files `events_<number>_<application>[...][.<codec>][.compact]` and one
`appstatus_...[.inprogress]` (Spark's `EventLogFileWriters`). A compacted file lacks jobs that ended before. Databricks
delivers a folder of files `eventlog-<date>--<time>.gz` and the newest one, `eventlog`. A history server reads files of
any other name as well: such a file is a log if an event SparkListenerLogStart begins it.
"""

import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice, pairwise
from typing import IO

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.files import File, list_files, opened, stat
from lakeaudit.evidence.whole_streams import CutOffError, whole
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

_ROLLED = re.compile(r"(?:^|/)eventlog_v2_(?P<log>[^/]+)/(?P<name>[^/]+)$")
_EVENTS = re.compile(
    r"^events_(?P<number>\d+)_.*?(?P<codec>\.(?:zstd|lz4|snappy|lzf))?(?P<compact>\.compact)?$"
)
_SINGLE = re.compile(
    r"(?:^|/)(?P<log>(?:app|application|local|spark)[-_][^/.]*)(?P<codec>\.(?:zstd|lz4|snappy|lzf|gz))?(?P<open>\.inprogress)?$"
)
_DELIVERED = re.compile(r"(?:^|/)(?P<name>eventlog(?:-\d{4}-\d\d-\d\d--\d\d-\d\d)?)(?P<codec>\.gz)?$")
_NAMED = re.compile(r"(?P<log>[^/]+?)(?P<codec>\.(?:zstd|lz4|snappy|lzf|gz))?(?P<open>\.inprogress)?$")
_BEGINS = re.compile(rb'^\s*\{\s*"Event"\s*:\s*"SparkListenerLogStart"')
_FIRST_LINES = 3
"""Number of lines among which the first event of a log is; Databricks writes a line of its own before it."""
MOST_UNNAMED = 10_000
"""Most files of other names that are opened to find logs."""
_THREADS = 16
BLOCK = 1 << 20
LONGEST = 1 << 28
"""Most bytes of a line; a longer one is not an event: a plan may have megabytes."""


class TornError(Exception):
    """A log ends in the middle, as after its driver was killed, or is damaged; the text says which."""


class LostError(TornError):
    """A file of a rolled log before the last one is empty: that happens in no log, open or ended."""


@dataclass(frozen=True)
class LogFile:
    """Names one file of a log."""

    file: File
    codec: str
    compacted: bool = False


@dataclass(frozen=True)
class EventLog:
    """Names the log of one application, or of one attempt of it, in consecutive files.

    `is_open`: its application had not ended when the log was last written. `missing` are the first numbers of the gaps
    between the files of a rolled log, which count from one.
    """

    name: str
    place: Location
    files: tuple[LogFile, ...]
    is_open: bool = False
    missing: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Return the stored bytes."""
        return sum(each.file.size for each in self.files)

    @property
    def written_at(self) -> datetime:
        """Return when the last of its files was written."""
        return max(each.file.modified_at for each in self.files)

    @property
    def is_compacted(self) -> bool:
        """Return whether jobs that ended early are not in it any more."""
        return any(each.compacted for each in self.files)


def find(clients: Clients, location: Location) -> list[EventLog]:
    """Locate all logs below a folder, or the one that it is. Other files, by name or content, are left out."""
    rolled: dict[Location, list[File]] = defaultdict(list)
    delivered: dict[Location, list[File]] = defaultdict(list)
    logs: list[EventLog] = []
    others: list[File] = []
    for file in _files(clients, location):
        if found := _ROLLED.search(file.place.key):
            rolled[Location(file.place.bucket, file.place.key.removesuffix(f"/{found['name']}"))].append(file)
        elif found := _SINGLE.search(file.place.key):
            logs.append(_single(file, found))
        elif found := _DELIVERED.search(file.place.key):
            folder = file.place.key.removesuffix(file.name).rstrip("/")
            delivered[Location(file.place.bucket, folder)].append(file)
        elif file.size:
            others.append(file)
    logs += [_rolled_log(folder, files) for folder, files in rolled.items()]
    logs += [_delivered_log(folder, files) for folder, files in delivered.items()]
    logs += _by_content(clients, others[:MOST_UNNAMED])
    return sorted((log for log in logs if log.files), key=lambda log: log.place.key)


def _files(clients: Clients, location: Location) -> Iterator[File]:
    """Yield every file below the folder that the location is, or the one log that it names.

    The folder is listed first: it may be named like a log, and permission to list it may be the only one.
    """
    listed = False
    for file in list_files(clients, location):
        listed = True
        yield file
    if not listed and location.key:
        single = stat(clients, location)
        yield from [single] if single else []


def _single(file: File, named: re.Match[str]) -> EventLog:
    lines = LogFile(file, _codec(named["codec"]))
    return EventLog(named["log"], file.place, (lines,), is_open=named["open"] is not None)


def _delivered_log(folder: Location, files: Sequence[File]) -> EventLog:
    """Order the files of one application by their times; the file without a time is last, and may still grow."""
    ordered = sorted(files, key=lambda file: (file.name.startswith("eventlog-") is False, file.name))
    logs = tuple(LogFile(file, "gz" if file.name.endswith(".gz") else "plain") for file in ordered)
    return EventLog(folder.key.rpartition("/")[2], folder, logs)


def _by_content(clients: Clients, files: Sequence[File]) -> Iterator[EventLog]:
    with ThreadPoolExecutor(_THREADS) as pool:
        for file, is_log in zip(files, pool.map(partial(_begins_as_log, clients), files), strict=True):
            if is_log and (named := _NAMED.search(file.place.key)):
                yield _single(file, named)


def _begins_as_log(clients: Clients, file: File) -> bool:
    """Return whether the event that begins a log is among its first lines. A file that cannot be opened may be one."""
    named = _NAMED.search(file.place.key)
    try:
        with closing(opened(clients, file.place)) as stream:
            first = islice(split(_CODECS[_codec(named["codec"] if named else None)](stream)), _FIRST_LINES)
            return any(_BEGINS.match(line) for line in first)
    except TornError:
        return False
    except (OSError, ClientError, BotoCoreError):
        return True


def _codec(suffix: str | None) -> str:
    return (suffix or ".plain")[1:]


def _rolled_log(folder: Location, files: Sequence[File]) -> EventLog:
    numbered: dict[int, LogFile] = {}
    for file in files:
        if found := _EVENTS.match(file.name):
            number, compacted = int(found["number"]), found["compact"] is not None
            # a compacted file replaces the files that it was made from, up to its own number
            if compacted or number not in numbered:
                numbered[number] = LogFile(file, _codec(found["codec"]), compacted)
    first = max((number for number, each in numbered.items() if each.compacted), default=1)
    kept = {number: each for number, each in sorted(numbered.items()) if number >= first}
    missing = tuple(after + 1 for after, next_ in pairwise((first - 1, *kept)) if next_ != after + 1)
    is_open = any(re.match(r"appstatus_.*\.inprogress$", file.name) for file in files)
    name = folder.key.rpartition("/")[2].removeprefix("eventlog_v2_")
    return EventLog(name, folder, tuple(kept.values()), is_open, missing)


def lines(clients: Clients, log: EventLog) -> Iterator[bytes]:
    """Yield the lines of a log.

    Raises:
        TornError: after the lines that could be read.
    """
    empty: list[str] = []
    for each in log.files:
        with closing(whole(opened(clients, each.file.place), each.file.size)) as stream, _torn_if_cut_off():
            found = split(_CODECS[each.codec](stream))
            first = next(found, None)
            if first is None:
                empty.append(each.file.name)
            else:
                yield first
                yield from found
    lost = [name for name in empty if name != log.files[-1].file.name]
    if lost:
        raise LostError(f"has a file without events: {lost[0]}")


@contextmanager
def _torn_if_cut_off() -> Iterator[None]:
    try:
        yield
    except CutOffError as error:
        raise LostError(f"is cut off: {error}") from error


def split(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a content in blocks; the text after the last line break is a line, too."""
    rest: list[bytes] = []
    held = 0
    for block in blocks:
        first, *more = block.split(b"\n")
        rest.append(first)
        held += len(first)
        if held > LONGEST:
            raise TornError(f"has a line of more than {LONGEST >> 20} MiB")
        if more:
            yield b"".join(rest)
            yield from more[:-1]
            rest, held = [more[-1]], len(more[-1])
    if held:
        yield b"".join(rest)


def _plain(stream: IO[bytes]) -> Iterator[bytes]:
    while block := stream.read(BLOCK):
        yield block


def _zstd(stream: IO[bytes]) -> Iterator[bytes]:
    """Unpack frames of Zstandard, one after the other."""
    try:
        with pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd") as unpacked:
            while block := unpacked.read(BLOCK):
                yield block
    except OSError as error:
        raise TornError("ends within a block, or is damaged") from error


_LZ4_MAGIC, _LZ4_HEAD = b"LZ4Block", struct.Struct("<8sBii4x")
_LZ4_RAW = 0x10


def _lz4(stream: IO[bytes]) -> Iterator[bytes]:
    """Unpack blocks of lz4-java's LZ4BlockOutputStream: magic, token, packed and unpacked size, checksum."""
    codec = pa.Codec("lz4_raw")
    while head := stream.read(_LZ4_HEAD.size):
        magic, token, packed, size = _LZ4_HEAD.unpack(_whole(head, _LZ4_HEAD.size))
        if magic != _LZ4_MAGIC or not 0 <= packed <= LONGEST or not 0 <= size <= LONGEST:
            raise TornError("has a block that is not LZ4")
        content = _whole(stream.read(packed), packed)
        if size:
            yield content if token & 0xF0 == _LZ4_RAW else _unpack(codec, content, size)


_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEAD = 16


def _snappy(stream: IO[bytes]) -> Iterator[bytes]:
    """Unpack chunks of snappy-java's SnappyOutputStream, each after its length, which follow a head of 16 bytes."""
    codec = pa.Codec("snappy")
    if not _whole(stream.read(_SNAPPY_HEAD), _SNAPPY_HEAD).startswith(_SNAPPY_MAGIC):
        raise TornError("does not begin as a file of snappy-java does")
    while head := stream.read(4):
        if _whole(head, 4) == _SNAPPY_MAGIC[:4]:  # another stream was appended
            _whole(stream.read(_SNAPPY_HEAD - 4), _SNAPPY_HEAD - 4)
            continue
        (packed,) = struct.unpack(">i", head)
        if not 0 <= packed <= LONGEST:
            raise TornError("has a chunk that is not Snappy")
        content = _whole(stream.read(packed), packed)
        yield _unpack(codec, content, _snappy_size(content))


def _snappy_size(chunk: bytes) -> int:
    """Return the length at the beginning of a chunk: seven bits in each byte, the lowest first."""
    size = 0
    for at, octet in enumerate(chunk[:5]):
        size |= (octet & 0x7F) << (7 * at)
        if octet < 0x80:
            return size if size <= LONGEST else 0
    return 0


def _unpack(codec: pa.Codec, content: bytes, size: int) -> bytes:
    try:
        unpacked: bytes = codec.decompress(content, size, asbytes=True)
    except (OSError, pa.ArrowException, ValueError, zlib.error) as error:
        raise TornError("has a damaged block") from error
    return unpacked


def _whole(content: bytes, size: int) -> bytes:
    if len(content) < size:
        raise TornError("ends within a block")
    return content


def _gzip(stream: IO[bytes]) -> Iterator[bytes]:
    """Unpack members of gzip, one after the other."""
    unpacking = zlib.decompressobj(wbits=31)
    try:
        while block := stream.read(BLOCK):
            while block:
                if unpacking.eof:
                    unpacking = zlib.decompressobj(wbits=31)
                yield unpacking.decompress(block, BLOCK)
                block = unpacking.unconsumed_tail or unpacking.unused_data
    except zlib.error as error:
        raise TornError("has a damaged block") from error
    if not unpacking.eof:
        raise TornError("ends within a block")


def _lzf(stream: IO[bytes]) -> Iterator[bytes]:  # noqa: ARG001 - every codec receives one
    raise TornError(
        "is compressed with LZF, which is not understood: set spark.eventLog.compression.codec to zstd"
    )


_CODECS: dict[str, Callable[[IO[bytes]], Iterator[bytes]]] = {
    "plain": _plain,
    "zstd": _zstd,
    "lz4": _lz4,
    "snappy": _snappy,
    "lzf": _lzf,
    "gz": _gzip,
}
