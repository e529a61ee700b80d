"""Runs an audit on Spark: parts and stages run in Python workers, and Spark exchanges chunks between them.

Spark sees few rows: a chunk is one row (share, kind, rows, payload), its payload a batch in Arrow's stream format. One
exchange by share brings all rows of a key to one task, whatever the kinds of rows and however many columns they have.
"""

import io
import os
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import StorageLevel, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeaudit.engine.chunks import (
    FAULTS,
    FINGERPRINTS,
    KEPT,
    WHOLE,
    Chunk,
    Reading,
    read_guarded,
    read_kept,
    route_of,
    routes_of,
    run_stage,
)
from lakeaudit.engine.local import (
    Answers,
    InProcessEngine,
    LocalBufferedRows,
    TooMuchError,
    heaviest_first,
    require_sound,
)
from lakeaudit.evidence.protocol import BufferedRows, Part, Project, Stage
from lakeaudit.runtime.duck import task_connection
from lakeaudit.runtime.machine_memory import half_of_memory
from lakeaudit.runtime.progress import Progress

T = TypeVar("T")
R = TypeVar("R")

_CHUNK = "share int, kind string, rows long, payload binary"
_ARROW = pa.schema(
    [("share", pa.int32()), ("kind", pa.string()), ("rows", pa.int64()), ("payload", pa.binary())]
)
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
BYTES_A_SHARE = 64 << 20
"""Bytes of evidence, as stored, whose rows make one share: about a million rows, which fit a worker of 1 GiB."""
ROWS_HELD = 400_000
"""Rows that a task collects before it emits them, so that chunks are not tiny."""
SMALL = 256 << 10
"""Answers up to this size are collected together; larger ones one task after the other."""
TASKS_A_CORE = 3
ITEMS_HERE = 256
"""Up to this number, light items are processed in the driver's own threads."""
BYTES_HERE = 16 << 20
"""Bytes of evidence that the driver reads and judges itself: jobs of Spark, and its Python workers, cost seconds."""
MEMORY_HERE = 4 << 30
"""The most memory for rows if tasks would run on this machine, where threads of this process are as fast as tasks; at
most half of the machine's memory, see `Reading.memory`."""
ROWS_HERE = 50_000
"""Rows that the driver reads itself from sources of unknown size; above that, tasks read them from the beginning."""
ROWS_IN_PROCESS = 300_000
"""The limit if tasks would run on this machine: the rows of about 300,000 listed files."""

_SETTINGS = {
    # a chunk may have hundreds of kilobytes, and by default Spark gathers ten thousand rows for a Python worker
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.adaptive.enabled": "false",
}
"""A plan is one exchange of few large rows, so adaptive execution has no use."""


@dataclass(frozen=True)
class SparkBufferedRows:
    """Rows that were read before, as chunks in Spark's storage."""

    frame: DataFrame
    notes: Sequence[Mapping[str, Any]]
    counts: Mapping[str, int]
    size: int

    def batches(self, kind: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one kind, task by task."""
        for row in self.frame.filter(F.col("kind") == kind).toLocalIterator():
            yield from _decoded(row["payload"])


class SparkEngine:
    """Runs an audit on a Spark session, wherever that runs; work below `bytes_here` is done by the driver itself.

    `session` returns the session, or waits for it; it is not called before there is work for Spark. `start` begins to
    build it, and `check` raises an error of that. `is_local`: whether tasks run on this machine; then more than
    `bytes_here` is read here, see `MEMORY_HERE`, and without `at_once` the session starts only if there is more work.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        bytes_here: int = BYTES_HERE,
        start: Callable[[], object] = lambda: None,
        is_local: Callable[[], bool] = lambda: False,
        check: Callable[[], object] = lambda: None,
        at_once: bool = True,
    ) -> None:
        self._session = session
        self._start = start
        self._kept: list[DataFrame] = []
        self._bytes_here = bytes_here
        self._is_local = is_local
        self._check = check
        self._at_once = at_once
        self._threads = os.cpu_count() or 1
        self._here = InProcessEngine(self._threads)

    @cached_property
    def _spark(self) -> SparkSession:
        spark = self._session()
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        return spark

    @cached_property
    def _memory_here(self) -> int:
        return min(MEMORY_HERE, half_of_memory()) if self._is_local() else 0

    @property
    def _starts_late(self) -> bool:
        """Whether the session starts only if there is more to read than this process takes."""
        return not self._at_once and self._memory_here > 0

    @property
    def parallelism(self) -> int:
        """Return how many tasks run at a time."""
        if self._starts_late:
            return self._threads
        return self._spark.sparkContext.defaultParallelism

    def begin(self) -> None:
        """See `engine.AuditEngine`."""
        if not self._starts_late:
            self._start()

    def prepare(self, rows: Sequence[Part | BufferedRows]) -> None:
        """See `evidence.protocol.Engine`."""
        if not self._is_small(rows, FINGERPRINTS):  # the prefilter clears nearly all keys
            self._start()

    def ready(self, progress: Progress) -> None:
        """See `engine.AuditEngine`. If much is read in this process, work begins before Spark is ready."""
        if self._starts_late:
            self._check()
            return
        with progress.stage("start Spark"):
            if self._memory_here:
                self._check()
            else:
                _ = self._spark

    def map(
        self, function: Callable[[T], R], items: Sequence[T], weight: int = 0, *, unlocked: bool = False
    ) -> list[R]:
        """See `evidence.protocol.Engine`."""
        few = weight <= self._bytes_here and len(items) <= ITEMS_HERE and self._bytes_here
        if few or (self._memory_here and (unlocked or weight * WHOLE.memory <= self._memory_here)):
            return self._here.map(function, items)
        tasks = min(len(items), self.parallelism * TASKS_A_CORE)
        return self._spark.sparkContext.parallelize(items, tasks).map(function).collect()

    def keep(self, parts: Sequence[Part]) -> BufferedRows:
        """See `evidence.protocol.Engine`."""
        if self._is_small(parts, KEPT):
            # the size of some parts is unknown: they are read here first, and again on Spark if they are large
            with suppress(TooMuchError):
                most = ROWS_IN_PROCESS if self._memory_here else ROWS_HERE
                limit = None if all(part.weight for part in parts) else most
                return InProcessEngine(self._threads, limit).keep(parts)
        return self._kept_now(self._parts(parts).mapInArrow(partial(_read_parts, 0, WHOLE), _CHUNK))

    def meet(self, rows: Sequence[Part | BufferedRows], project: Project, stage: Stage) -> BufferedRows:
        """See `evidence.protocol.Engine`."""
        if self._is_small(rows):
            return self._here.meet(rows, project, stage)
        chunks = self._plan(rows, [stage], Reading(project))
        # rows of the parts are counted by the run that reads all of them, not a second time here
        return (
            LocalBufferedRows([], [], Counter())
            if chunks is None
            else self._kept_now(chunks.filter("kind <> 'counted'"))
        )

    def _kept_now(self, chunks: DataFrame) -> SparkBufferedRows:
        """Compute chunks now and persist them."""
        frame = self._persist(chunks)
        payload = F.when(F.col("kind").isin("notes", FAULTS), F.col("payload")).alias("payload")
        about = frame.select("kind", "rows", F.length("payload").alias("size"), payload).collect()
        reported: dict[str, list[dict[str, Any]]] = {"notes": [], FAULTS: []}
        for chunk in about:
            reported.get(chunk["kind"], []).extend(
                r for b in _decoded(chunk["payload"] or b"") for r in b.to_pylist()
            )
        require_sound(reported[FAULTS])
        counts: Counter[str] = Counter()
        for chunk in about:
            counts[chunk["kind"]] += chunk["rows"]
        return SparkBufferedRows(frame, reported["notes"], counts, sum(chunk["size"] for chunk in about))

    def run(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading = WHOLE
    ) -> Answers:
        """See `engine.AuditEngine`."""
        if self._is_small(rows, reading):
            return self._here.run(rows, stages, reading)
        chunks = self._plan(rows, stages, reading)
        return iter(()) if chunks is None else self._answers(self._persist(chunks))

    def _plan(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading
    ) -> DataFrame | None:
        """Return the plan of the stages; None if there is nothing to read."""
        parts = [each for each in rows if isinstance(each, Part)]
        kept = [each for each in rows if isinstance(each, SparkBufferedRows)]
        here = [each for each in rows if isinstance(each, LocalBufferedRows)]
        weight = sum(part.weight for part in parts) + sum(each.size for each in kept)
        shares = max(self.parallelism, int(weight * reading.left) // BYTES_A_SHARE)
        frames = (
            [self._parts(parts).mapInArrow(partial(_read_parts, shares, reading), _CHUNK)] if parts else []
        )
        frames += [self._chunks(each.chunks, shares, reading) for each in here if each.chunks]
        frames += [
            each.frame.filter(F.col("kind") != "notes").mapInArrow(
                partial(_route_again, shares, reading), _CHUNK
            )
            for each in kept
        ]
        if not frames:
            return None
        chunks = reduce(DataFrame.unionAll, frames)
        for stage in stages:
            met = chunks.repartitionById(shares, F.col("share"))
            chunks = met.mapInArrow(partial(_run_stage, stage, shares), _CHUNK)
        return chunks

    def _answers(self, chunks: DataFrame) -> Iterator[tuple[str, pa.RecordBatch]]:
        small = F.length("payload") <= SMALL
        more = False
        for row in chunks.select("kind", F.when(small, F.col("payload")).alias("payload")).collect():
            more |= row["payload"] is None
            yield from ((_answer(row["kind"]), batch) for batch in _decoded(row["payload"] or b""))
        if more:
            for row in chunks.filter(~small).toLocalIterator():
                yield from ((_answer(row["kind"]), batch) for batch in _decoded(row["payload"]))

    def close(self) -> None:
        """Release the frames that Spark persists."""
        while self._kept:
            self._kept.pop().unpersist()

    def _chunks(self, chunks: Sequence[Chunk], shares: int, reading: Reading) -> DataFrame:
        """Split rows that this process has read by share."""
        with task_connection() as con:
            cut = (c for chunk in chunks for c in read_kept(con, chunk, shares, reading))
            rows = [tuple(row.values()) for batch in _gather(cut, shares) for row in batch.to_pylist()]
        return self._spark.createDataFrame(rows, _CHUNK)

    def _is_small(self, rows: Sequence[Part | BufferedRows], reading: Reading = WHOLE) -> bool:
        """Whether this process handles the rows faster than Spark tasks."""
        if any(isinstance(each, SparkBufferedRows) for each in rows):
            return False
        weight = sum(each.weight for each in rows if isinstance(each, Part))
        return weight < self._bytes_here or weight * reading.left * reading.memory < self._memory_here

    def _persist(self, frame: DataFrame) -> DataFrame:
        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        return kept

    def _parts(self, parts: Sequence[Part]) -> DataFrame:
        """Return one row per task: its parts, heavy ones first."""
        tasks = _balanced(parts, self.parallelism * TASKS_A_CORE)
        pickled = [(bytearray(cloudpickle.dumps(task)),) for task in tasks]  # type: ignore[no-untyped-call]
        rdd = self._spark.sparkContext.parallelize(pickled, max(1, len(pickled)))
        return self._spark.createDataFrame(rdd, "parts binary")


def _balanced(parts: Sequence[Part], tasks: int) -> list[list[Part]]:
    """Distribute the parts to at most `tasks` lists of about equal weight."""
    piles: list[list[Part]] = [[] for _ in range(min(tasks, len(parts)))]
    weights = [0] * len(piles)
    for part in heaviest_first(parts):
        lightest = weights.index(min(weights))
        piles[lightest].append(part)
        weights[lightest] += max(part.weight, 1)
    return piles


def _read_parts(shares: int, reading: Reading, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the rows of some parts as chunks; runs on an executor."""
    pickled = (cell for batch in batches for cell in batch.column(0).to_pylist())
    parts = (part for cell in pickled for part in pickle.loads(cell))  # noqa: S301 - our own driver wrote it
    yield from _gather((chunk for part in parts for chunk in read_guarded(part, shares, reading)), shares)


def _route_again(
    shares: int, reading: Reading, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Split buffered rows by share; runs on an executor."""
    with task_connection() as con:
        kept = (chunk for batch in batches for chunk in _chunks(batch))
        again = (c for chunk in kept for c in read_kept(con, chunk, shares, reading))
        yield from _gather(again, shares)


def _run_stage(stage: Stage, shares: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run one stage on all rows of one share and pass answers on; runs on an executor."""
    held: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    routes = routes_of(stage)
    for batch in batches:
        passing = [route_of(kind, routes) is None for kind in batch.column("kind").to_pylist()]
        if any(passing):
            yield batch.filter(pa.array(passing))
        for chunk in _chunks(batch.filter(pa.array([not each for each in passing]))):
            held[chunk.kind].append(chunk.batch)
    if held:
        with task_connection() as con:
            tables = {kind: pa.Table.from_batches(found) for kind, found in held.items()}
            yield from _gather(run_stage(con, stage, tables, shares), shares)


def _gather(chunks: Iterable[Chunk], shares: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of _CHUNK: batches of one kind and share in few chunks."""
    held: dict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
    rows = 0
    for chunk in chunks:
        held[chunk.share, chunk.kind].append(chunk.batch)
        rows += chunk.batch.num_rows
        if rows >= ROWS_HELD:
            yield from _encoded(held, shares)
            held, rows = defaultdict(list), 0
    yield from _encoded(held, shares)


def _encoded(held: dict[tuple[int, str], list[pa.RecordBatch]], shares: int) -> Iterator[pa.RecordBatch]:
    """Encode all chunks as one batch: each batch costs a message to the JVM."""
    targets, kinds, rows, payloads = [], [], [], []
    for number, ((share, kind), batches) in enumerate(held.items()):
        targets.append(
            share if share >= 0 else number % max(shares, 1)
        )  # an answer may pass through any task
        kinds.append(kind)
        rows.append(sum(batch.num_rows for batch in batches))
        payloads.append(_payload(batches))
    columns = (targets, kinds, rows, payloads)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
    if targets:
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _payload(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Encode batches of one kind as one stream with one batch: small batches cost more than their rows."""
    whole = pa.Table.from_batches(batches).combine_chunks()
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, whole.schema, options=_LZ4) as writer:
        writer.write_table(whole)
    return sink.getvalue()


def _chunks(batch: pa.RecordBatch) -> Iterator[Chunk]:
    for row in batch.to_pylist():
        for decoded in _decoded(row["payload"]):
            yield Chunk(row["share"], row["kind"], decoded)


def _answer(kind: str) -> str:
    """Return the kind under which an answer is returned."""
    return "notes" if kind == FAULTS else kind


def _decoded(payload: bytes) -> Iterator[pa.RecordBatch]:
    if payload:
        with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
            yield from reader
