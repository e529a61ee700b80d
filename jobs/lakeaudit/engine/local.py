"""Defines the engine, and the engine in this process: it reads parts and runs stages on all rows of a share of keys.

An audit is one chain: parts are read, their rows are routed by hash, and each stage gets all rows of its share of the
keys. The engine for a cluster is `engine.spark`; both split rows with `engine.chunks`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

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
)
from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import BufferedRows, Engine, Part, Project, Stage
from lakeaudit.runtime.duck import task_connection
from lakeaudit.runtime.progress import Progress, Work

T = TypeVar("T")
R = TypeVar("R")

Answers = Iterator[tuple[str, pa.RecordBatch]]


@dataclass(frozen=True)
class LocalBufferedRows:
    """Rows that were read before, in this process."""

    chunks: Sequence[Chunk]
    notes: Sequence[Mapping[str, Any]]
    counts: Mapping[str, int]

    def batches(self, kind: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one kind."""
        yield from (chunk.batch for chunk in self.chunks if chunk.kind == kind)


class AuditEngine(Engine, Protocol):
    """Runs an audit, in addition to the operations for readers."""

    def run(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading = WHOLE
    ) -> Answers:
        """Read the parts, run the stages, and yield the answers of parts and stages with their kind."""
        ...

    @property
    def is_local(self) -> bool:
        """Return whether tasks run on this machine, and can read its files."""
        ...

    def begin(self) -> None:
        """Start the session of this engine, in parallel to the reading of evidence."""
        ...

    def ready(self, progress: Progress) -> None:
        """Wait for the session of this engine, if `begin` started it."""
        ...

    def work(self) -> Work | None:
        """Return how much of the work of this engine is done; None: it has none. Another thread may call it."""
        ...

    def close(self) -> None:
        """Release buffered rows."""
        ...


WAITING = 8
"""Threads for work that mostly waits."""


class TooMuchError(Exception):
    """Raised if there are more rows than this process may read."""


class InProcessEngine:
    """Runs everything in this process, a thread per part: for small scopes and for tests.

    Above `limit` rows it raises TooMuchError; None: there is no limit.
    """

    is_local = True

    def __init__(self, parallelism: int = 2, limit: int | None = None) -> None:
        self.parallelism = parallelism
        self._limit = limit
        self._rows = 0
        self._parts_read = 0
        self._parts = 0

    def map(
        self,
        function: Callable[[T], R],
        items: Sequence[T],
        weight: int = 0,  # noqa: ARG002
        *,
        unlocked: bool = False,  # noqa: ARG002
    ) -> list[R]:
        """See `evidence.protocol.Engine`; the threads mostly wait for stores."""
        with ThreadPoolExecutor(WAITING) as pool:
            return list(pool.map(function, items))

    def keep(self, parts: Sequence[Part]) -> LocalBufferedRows:
        """See `evidence.protocol.Engine`."""
        return _buffered(self._read(parts))

    def meet(self, rows: Sequence[Part | BufferedRows], project: Project, stage: Stage) -> LocalBufferedRows:
        """See `evidence.protocol.Engine`."""
        return _buffered(self._staged(stage, self._read_all(rows, Reading(project))))

    def run(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading = WHOLE
    ) -> Answers:
        """See `AuditEngine`."""
        chunks = self._read_all(rows, reading)
        for stage in stages:
            yield from _answers_in(chunks)
            chunks = self._staged(stage, chunks)
        yield from _answers_in(chunks)

    def begin(self) -> None:
        """Do nothing: this engine needs no session."""

    def prepare(self, rows: Sequence[Part | BufferedRows]) -> None:
        """Do nothing: this engine needs no session."""

    def ready(self, progress: Progress) -> None:
        """Do nothing: this engine is always ready."""

    def work(self) -> Work | None:
        """Return how many of the parts are read."""
        return Work(self._parts_read, self._parts, "parts") if self._parts else None

    def close(self) -> None:
        """Do nothing: this engine buffers nothing."""

    def _read_all(self, rows: Sequence[Part | BufferedRows], reading: Reading) -> list[Chunk]:
        """Read all parts and buffered rows."""
        chunks = self._read([each for each in rows if isinstance(each, Part)], reading)
        held = [chunk for each in rows if isinstance(each, LocalBufferedRows) for chunk in each.chunks]
        again = partial(_read_again, reading)
        with ThreadPoolExecutor(self.parallelism) as pool:
            return chunks + [
                each for some in pool.map(again, _distribute(held, self.parallelism)) for each in some
            ]

    def _staged(self, stage: Stage, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Run a stage on all chunks except answers."""
        tables = rows_by_kind(chunks)
        with task_connection("4GiB", self.parallelism) as con:
            return list(run_stage(con, stage, tables, 1))

    def _read(self, parts: Sequence[Part], reading: Reading = WHOLE) -> list[Chunk]:
        read = partial(self._read_one, reading)
        self._parts += len(parts)
        with ThreadPoolExecutor(self.parallelism) as pool:
            return [chunk for chunks in pool.map(read, heaviest_first(parts)) for chunk in chunks]

    def _read_one(self, reading: Reading, part: Part) -> list[Chunk]:
        chunks = []
        for chunk in read_guarded(part, 1, reading):
            chunks.append(chunk)
            self._rows += chunk.batch.num_rows
            if self._limit is not None and self._rows > self._limit:
                raise TooMuchError(f"more than {self._limit} rows")
        self._parts_read += 1
        return _compact(chunks)


def _compact(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the rows of each kind as one batch: DuckDB's batches have room for half as many rows again."""
    whole = {kind: table.combine_chunks() for kind, table in rows_by_kind(chunks).items()}
    rows = [Chunk(0, kind, batch) for kind, table in whole.items() for batch in table.to_batches()]
    return [*rows, *(chunk for chunk in chunks if chunk.share < 0)]


def _read_again(reading: Reading, held: Sequence[Chunk]) -> list[Chunk]:
    with task_connection() as con:
        return [each for chunk in held for each in read_kept(con, chunk, 1, reading)]


def _distribute(held: Sequence[Chunk], piles: int) -> list[Sequence[Chunk]]:
    return [pile for first in range(piles) if (pile := held[first::piles])]


def _buffered(chunks: Sequence[Chunk]) -> LocalBufferedRows:
    require_sound(row for chunk in chunks if chunk.kind == FAULTS for row in chunk.batch.to_pylist())
    notes = [row for chunk in chunks if chunk.kind == "notes" for row in chunk.batch.to_pylist()]
    others = [chunk for chunk in chunks if chunk.kind != "notes"]
    counts: Counter[str] = Counter()
    for chunk in others:
        counts[chunk.kind] += chunk.batch.num_rows
    return LocalBufferedRows(others, notes, counts)


def require_sound(faults: Iterable[Mapping[str, Any]]) -> None:
    """Check that buffered rows are complete.

    Raises:
        SourceError: a part failed with an error that its reader does not handle.
    """
    for fault in faults:
        raise SourceError(
            fault["subject"] or fault["source"], fault["reason"], "repair or remove the damaged file"
        )


def _answers_in(chunks: Sequence[Chunk]) -> Answers:
    for chunk in chunks:
        if chunk.share < 0:
            yield kind_of_answer(chunk.kind), chunk.batch


def heaviest_first(parts: Sequence[Part]) -> list[Part]:
    """Sort parts by weight, so that no task gets a heavy part at the end."""
    return sorted(parts, key=lambda part: -part.weight)
