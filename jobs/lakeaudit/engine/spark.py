"""Decides for each step of an audit whether this process does it, in memory or with a file, or Spark.

Spark's modules are imported, and its session starts, only for a step that needs them.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from lakeaudit.engine.chunks import FINGERPRINTS, KEPT, WHOLE, Reading
from lakeaudit.engine.local import Answers, InProcessEngine, LocalBufferedRows, TooMuchError
from lakeaudit.engine.spilled import SpillingEngine
from lakeaudit.evidence.protocol import BufferedRows, Part, Project, Stage
from lakeaudit.runtime.machine_memory import half_of_memory
from lakeaudit.runtime.progress import Progress, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeaudit.engine.spark_jobs import SparkJobs

T = TypeVar("T")
R = TypeVar("R")

ITEMS_HERE = 256
"""Up to this number, light items are processed in the driver's own threads."""
BYTES_HERE = 16 << 20
"""Bytes of evidence that the driver reads and judges itself: jobs of Spark, and its Python workers, cost seconds."""
MEMORY_HERE = 4 << 30
"""The most memory for rows if tasks would run on this machine, where threads of this process are as fast as tasks; at
most half of the machine's memory, see `Reading.memory`."""
MEMORY_ALONE = 1 << 30
"""The same without Spark: what exceeds it waits in files, which takes the same time."""
ROWS_HERE = 50_000
"""Rows that the driver reads itself from sources of unknown size; above that, tasks read them from the beginning."""
ROWS_IN_PROCESS = 300_000
"""The limit if tasks would run on this machine: the rows of about 300,000 listed files."""


class SparkEngine:
    """Runs an audit on a Spark session, wherever that runs; work below `bytes_here` is done by the driver itself.

    `session` returns the session, or waits for it; it is not called before there is work for Spark. `start` begins to
    build it, and `check` raises an error of that. `is_local`: whether tasks run on this machine; then more than
    `bytes_here` is read here, see `MEMORY_HERE`, and without `at_once` this process also does what exceeds its memory.
    """

    def __init__(
        self,
        session: "Callable[[], SparkSession]",
        bytes_here: int = BYTES_HERE,
        start: Callable[[], object] = lambda: None,
        is_local: Callable[[], bool] = lambda: False,
        check: Callable[[], object] = lambda: None,
        at_once: bool = True,
    ) -> None:
        self._session = session
        self._start = start
        self._bytes_here = bytes_here
        self._is_local = is_local
        self._check = check
        self._at_once = at_once
        self._threads = os.cpu_count() or 1
        self._here = InProcessEngine(self._threads)
        self._spilling = SpillingEngine(self._threads)
        self._spark_jobs: SparkJobs | None = None
        self._starting = Lock()

    @property
    def _jobs(self) -> "SparkJobs":
        with self._starting:  # readers run in several threads
            if self._spark_jobs is None:
                # few audits need Spark, and its import takes long
                from lakeaudit.engine.spark_jobs import SparkJobs

                self._spark_jobs = SparkJobs(self._session)
            return self._spark_jobs

    @cached_property
    def _memory_here(self) -> int:
        most = MEMORY_HERE if self._at_once else MEMORY_ALONE
        return min(most, half_of_memory()) if self._is_local() else 0

    @property
    def _is_alone(self) -> bool:
        """Whether this process does all work."""
        return not self._at_once and self._memory_here > 0

    @property
    def _beyond(self) -> "SparkJobs | SpillingEngine":
        """What does work that exceeds the memory of this process."""
        return self._spilling if self._is_alone else self._jobs

    @property
    def is_local(self) -> bool:
        """See `engine.AuditEngine`."""
        return self._is_local()

    @property
    def parallelism(self) -> int:
        """Return how many tasks run at a time."""
        if self._is_alone:
            return self._threads
        return self._jobs.parallelism

    def begin(self) -> None:
        """See `engine.AuditEngine`."""
        if not self._is_alone:
            self._start()

    def prepare(self, rows: Sequence[Part | BufferedRows]) -> None:
        """See `evidence.protocol.Engine`."""
        if not self._is_alone and not self._is_small(
            rows, FINGERPRINTS
        ):  # the prefilter clears nearly all keys
            self._start()

    def ready(self, progress: Progress) -> None:
        """See `engine.AuditEngine`. If much is read in this process, work begins before Spark is ready."""
        if self._is_alone:
            self._check()
            return
        with progress.stage("start Spark"):
            if self._memory_here:
                self._check()
            else:
                self._jobs.wait()

    def map(
        self, function: Callable[[T], R], items: Sequence[T], weight: int = 0, *, unlocked: bool = False
    ) -> list[R]:
        """See `evidence.protocol.Engine`."""
        few = weight <= self._bytes_here and len(items) <= ITEMS_HERE and self._bytes_here
        fits = unlocked or weight * WHOLE.memory <= self._memory_here
        if few or self._is_alone or (self._memory_here and fits):
            return self._here.map(function, items)
        return self._jobs.map(function, items)

    def keep(self, parts: Sequence[Part]) -> BufferedRows:
        """See `evidence.protocol.Engine`."""
        if self._is_small(parts, KEPT):
            # the size of some parts is unknown: they are read here first, and again on Spark if they are large
            with suppress(TooMuchError):
                most = ROWS_IN_PROCESS if self._memory_here else ROWS_HERE
                limit = None if all(part.weight for part in parts) else most
                return InProcessEngine(self._threads, limit).keep(parts)
        return self._beyond.keep(parts)

    def meet(self, rows: Sequence[Part | BufferedRows], project: Project, stage: Stage) -> BufferedRows:
        """See `evidence.protocol.Engine`."""
        if self._is_small(rows):
            return self._here.meet(rows, project, stage)
        return self._beyond.meet(rows, project, stage)

    def run(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading = WHOLE
    ) -> Answers:
        """See `engine.AuditEngine`."""
        if self._is_small(rows, reading):
            return self._here.run(rows, stages, reading)
        return self._beyond.run(rows, stages, reading)

    def work(self) -> Work | None:
        """Return the tasks of the running Spark jobs, else how many parts or shares this process has done."""
        of_spark = None if self._spark_jobs is None else self._spark_jobs.work()
        return of_spark or self._spilling.work() or self._here.work()

    def close(self) -> None:
        """Release the frames that Spark persists, and remove the files of this process."""
        self._spilling.close()
        if self._spark_jobs is not None:
            self._spark_jobs.close()

    def _is_small(self, rows: Sequence[Part | BufferedRows], reading: Reading = WHOLE) -> bool:
        """Whether this process handles the rows faster than Spark tasks."""
        if not all(isinstance(each, Part | LocalBufferedRows) for each in rows):
            return False  # Spark or a file holds some
        weight = sum(each.weight for each in rows if isinstance(each, Part))
        return weight < self._bytes_here or weight * reading.left * reading.memory < self._memory_here
