"""Audits in a process group of their own, killed with SIGKILL at a chosen moment, and run again."""

import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lakeaudit.config import Lake
from tests.builders.frozen import (
    NIGHTLY,
    Frozen,
    assert_same,
    check_what_readers_see,
    results_of,
    tables_at,
)

PATIENCE = 240.0
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Moment:
    """When to kill: `after` that stage's line, at the first new file of `table`, and `delay` seconds later.

    An empty `after` means from the start on, an empty `table` means at once. `first`: nothing was ever published here.
    """

    after: str
    table: str
    delay: float
    first: bool

    def __str__(self) -> str:
        where = f"in the write of {self.table}" if self.table else "at work"
        place = "an empty place" if self.first else "a place with results"
        return f"{where}, {self.delay * 1000:.0f} ms on, after {self.after or 'the start'}, in {place}"


_SIGNS = (
    ("", "runs"),
    ("make findings", "coverage"),
    ("make findings", "leftover_files"),
    ("make findings", "findings"),
    ("make findings", "runs"),
)
_STAGES = ("start Spark", "open results", "observe", "match and classify", "look again at suspects")


def new_seed() -> int:
    """A seed of this test run's own, or the one to repeat."""
    return int(os.environ.get("LAKEAUDIT_KILL_SEED") or secrets.randbelow(2**32))


def moments(count: int, seed: int) -> list[Moment]:
    """Moments in turn inside each table's write, and somewhere else; half of them in an empty place."""
    chance = random.Random(seed)
    return [_moment(number, chance) for number in range(count)]


def _moment(number: int, chance: random.Random) -> Moment:
    turn = number % (len(_SIGNS) + 1)
    signs = (*_SIGNS, (chance.choice(_STAGES), ""))
    after, table = signs[turn]
    longest = chance.choice((0.0, 0.03, 0.5)) if table else 1.0
    first = (number + number // len(signs)) % 2 == 0
    return Moment(after, table, chance.uniform(0, longest), first)


def kill(lake_file: Path, as_of: datetime, moment: Moment) -> None:
    """Start the audit, and kill it with all its processes at that moment.

    Raises:
        AssertionError: the moment never came.
    """
    folder = lake_file.parent
    with _victim(lake_file, as_of) as process:
        told = _told(folder / "stderr")
        _wait(process, lambda: f'"stage": "{moment.after}"' in told() if moment.after else True, told)
        before = _files(folder / "results" / moment.table)
        if moment.table:
            _wait(process, lambda: bool(_files(folder / "results" / moment.table) - before), told)
        time.sleep(moment.delay)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, told()


@dataclass(frozen=True)
class Cycle:
    """One moment, the lake of its own results, and the kill, which may still be to come."""

    moment: Moment
    lake: Lake
    killed: Future[None]

    def check(self, frozen: Frozen) -> None:
        """Look as a reader does, run again under the same id, compare every row."""
        self.killed.result()
        check_what_readers_see(frozen, self.lake, first=self.moment.first)
        frozen.audited(self.lake)
        assert_same(tables_at(Path(self.lake.results.spark_path)), frozen.expected[self.moment.first])
        assert results_of(self.lake).published(None)["run_id"] == NIGHTLY


@contextmanager
def killed_ahead(frozen: Frozen, wanted: Sequence[Moment], folder: Path) -> Iterator[list[Cycle]]:
    """Kills one after the other, beside whatever the tests do: starting a JVM leaves a core free."""
    with ThreadPoolExecutor(1) as pool:
        cycles = []
        for number, moment in enumerate(wanted):
            place = folder / str(number)
            lake = frozen.lake(place, first=moment.first)
            killed = pool.submit(kill, place / "lake.yaml", frozen.as_of, moment)
            cycles.append(Cycle(moment, lake, killed))
        try:
            yield cycles
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _victim(lake_file: Path, as_of: datetime) -> Iterator[subprocess.Popen[bytes]]:
    """The audit in a process group of its own; whatever happens, nothing of it is left."""
    folder = lake_file.parent
    scratch = folder / "scratch"
    command = [sys.executable, "-m", "tests.builders.victim", str(lake_file), NIGHTLY, as_of.isoformat()]
    environment = os.environ | {"SPARK_LOCAL_DIRS": str(scratch), "PYTHONPATH": str(_ROOT)}
    with (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdout=err, stderr=err, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(scratch, ignore_errors=True)


def _told(path: Path) -> Callable[[], str]:
    return lambda: path.read_text(errors="replace")


def _wait(process: subprocess.Popen[bytes], come: Callable[[], bool], told: Callable[[], str]) -> None:
    last = time.monotonic() + PATIENCE
    while not come():
        assert process.poll() is None, f"the audit ended too early:\n{told()[-3000:]}"
        assert time.monotonic() < last, f"the moment never came:\n{told()[-3000:]}"
        time.sleep(0.002)


def _files(folder: Path) -> set[str]:
    return {str(Path(where, name)) for where, _, names in os.walk(folder) for name in names}
