"""Fetch lines of commits and JSON checkpoints by exact key: many small files at a time, large ones in blocks.

A file that cannot be read yields a problem that says why, never a silent gap.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.files import opened
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain, is_missing

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VANISHED = "it was removed after the log was listed"
UNREAD = "it cannot be read: "
NOT_UTF8 = "a line of it is not UTF-8"
SHORT = "fewer bytes of it can be read than storage records"
LONGEST = 32 << 20
"""Most bytes of a line; a longer action takes more memory than a task has."""
TOO_LONG = f"a line of it has more than {LONGEST >> 20} MiB"
_THREADS = 16
_SMALL = 1 << 20
_BLOCK = 8 << 20
LINE = pa.schema([("file", pa.int64()), ("line", pa.string())])


def moment_of(epoch_ms: int | None) -> datetime | None:
    """Return the time; None outside the years 1 to 9999, which no clock shows."""
    try:
        return None if epoch_ms is None else EPOCH + timedelta(milliseconds=epoch_ms)
    except OverflowError:
        return None


def commit_moment(epoch_ms: int | None, written_at: datetime) -> datetime | None:
    """Return the time that a commit carries, at most the one that storage records for its file; None if it has none.

    A writer's clock that is ahead must not make its commits too young to be judged.
    """
    carried = moment_of(epoch_ms)
    return None if carried is None else min(carried, written_at)


@dataclass(frozen=True)
class LineFile:
    """Names a file to read; its size decides whether it is read whole."""

    number: int
    place: Location
    size: int

    @property
    def in_blocks(self) -> bool:
        """Return whether its lines come in several blocks."""
        return self.size > _SMALL


@dataclass
class Lines:
    """Holds lines of some files (`rows`: file, line), and times and problems by the file's number.

    `in_commit_ms` is the time in epoch ms that a commit carries in its first line.
    """

    rows: pa.Table
    in_commit_ms: dict[int, int] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Body:
    """Holds whole lines of one file; `first` if they begin the file."""

    number: int
    content: bytes
    first: bool = True
    problem: str | None = None


def read_lines(files: Sequence[LineFile], clients: Clients) -> Iterator[Lines]:
    """Yield the lines of all these files, a few MiB at a time; lines of one file come in their order."""
    held: list[_Body] = []
    stamps: dict[int, int] = {}
    for body in _bodies(files, clients):
        held.append(body)
        if sum(len(each.content) for each in held) >= _BLOCK:
            yield _lines(held, stamps)
            held = []
    yield _lines(held, stamps)


def in_commit_time(first_line: str) -> int | None:
    """Return the inCommitTimestamp in epoch ms: with that feature, the first line of a commit is the commitInfo."""
    if '"inCommitTimestamp"' not in first_line:
        return None
    try:
        return int(json.loads(first_line)["commitInfo"]["inCommitTimestamp"])
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None


def _bodies(files: Sequence[LineFile], clients: Clients) -> Iterator[_Body]:
    small = [file for file in files if not file.in_blocks]
    for place in {file.place.bucket: file.place for file in files if file.place.is_in_s3}.values():
        clients.s3(*place)  # built once, before the threads use it
    with ThreadPoolExecutor(_THREADS) as pool:
        for start in range(0, len(small), _THREADS):
            for found in pool.map(lambda file: list(_blocks(file, clients)), small[start : start + _THREADS]):
                yield from found
    for file in files:
        if file.in_blocks:
            yield from _blocks(file, clients)


def _blocks(file: LineFile, clients: Clients) -> Iterator[_Body]:
    try:
        with closing(opened(clients, file.place, small=not file.in_blocks, size=file.size)) as stream:
            yield from _whole_lines(file, stream)
    except FileNotFoundError:
        yield _Body(file.number, b"", False, VANISHED)
    except OSError as error:
        yield _Body(file.number, b"", False, UNREAD + (error.strerror or type(error).__name__).lower())
    except (ClientError, BotoCoreError) as error:
        gone = isinstance(error, ClientError) and is_missing(error)
        yield _Body(file.number, b"", False, VANISHED if gone else UNREAD + explain(error).what)


def _whole_lines(file: LineFile, stream: IO[bytes], longest: int = LONGEST) -> Iterator[_Body]:
    """Yield the lines of a file, block by block; a line that is too long is left out."""
    rest: list[bytes] = []
    numbers = count()
    size = held = 0
    while block := stream.read(_BLOCK):
        size += len(block)
        head, newline, tail = block.rpartition(b"\n")
        if newline and held > longest:
            head = head.partition(b"\n")[2]
            rest = []
        if newline:
            yield _Body(file.number, b"".join([*rest, head]), next(numbers) == 0)
            rest, held = [], 0
        held += len(tail)
        if held > longest:
            rest = []
            yield _Body(file.number, b"", next(numbers) == 0, TOO_LONG)
        else:
            rest.append(tail)
    problem = SHORT if size < file.size else None
    yield _Body(file.number, b"".join(rest), next(numbers) == 0, problem)


def _lines(bodies: Sequence[_Body], stamps: dict[int, int]) -> Lines:
    """Build the lines of these blocks; `stamps` carries the time of a commit from its first block to the later ones."""
    problems = [(body.number, body.problem) for body in bodies if body.problem]
    texts: list[bytes] = []
    for body in bodies:
        texts.append(_utf8(body, problems))
        if body.first:
            stamp = in_commit_time(body.content.partition(b"\n")[0].decode("utf-8", "replace"))
            stamps |= {} if stamp is None else {body.number: stamp}
    split = pc.split_pattern(pa.array(texts, pa.binary()).cast(pa.string()), "\n")
    numbers = pa.array([body.number for body in bodies], pa.int64()).take(pc.list_parent_indices(split))
    rows = pa.Table.from_arrays([numbers, pc.list_flatten(split)], schema=LINE)
    return Lines(
        rows, {body.number: stamps[body.number] for body in bodies if body.number in stamps}, problems
    )


def _utf8(body: _Body, problems: list[tuple[int, str]]) -> bytes:
    """Return the content without the lines that are not UTF-8, which are a problem of the file."""
    try:
        body.content.decode()
    except UnicodeDecodeError:
        problems.append((body.number, NOT_UTF8))
        return b"\n".join(line for line in body.content.split(b"\n") if _is_utf8(line))
    return body.content


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
