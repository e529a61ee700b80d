"""Measures the driver's cost of listing the logs of streaming tables and of sending them to tasks.

Tasks run in other processes, as on a cluster. Commits are not read, which costs one request each on any engine. It
prints the driver's peak memory, requests, seconds, and the number of bytes that tasks receive.

usage: python -m tests.bench.long_logs [--minutely 20] [--hourly 280] [--days 30]
A lake of 200 and 2,800 such tables is ten times as large.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pyarrow import RecordBatch
from pyspark import cloudpickle

from lakeaudit.config import Table
from lakeaudit.demo.server import own_credentials
from lakeaudit.evidence.manifest.delta.log.listing import list_logs
from lakeaudit.evidence.manifest.delta.state.readings import read_logs
from lakeaudit.evidence.manifest.delta.witnesses.commits import commit_logs
from lakeaudit.evidence.protocol import BufferedRows, Context, Part, Project, Stage
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.bench.long_log_server import HOURLY, MINUTELY, REQUESTS, commits_of, table_of
from tests.bench.server import running
from tests.bench.spec import BUCKET, SCAN

T = TypeVar("T")
R = TypeVar("R")

NOW = SCAN + timedelta(hours=1)
PROMISED = timedelta(days=7)
CORES = 2


@dataclass
class _Nothing:
    """The empty result of an engine whose tasks read nothing."""

    notes: Sequence[Mapping[str, object]] = ()

    @property
    def counts(self) -> Counter[str]:
        return Counter()

    def batches(self, kind: str) -> Iterator[RecordBatch]:  # noqa: ARG002
        yield from ()


class Elsewhere:
    """An engine whose tasks are other processes; parts to buffer are sent to them but not read."""

    parallelism = CORES

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        self.parts = 0
        self.handed = 0

    def map(self, function: Callable[[T], R], items: Sequence[T], weight: int = 0, **_: object) -> list[R]:  # noqa: ARG002
        return list(self._pool.map(function, items))

    def prepare(self, rows: Sequence[Part | BufferedRows]) -> None:
        """Do nothing: the processes run already."""

    def keep(self, parts: Sequence[Part]) -> BufferedRows:
        for part in parts:
            self.parts += 1
            self.handed += len(cloudpickle.dumps(part))  # type: ignore[no-untyped-call]
        return _Nothing()

    def meet(self, rows: Sequence[Part | BufferedRows], project: Project, stage: Stage) -> BufferedRows:
        raise NotImplementedError("no log has to meet storage")


def tables(minutely: int, hourly: int) -> list[Table]:
    """Return all tables, those with many commits first."""
    names = [
        table_of(number, step)
        for step, count in ((MINUTELY, minutely), (HOURLY, hourly))
        for number in range(count)
    ]
    return [Table(name=name, location=Location(BUCKET, name)) for name in names]


def clock() -> datetime:
    """Return the constant time of a run."""
    return NOW


def measure(endpoint: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return what the driver used."""
    named = tables(given.minutely, given.hourly)
    clients = Clients(Endpoint(endpoint=endpoint, region="us-east-1"))
    spawned = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(CORES, spawned) as pool:
        engine = Elsewhere(pool)
        list(pool.map(abs, range(CORES)))
        ctx = Context(engine, clients, NOW, NOW, live=True, oldest_cut=SCAN)
        before, begun = _peak(), time.monotonic()
        listed = list_logs(named, ctx, clock)
        at_list = time.monotonic()
        promised = dict.fromkeys((table.name for table in named), PROMISED)
        readings = read_logs(listed, ctx, "manifest:delta", clock, promised)
        logs = commit_logs(readings.tables)
        ended = time.monotonic()
    return {
        "commits there": sum(commits_of(step, given.days) * count
                             for step, count in ((MINUTELY, given.minutely), (HOURLY, given.hourly))),
        "peak memory of the driver, MiB": round(_peak() - before, 1),
        "seconds to list": round(at_list - begun, 1),
        "seconds to plan and hand over": round(ended - at_list, 1),
        "requests": int(urllib.request.urlopen(f"{endpoint}/{BUCKET}/{REQUESTS}").read()),
        "parts": engine.parts,
        "MiB handed to tasks": round(engine.handed / (1 << 20), 1),
        "tables": len(logs.since),
    }  # fmt: skip


def _peak() -> float:
    """Return the peak resident memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Serve the logs, measure the driver and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("minutely", 20), ("hourly", 280), ("days", 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments = map(str, (given.minutely, given.hourly, given.days, folder))
        with own_credentials(), running("long_log_server", *arguments) as endpoint:
            for name, value in measure(endpoint, given).items():
                print(f"{name}: {value:,}")  # noqa: T201 - what it is run for


if __name__ == "__main__":
    main()
