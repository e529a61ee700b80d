"""Audits by spark-submit in a process group of their own, killed with SIGKILL at chosen moments, and run again.

One audit serves several moments: at each it is stopped, and its results are copied as a kill would leave them; at the
last it is killed, or goes on to its end.
"""

import os
import random
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lakeaudit.config import Lake
from tests.builders.audits import results_of
from tests.builders.catcher import catching
from tests.builders.frozen import (
    NIGHTLY,
    RECEIVER,
    Frozen,
    assert_same,
    check_what_readers_see,
    tables_at,
)
from tests.builders.submit import submission

PATIENCE = 300.0


@dataclass(frozen=True)
class Submitted:
    """An audit that spark-submit ran: its folder, exit code and output, which merges both streams."""

    home: Path
    code: int
    output: str


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
    ("check the results", "coverage"),
    ("check the results", "leftover_files"),
    ("check the results", "commits"),
    ("check the results", "findings"),
    ("check the results", "transitions"),
    ("check the results", "discrepancies"),
    ("check the results", "verified"),
    ("check the results", "runs"),
    ("publish", "tables"),
    ("publish", "notices"),
)
_STAGES = (
    "open results",
    "find evidence",
    "start Spark",
    "match and classify",
    "check suspects again",
    "update the ledger",
)


def new_seed() -> int:
    """A seed of this test run's own, or the one to repeat."""
    return int(os.environ.get("LAKEAUDIT_KILL_SEED") or secrets.randbelow(2**32))


def moments(count: int, seed: int) -> list[Moment]:
    """Moments in turn inside each table's write, and somewhere else; half of them in an empty place."""
    chance, signs = random.Random(seed), len(_SIGNS)
    return [_moment(number, chance, (number + number // signs) % 2 == 0) for number in range(count)]


def moments_of_one_audit(count: int, seed: int) -> list[Moment]:
    """Moments of different kinds, all in an empty place or all in one with results."""
    chance = random.Random(seed)
    first = chance.random() < 0.5
    return [_moment(number, chance, first) for number in chance.sample(range(len(_SIGNS) + 1), count)]


def _moment(number: int, chance: random.Random, first: bool) -> Moment:
    turn = number % (len(_SIGNS) + 1)
    signs = (*_SIGNS, (chance.choice(_STAGES), ""))
    after, table = signs[turn]
    longest = chance.choice((0.0, 0.03, 0.5)) if table else 1.0
    return Moment(after, table, chance.uniform(0, longest), first)


@dataclass(frozen=True)
class Cycle:
    """One moment, the lake of the results it left, and the kill, which may still be to come."""

    moment: Moment
    lake: Lake
    killed: Future[Submitted]

    def check(self, frozen: Frozen) -> None:
        """Look as a reader does, run again under the same id, compare every row."""
        self.killed.result()
        check_what_readers_see(frozen, self.lake, first=self.moment.first)
        notices = [row for row in results_of(self.lake).notices() if row["run_id"] == NIGHTLY]
        told_before = any(row["status"] == "sent" for row in notices)
        messages = len(frozen.received)
        frozen.audited(self.lake)
        assert len(frozen.received) - messages == (0 if told_before else 1), "told once, and not again"
        assert_same(tables_at(Path(self.lake.results.spark_path)), frozen.expected[self.moment.first])
        assert results_of(self.lake).published(None)["run_id"] == NIGHTLY


@contextmanager
def killed_ahead(
    frozen: Frozen, wanted: Sequence[Moment], folder: Path, *, each: int, finish: bool = False
) -> Iterator[list[Cycle]]:
    """Audits that serve up to `each` moments, one after the other, beside whatever the tests do meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        cycles: list[Cycle] = []
        for victim, group in enumerate(_groups(wanted, each)):
            place = folder / f"victim-{victim}"
            left = [(moment, folder / f"{victim}-{number}") for number, moment in enumerate(group)]
            killed = pool.submit(_kill, frozen, place, left, finish=finish)
            cycles += [Cycle(moment, frozen.lake(path, first=True), killed) for moment, path in left]
        try:
            yield cycles
        finally:
            pool.shutdown(cancel_futures=True)


def _groups(wanted: Sequence[Moment], each: int) -> Iterator[Sequence[Moment]]:
    for first in (True, False):
        alike = [moment for moment in wanted if moment.first == first]
        yield from (alike[start : start + each] for start in range(0, len(alike), each))


ATTEMPTS = 3
"""Some moments last milliseconds: on a busy machine nobody may look in time."""


def _kill(frozen: Frozen, home: Path, left: Sequence[tuple[Moment, Path]], *, finish: bool) -> Submitted:
    """An audit of a lake at `home` that leaves its results of each moment; another one where a moment was missed."""
    missing = list(left)
    for attempt in range(ATTEMPTS):
        tried = home / str(attempt)
        frozen.lake(tried, first=left[0][0].first)
        try:
            return _killed(tried, frozen.as_of, missing, finish=finish)
        except _TooEarlyError as error:
            missing = error.missing
    raise AssertionError(f"nobody looked in time, {ATTEMPTS} times")


class _TooEarlyError(Exception):
    """The audit has ended before all moments were seen; `missing` are the others."""

    def __init__(self, waits: Sequence["_Wait"]) -> None:
        super().__init__()
        self.missing = [(wait.moment, wait.place) for wait in waits]


def _killed(home: Path, as_of: datetime, left: Sequence[tuple[Moment, Path]], *, finish: bool) -> Submitted:
    """Start the audit of the lake at `home`; leave its results of each moment below that moment's path.

    Then kill it, unless it may `finish`.

    Raises:
        AssertionError: a moment never came.
    """
    waits = [_Wait(home, moment, path) for moment, path in left]
    stopped, last = 0.0, time.monotonic() + PATIENCE
    with _victim(home / "lake.yaml", as_of) as process:
        while waits:
            ended = process.poll() is not None
            told = (home / "told").read_text(errors="replace")
            assert time.monotonic() < last, f"{waits[0].moment} never came:\n{told[-3000:]}"
            began = time.monotonic()
            over = [wait for wait in waits if wait.over(told, began - stopped, ended=ended)]
            waits = [wait for wait in waits if wait not in over]
            if ended and waits:
                raise _TooEarlyError(waits)
            if over:
                _halt(process, over, finally_=not (waits or finish))
                stopped += time.monotonic() - began
            time.sleep(0.005)
        code = process.wait(PATIENCE)
    return Submitted(home, code, (home / "told").read_text())


def _halt(process: subprocess.Popen[bytes], over: Sequence["_Wait"], *, finally_: bool) -> None:
    """The disk holds exactly the state after a kill: nothing in the audit's memory is written."""
    _signal(process, signal.SIGKILL if finally_ else signal.SIGSTOP)
    for wait in over:
        wait.keep()
    if not finally_:
        _signal(process, signal.SIGCONT)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the whole group, if any of it is left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@dataclass(eq=False)
class _Wait:
    """For one moment of an audit at `home`; times are the audit's own, which stand still while it is stopped."""

    home: Path
    moment: Moment
    place: Path
    _before: set[str] | None = None
    _due: float | None = None

    def over(self, told: str, now: float, *, ended: bool) -> bool:
        """Whether the moment has come; the end of the audit is later than any delay."""
        if self._before is None and self._stage_is_over(told):
            self._before = self._files()
        if self._due is None and self._before is not None and self._sign(self._before):
            self._due = now + self.moment.delay
        return self._due is not None and (ended or now >= self._due)

    def keep(self) -> None:
        """Copy the results, once nobody writes to them any more."""
        results = self.home / "results"
        seen = None
        while seen != (seen := _state(results)):
            time.sleep(0.02)
        if results.exists():
            shutil.copytree(results, self.place / "results")

    def _stage_is_over(self, told: str) -> bool:
        return not self.moment.after or f'"stage": "{self.moment.after}"' in told

    def _sign(self, before: set[str]) -> bool:
        return not self.moment.table or bool(self._files() - before)

    def _files(self) -> set[str]:
        return set(_state(self.home / "results" / self.moment.table))


@contextmanager
def _victim(lake_file: Path, as_of: datetime) -> Iterator[subprocess.Popen[bytes]]:
    """The audit in a process group of its own; whatever happens, nothing of it is left."""
    folder = lake_file.parent
    scratch = folder / "scratch"
    options = (
        "--run-id",
        NIGHTLY,
        "--as-of",
        as_of.isoformat(),
        "--status-file",
        str(folder / "status.json"),
    )
    line, env = submission(folder, lake_file.name, *options)
    with catching() as caught, (folder / "told").open("wb") as told, (folder / "stderr").open("wb") as err:
        env |= {"SPARK_LOCAL_DIRS": str(scratch), RECEIVER: f"json://127.0.0.1:{caught.port}/"}
        process = subprocess.Popen(line, cwd=folder, env=env, stdout=told, stderr=err, start_new_session=True)
        try:
            yield process
        finally:
            _signal(process, signal.SIGKILL)
            process.wait()
            shutil.rmtree(scratch, ignore_errors=True)


def _state(folder: Path) -> dict[str, int]:
    """When each file below the folder was last written, in ns."""
    state = {}
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                state[f"{where}/{name}"] = Path(where, name).stat().st_mtime_ns
    return state
