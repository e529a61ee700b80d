"""Find files of events by the dates in their names, and read many of them at a time.

Stores deliver them to `<name>` or `<account>/<region>/<bucket>/<year>/<month>/<day>/<name>`, by the time of the events
or of the delivery, mostly within hours and some of them days late (facts: S3 server access logs, CloudTrail).
"""

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import IO, Protocol, TypeVar, cast

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import EventsSource
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, folders, list_files, opened, pinned
from lakeaudit.evidence.protocol import (
    Batches,
    Context,
    Events,
    EvidenceGap,
    Part,
    Probed,
    SnapshotWindow,
    SourceInfo,
)
from lakeaudit.evidence.whole_streams import CutOffError, whole
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.duck import Connection
from lakeaudit.runtime.threads import beside
from lakeaudit.schemas import plain_time

SLACK = timedelta(days=1)
"""A name may have the day of its events, without the hour."""
LATE = timedelta(days=10)
"""The latest delivery of a file that counts; it matters only for audits of the past."""
DEEPEST = 8
PART_BYTES, PART_FILES = 32 << 20, 500
PACKED = 12
"""The usual ratio of unpacked to compressed bytes."""
BLOCK = 8 << 20
FEW = 3
"""The most blocks of a file that are kept while other files are read."""
LONGEST = 16 << 20
"""The most bytes of a line."""
T = TypeVar("T")
AT_ONCE = 8


@dataclass(frozen=True)
class EventFile:
    """A file, and the time in its name, else the time when it was written."""

    file: File
    at: datetime


@dataclass(frozen=True)
class EventWindow:
    """The files of a window, and the number of other files between them whose names are not those of events."""

    files: tuple[EventFile, ...]
    strangers: int = 0

    @property
    def identity(self) -> str:
        """The identity of the files."""
        return pinned((each.file for each in self.files), "files")

    def since(self, since: datetime) -> tuple[EventFile, ...]:
        """Return the files that may hold events since a time."""
        return tuple(each for each in self.files if each.at >= since - SLACK)


def find(
    clients: Clients, location: Location, name: re.Pattern[str], since: datetime, until: datetime | None
) -> EventWindow:
    """Return the files below a folder whose names match and have a time in the window; `until` None: up to now.

    `name` has the groups year, month, day, hour and minute; without groups the time is that of the file.
    """
    files, strangers = [], 0
    last = datetime.max.replace(tzinfo=UTC) if until is None else until + LATE
    for file in _candidates(clients, location, since, last):
        found = name.search(file.name)
        at = file.modified_at if found and not name.groupindex else _time_of(found)
        if at is None:
            strangers += file.size > 0
        elif since - SLACK <= at <= last:
            files.append(EventFile(file, at))
    return EventWindow(tuple(sorted(files, key=lambda each: each.file.place)), strangers)


def _time_of(found: re.Match[str] | None) -> datetime | None:
    if found is None:
        return None
    try:
        year, month, day, hour, minute = (int(found[part]) for part in _PARTS)
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return None


_PARTS = ("year", "month", "day", "hour", "minute")


def _candidates(
    clients: Clients, location: Location, since: datetime, until: datetime, depth: int = 0
) -> Iterator[File]:
    """Yield files below a folder; folders by date are listed for the window only, dated names from its start on."""
    first = next(list_files(clients, location), None)
    if first is None or _DATED.match(first.place.key.removeprefix(location.prefix)):
        yield from list_files(clients, location, start_after=f"{since - SLACK:%Y-%m-%d}")
        return
    names = folders(clients, location)
    years = [name for name in names if re.fullmatch(r"20\d\d", name)]
    yield from list_files(clients, location, flat=True)
    if years:
        for day in _days(since - SLACK, until):
            if day[:4] in years:
                yield from list_files(clients, location.join(*day.split("/")))
    for name in names:
        inner = location.join(name)
        if name not in years and name not in _OTHERS and depth < DEEPEST and inner != location:
            yield from _candidates(clients, inner, since, until, depth + bool(name))


_OTHERS = ("CloudTrail-Digest", "CloudTrail-Insight", "CloudTrail-NetworkActivity", "CloudTrail-Aggregated")
"""Folders of CloudTrail that do not have data events."""
_DATED = re.compile(r"20\d\d-\d\d-\d\d-[^/]*\Z")
"""A name that begins with its date, directly in the folder: a listing can begin at the start of the window."""


def _days(since: datetime, until: datetime) -> Iterator[str]:
    """Yield the folders of the days of a window, of ten years at most."""
    day, last = since.date(), min(until, since + timedelta(days=3660)).date()
    while day <= last:
        yield f"{day:%Y/%m/%d}"
        day += timedelta(days=1)


Window = tuple[datetime, datetime]
"""The first and the last time, in UTC without a zone."""


class Read(Protocol):
    """Reads files in a task: rows of kind `requests` of a window (only changes unless `reads`), and notes."""

    def __call__(self, con: Connection, *, files: Sequence[File], window: Window, reads: bool) -> Batches: ...


def events_of(
    source: EventsSource, ctx: Context, source_id: str, name: re.Pattern[str], read: Read
) -> Events:
    """Return the events in dated files; a folder without such files is an evidence gap."""

    def parts(wanted: datetime, reads: bool) -> tuple[Part, ...]:
        begin = max(since, wanted)
        window = plain_time(begin), plain_time(ctx.as_of)
        return tuple(
            Part(
                source_id, partial(read, files=group, window=window, reads=reads), sum(map(weight_of, group))
            )
            for group in grouped(found.since(begin))
        )

    since = ctx.as_of - source.window
    found = find(ctx.clients, source.location, name, since, ctx.as_of)
    place = source.location.uri
    nothing = f"has no file of {source.kind} from {since:%Y-%m-%dT%H:%MZ} or later"
    strange = (
        f"{place}: {found.strangers} objects are not named as those of {source.kind} are, and left alone"
    )
    return Events(
        SourceInfo(source_id, "events", source.kind, place, found.identity, SnapshotWindow(since, ctx.as_of)),
        since,
        parts,
        () if found.files else (EvidenceGap(source_id, nothing, place),),
        (strange,) if found.strangers else (),
    )


def grouped(files: Sequence[EventFile]) -> Iterator[tuple[File, ...]]:
    """Group files for tasks: many small ones, or a large one."""
    group: list[File] = []
    size = 0
    for each in files:
        if group and (size + weight_of(each.file) > PART_BYTES or len(group) >= PART_FILES):
            yield tuple(group)
            group, size = [], 0
        group.append(each.file)
        size += weight_of(each.file)
    if group:
        yield tuple(group)


def weight_of(file: File) -> int:
    """Return the estimated number of unpacked bytes."""
    return max(file.size, 1) * (PACKED if file.name.endswith(".gz") else 1)


@dataclass(frozen=True)
class Content:
    """Some whole lines of a file; `lacks` is the reason why the rest of the file cannot be read."""

    file: File
    text: str
    lacks: str = ""


def contents(clients: Clients, files: Sequence[File]) -> Iterator[Content]:
    """Yield the lines of files: small files are read whole and in parallel, a large one in blocks."""
    small = [file for file in files if weight_of(file) <= BLOCK]
    with beside(AT_ONCE) as pool:
        read = pool.map(lambda file: _few(blocks(clients, file)), small)
        for file, found in zip(small, read, strict=True):
            yield from blocks(clients, file) if found is None else found
    for file in files:
        if file not in small:
            yield from blocks(clients, file)


def texts_of(clients: Clients, files: Sequence[File]) -> Iterator[tuple[File, Iterator[str]]]:
    """Yield each file with its text in blocks, without regard to lines; small files are read in parallel.

    The text raises SourceError where the file cannot be read further.
    """
    small = [file for file in files if weight_of(file) <= BLOCK]
    with beside(AT_ONCE) as pool:
        read = pool.map(lambda file: _few(_with_error(_texts(clients, file))), small)
        for file, found in zip(small, read, strict=True):
            yield file, _texts(clients, file) if found is None else _again(found)
    yield from ((file, _texts(clients, file)) for file in files if file not in small)


def _few(blocks: Iterator[T]) -> list[T] | None:
    """Return all blocks of a small file; None if its unpacked content is large, so that it is not kept whole."""
    found = list(islice(blocks, FEW + 1))
    return found if len(found) <= FEW else None


def _with_error(texts: Iterator[str]) -> Iterator[str | SourceError]:
    """Yield the texts, and at their end the error that they raise."""
    try:
        yield from texts
    except SourceError as error:
        yield error


def _again(found: Sequence[str | SourceError]) -> Iterator[str]:
    for each in found:
        if isinstance(each, SourceError):
            raise each
        yield each


def _texts(clients: Clients, file: File) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("backslashreplace")
    for read in _reads(clients, file):
        if isinstance(read, str):
            raise SourceError(file.place.uri, read, "repair or remove the damaged file")
        yield decoder.decode(read)
    yield decoder.decode(b"", final=True)


def blocks(clients: Clients, file: File) -> Iterator[Content]:
    """Yield the lines of a file in blocks; the last block has the failure, if there is one."""
    rest, lacks = b"", ""
    for read in _reads(clients, file):
        if isinstance(read, str):
            lacks = read
            break
        whole, _, tail = (rest + read).rpartition(b"\n")
        if whole:
            yield Content(file, _text(whole))
        rest = tail
        if len(rest) > LONGEST:
            rest, lacks = b"", f"has a line of more than {LONGEST >> 20} MiB"
            break
    yield Content(file, _text(rest), lacks)


def _reads(clients: Clients, file: File) -> Iterator[bytes | str]:
    """Yield the unpacked bytes of a file in blocks, and at the end the message of a failure, if there is one."""
    size = 0
    try:
        with closing(whole(opened(clients, file.place), file.size)) as stream:
            plain = cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if file.name.endswith(".gz") else stream
            while block := plain.read(BLOCK):
                size += len(block)
                yield block
    except (ClientError, BotoCoreError) as error:
        yield explain(error).what
    except FileNotFoundError:
        yield "does not exist any more"
    except CutOffError as error:
        yield f"is cut off: {error}"
    except (OSError, EOFError, zlib.error) as error:
        yield f"is damaged or cannot be read ({type(error).__name__})"
    else:
        if not size and not file.name.endswith(_MAY_BE_EMPTY):
            yield "is empty"


_MAY_BE_EMPTY = (".json", ".jsonl")
"""The endings of exports without rows; a log or a compressed file that was delivered has content."""


def _text(content: bytes) -> str:
    """Decode bytes; invalid UTF-8, which occurs in fields that a client has written, is escaped."""
    return content.decode("utf-8", "backslashreplace").removeprefix("\ufeff")


def probe(source: EventsSource, clients: Clients, now: datetime, name: re.Pattern[str]) -> Probed:
    """Check that the folder can be listed and its newest file of the window be read; see `registry.EventsKind`."""
    found = find(clients, source.location, name, now - source.window, now)
    if not found.files:
        raise SourceError(
            source.location.uri,
            f"holds no {source.kind} of the window",
            "check the location, or wait for the first",
        )
    newest = max(found.files, key=lambda each: each.at)
    for content in blocks(clients, newest.file):
        if content.lacks:
            raise SourceError(newest.file.place.uri, content.lacks, "grant s3:GetObject and kms:Decrypt")
    strangers = (f"{found.strangers} objects are named otherwise and left alone",) if found.strangers else ()
    return Probed(
        f"{len(found.files)} files of the window, the newest of {newest.at:%Y-%m-%dT%H:%MZ}", strangers
    )
