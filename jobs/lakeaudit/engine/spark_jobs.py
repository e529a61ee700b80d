"""Run parts and stages as jobs of Spark; the module that knows Spark's data frames.

Spark sees few rows: its rows are chunks, see `encoded_chunks`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import StorageLevel, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeaudit.engine.chunks import FAULTS, WHOLE, Chunk, Reading, kind_of_answer, read_kept, shares_of
from lakeaudit.engine.encoded_chunks import (
    CHUNK,
    decoded,
    gather,
    read_parts,
    route_again,
    run_stage_in_task,
)
from lakeaudit.engine.exchange import by_share
from lakeaudit.engine.local import Answers, LocalBufferedRows, heaviest_first, require_sound
from lakeaudit.evidence.protocol import BufferedRows, Part, Project, Stage
from lakeaudit.runtime.duck import task_connection
from lakeaudit.runtime.progress import Work

T = TypeVar("T")
R = TypeVar("R")

SMALL = 256 << 10
"""Answers up to this size are collected together; larger ones one task after the other."""
TASKS_A_CORE = 3

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
            yield from decoded(row["payload"])


class SparkJobs:
    """Runs jobs on a session, which is built, or waited for, by the first one."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session
        self._kept: list[DataFrame] = []

    @cached_property
    def _spark(self) -> SparkSession:
        spark = self._session()
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        return spark

    @property
    def parallelism(self) -> int:
        """Return how many tasks run at a time."""
        return self._spark.sparkContext.defaultParallelism

    def wait(self) -> None:
        """Wait for the session."""
        _ = self._spark

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the result for each item, in order."""
        tasks = min(len(items), self.parallelism * TASKS_A_CORE)
        return self._spark.sparkContext.parallelize(items, tasks).map(function).collect()

    def keep(self, parts: Sequence[Part]) -> SparkBufferedRows:
        """Read parts and keep their rows."""
        return self._kept_now(self._parts(parts).mapInArrow(partial(read_parts, 0, WHOLE), CHUNK))

    def meet(self, rows: Sequence[Part | BufferedRows], project: Project, stage: Stage) -> BufferedRows:
        """Run one stage and keep its rows."""
        chunks = self._plan(rows, [stage], Reading(project))
        # rows of the parts are counted by the run that reads all of them, not a second time here
        return (
            LocalBufferedRows([], [], Counter())
            if chunks is None
            else self._kept_now(chunks.filter("kind <> 'counted'"))
        )

    def run(self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading) -> Answers:
        """Read the parts, run the stages, and yield the answers."""
        chunks = self._plan(rows, stages, reading)
        return iter(()) if chunks is None else self._answers(self._persist(chunks))

    def work(self) -> Work | None:
        """Return the completed tasks of the running stages; None: no stage runs, or the session is not ready."""
        if "_spark" not in self.__dict__:
            return None
        tracker = self._spark.sparkContext.statusTracker()
        stages = [info for id_ in tracker.getActiveStageIds() if (info := tracker.getStageInfo(id_))]
        if not stages:
            return None
        return Work(
            sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages), "tasks"
        )

    def close(self) -> None:
        """Release the frames that Spark persists."""
        while self._kept:
            self._kept.pop().unpersist()

    def _kept_now(self, chunks: DataFrame) -> SparkBufferedRows:
        """Compute chunks now and persist them."""
        frame = self._persist(chunks)
        payload = F.when(F.col("kind").isin("notes", FAULTS), F.col("payload")).alias("payload")
        about = frame.select("kind", "rows", F.length("payload").alias("size"), payload).collect()
        reported: dict[str, list[dict[str, Any]]] = {"notes": [], FAULTS: []}
        for chunk in about:
            reported.get(chunk["kind"], []).extend(
                r for b in decoded(chunk["payload"] or b"") for r in b.to_pylist()
            )
        require_sound(reported[FAULTS])
        counts: Counter[str] = Counter()
        for chunk in about:
            counts[chunk["kind"]] += chunk["rows"]
        return SparkBufferedRows(frame, reported["notes"], counts, sum(chunk["size"] for chunk in about))

    def _plan(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading
    ) -> DataFrame | None:
        """Return the plan of the stages; None if there is nothing to read."""
        parts = [each for each in rows if isinstance(each, Part)]
        kept = [each for each in rows if isinstance(each, SparkBufferedRows)]
        here = [each for each in rows if isinstance(each, LocalBufferedRows)]
        weight = sum(part.weight for part in parts) + sum(each.size for each in kept)
        shares = shares_of(weight, reading, self.parallelism)
        frames = [self._parts(parts).mapInArrow(partial(read_parts, shares, reading), CHUNK)] if parts else []
        frames += [self._chunks(each.chunks, shares, reading) for each in here if each.chunks]
        frames += [
            each.frame.filter(F.col("kind") != "notes").mapInArrow(
                partial(route_again, shares, reading), CHUNK
            )
            for each in kept
        ]
        if not frames:
            return None
        chunks = reduce(DataFrame.unionAll, frames)
        for stage in stages:
            chunks = by_share(chunks, shares).mapInArrow(partial(run_stage_in_task, stage, shares), CHUNK)
        return chunks

    def _answers(self, chunks: DataFrame) -> Iterator[tuple[str, pa.RecordBatch]]:
        small = F.length("payload") <= SMALL
        more = False
        for row in chunks.select("kind", F.when(small, F.col("payload")).alias("payload")).collect():
            more |= row["payload"] is None
            yield from ((kind_of_answer(row["kind"]), batch) for batch in decoded(row["payload"] or b""))
        if more:
            for row in chunks.filter(~small).toLocalIterator():
                yield from ((kind_of_answer(row["kind"]), batch) for batch in decoded(row["payload"]))

    def _chunks(self, chunks: Sequence[Chunk], shares: int, reading: Reading) -> DataFrame:
        """Split rows that this process has read by share."""
        with task_connection() as con:
            cut = (c for chunk in chunks for c in read_kept(con, chunk, shares, reading))
            rows = [tuple(row.values()) for batch in gather(cut, shares) for row in batch.to_pylist()]
        return self._spark.createDataFrame(rows, CHUNK)

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
