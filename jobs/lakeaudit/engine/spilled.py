"""Runs stages on more rows than memory has room for: in this process, with a file of the scratch folder.

Rows are routed to shares, as for tasks of Spark, and wait in the file. Then a thread takes one share after the other.
The threads are few, and each holds the rows of one share, so memory does not grow with the lake.
"""

import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any, Generic, TypeVar

import pyarrow as pa

from lakeaudit.engine.chunks import (
    FAULTS,
    WHOLE,
    Chunk,
    Reading,
    kind_of_answer,
    read_guarded,
    read_kept,
    rows_by_kind,
    run_stage,
    shares_of,
)
from lakeaudit.engine.encoded_chunks import decoded, gather
from lakeaudit.engine.local import Answers, LocalBufferedRows, heaviest_first, require_sound
from lakeaudit.evidence.protocol import BufferedRows, Part, Project, Stage
from lakeaudit.runtime.duck import task_connection
from lakeaudit.runtime.failures import room_for_scratch
from lakeaudit.runtime.progress import Work
from lakeaudit.runtime.scratch import scratch_root

T = TypeVar("T")

ANSWERS = -1
"""The share of answers."""


class ChunkFile:
    """Chunks in one temporary file, which the system removes with the process. Several threads may use it."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(dir=scratch_root())  # noqa: SIM115 - `close` closes it
        self._end = 0
        self._lock = Lock()
        self._chunks: dict[int, list[_Place]] = defaultdict(list)

    def add(self, encoded: pa.RecordBatch) -> None:
        """Write chunks (rows of `encoded_chunks.CHUNK`), answers included."""
        with room_for_scratch():
            for row in encoded.to_pylist():
                self._write(row["share"], row["kind"], row["rows"], row["payload"])

    def places(self, shares: Iterable[int]) -> list["_Place"]:
        """Return where the chunks of some shares are."""
        return [place for share in shares for place in self._chunks.get(share, ())]

    @property
    def all_places(self) -> list["_Place"]:
        """Return where all chunks are, answers included."""
        return self.places([ANSWERS, *self.shares])

    @property
    def shares(self) -> list[int]:
        """Return the shares that have rows."""
        return sorted(share for share in self._chunks if share != ANSWERS)

    def chunks(self, places: Iterable["_Place"]) -> Iterator[Chunk]:
        """Read chunks."""
        for place in places:
            payload = os.pread(self._file.fileno(), place.size, place.start)
            yield from (Chunk(place.share, place.kind, batch) for batch in decoded(payload))

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def _write(self, share: int, kind: str, rows: int, payload: bytes) -> None:
        with self._lock:
            start, self._end = self._end, self._end + len(payload)
            self._chunks[share].append(_Place(share, kind, rows, start, len(payload)))
        written = 0
        while written < len(payload):
            written += os.pwrite(self._file.fileno(), payload[written:], start + written)


@dataclass(frozen=True, slots=True)
class _Place:
    share: int
    kind: str
    rows: int
    start: int
    size: int


@dataclass(frozen=True)
class SpilledRows:
    """Rows that were read before, in a file."""

    file: ChunkFile
    notes: Sequence[Mapping[str, Any]]
    counts: Mapping[str, int]

    @property
    def size(self) -> int:
        """Return the bytes of the rows in the file."""
        return sum(place.size for place in self.file.places(self.file.shares))

    def batches(self, kind: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one kind."""
        places = [place for place in self.file.all_places if place.kind == kind]
        yield from (chunk.batch for chunk in self.file.chunks(places))


class SpillingEngine:
    """Reads parts and runs stages like `local.InProcessEngine`, for any number of rows."""

    def __init__(self, parallelism: int) -> None:
        self._parallelism = parallelism
        self._files: list[ChunkFile] = []
        self._work = _IDLE

    def keep(self, parts: Sequence[Part]) -> SpilledRows:
        """See `evidence.protocol.Engine`."""
        return _buffered(self._read(parts, 1, WHOLE))

    def meet(self, rows: Sequence[Part | BufferedRows], project: Project, stage: Stage) -> BufferedRows:
        """See `evidence.protocol.Engine`."""
        reading = Reading(project)
        shares = self._shares_of(rows, reading)
        read = self._read(rows, shares, reading)
        return _buffered(self._staged(stage, read, shares))

    def run(self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading) -> Answers:
        """See `local.AuditEngine`."""
        shares = self._shares_of(rows, reading)
        file = self._read(rows, shares, reading)
        for stage in stages:
            yield from _answers_in(file)
            file = self._staged(stage, file, shares)
        yield from _answers_in(file)
        self._drop(file)

    def work(self) -> Work | None:
        """Return how many of the parts, or of the shares, are done."""
        return self._work if self._work.total else None

    def close(self) -> None:
        """Remove the files of buffered rows."""
        while self._files:
            self._files.pop().close()

    def _shares_of(self, rows: Sequence[Part | BufferedRows], reading: Reading) -> int:
        weight = sum(each.weight for each in rows if isinstance(each, Part))
        weight += sum(each.size for each in rows if isinstance(each, SpilledRows))
        return shares_of(weight, reading, self._parallelism)

    def _read(self, rows: Sequence[Part | BufferedRows], shares: int, reading: Reading) -> ChunkFile:
        """Read parts and buffered rows into a file."""
        parts = heaviest_first([each for each in rows if isinstance(each, Part)])
        again = [chunks for each in rows for chunks in _pieces(each)]
        sources = [_of_part(part, shares, reading) for part in parts]
        sources += [_of_chunks(chunks, shares, reading) for chunks in again]
        return self._into_file(sources, shares, "parts")

    def _staged(self, stage: Stage, file: ChunkFile, shares: int) -> ChunkFile:
        """Run a stage on each share; the file that has its rows is removed."""
        sources = [_of_stage(stage, file, share, shares) for share in file.shares]
        staged = self._into_file(sources, shares, "shares")
        self._drop(file)
        return staged

    def _into_file(self, sources: Sequence["_Source"], shares: int, unit: str) -> ChunkFile:
        """Write the chunks of all sources to a new file, a source per thread at a time."""
        file = ChunkFile()
        self._files.append(file)
        self._work = Work(0, len(sources), unit)
        shared = _Shared(sources)

        def fill() -> None:
            chunks = chain.from_iterable(map(self._with_progress, shared))
            for encoded in gather(chunks, shares, answers=ANSWERS):
                file.add(encoded)

        with ThreadPoolExecutor(self._parallelism) as pool:
            filling = [pool.submit(fill) for _ in range(self._parallelism)]
            try:
                for each in filling:
                    each.result()
            finally:
                shared.end()
        self._work = _IDLE
        return file

    def _with_progress(self, source: "_Source") -> Iterator[Chunk]:
        yield from source()
        self._work = Work(self._work.done + 1, self._work.total, self._work.unit)

    def _drop(self, file: ChunkFile) -> None:
        self._files.remove(file)
        file.close()


_IDLE = Work(0, 0, "parts")
_Source = Callable[[], Iterator[Chunk]]


class _Shared(Generic[T]):
    """Items of which each thread takes the next one; after `end` there are no more."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self._lock = Lock()

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._lock:
                item = next(self._items, None)
            if item is None:
                return
            yield item

    def end(self) -> None:
        """Leave the other items out: a thread failed, or the command was interrupted."""
        with self._lock:
            self._items = iter(())


def _of_part(part: Part, shares: int, reading: Reading) -> _Source:
    return lambda: read_guarded(part, shares, reading)


def _of_chunks(chunks: Callable[[], Iterator[Chunk]], shares: int, reading: Reading) -> _Source:
    def read() -> Iterator[Chunk]:
        with task_connection() as con:
            for chunk in chunks():
                yield from read_kept(con, chunk, shares, reading)

    return read


def _of_stage(stage: Stage, file: ChunkFile, share: int, shares: int) -> _Source:
    def run() -> Iterator[Chunk]:
        tables = rows_by_kind(file.chunks(file.places([share])))
        with task_connection() as con:
            yield from run_stage(con, stage, tables, shares)

    return run


def _pieces(rows: Part | BufferedRows) -> list[Callable[[], Iterator[Chunk]]]:
    """Return the chunks of buffered rows, in pieces that several threads can take; nothing for a part."""
    if isinstance(rows, LocalBufferedRows):
        return [lambda: iter(rows.chunks)]
    if not isinstance(rows, SpilledRows):
        return []
    places = [place for place in rows.file.all_places if place.kind != "notes"]
    pieces = [places[first : first + PLACES] for first in range(0, len(places), PLACES)]
    return [partial(rows.file.chunks, piece) for piece in pieces]


PLACES = 16
"""Chunks in a piece of buffered rows."""


def _answers_in(file: ChunkFile) -> Answers:
    for chunk in file.chunks(file.places([ANSWERS])):
        yield kind_of_answer(chunk.kind), chunk.batch


def _buffered(file: ChunkFile) -> SpilledRows:
    places = file.all_places
    require_sound(_rows(file, places, FAULTS))
    counts: Counter[str] = Counter()
    for place in places:
        counts[place.kind] += place.rows
    del counts["notes"]
    return SpilledRows(file, list(_rows(file, places, "notes")), counts)


def _rows(file: ChunkFile, places: Iterable[_Place], kind: str) -> Iterator[Mapping[str, Any]]:
    for chunk in file.chunks(place for place in places if place.kind == kind):
        yield from chunk.batch.to_pylist()
