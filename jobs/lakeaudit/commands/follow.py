"""Run `lakeaudit follow`: report losses of files within a minute, from the events of storage."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event

from lakeaudit.audit.collapsed_locations import as_stored
from lakeaudit.collect.lifecycles import Lifecycles
from lakeaudit.commands.alert import send
from lakeaudit.commands.on_spark import spark_engine
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import AuditError, BadInput, Busy
from lakeaudit.evidence.discovery import described
from lakeaudit.evidence.protocol import Context
from lakeaudit.follow.loop import Follower, KnownTables
from lakeaudit.follow.losses import Judge
from lakeaudit.follow.needed_files import NeededFiles, unwatched
from lakeaudit.follow.publish import Publisher
from lakeaudit.follow.queue import EventQueue
from lakeaudit.follow.table_places import TablePlaces
from lakeaudit.formatting import count, number
from lakeaudit.keys import digest
from lakeaudit.runtime.cache import cache_dir
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import Progress, StageLog

LINE = 15.0
"""Seconds between two lines of progress."""
IDLE = timedelta(seconds=5)
"""The longest wait for a message: the process ends this much after a signal."""
STATE = 60.0
"""Seconds between two counts of the messages that left the queue unread."""
AGAIN = 30.0
"""Seconds after which a request of the queue, or alerts that were not sent, are tried again."""
MOST_FAILURES = 20
"""So many failed requests of the queue in a row end the process."""
INDEX_AGE = 24 * 3600.0
"""Seconds after which tables are discovered again, and the index is built again."""
SHOWN = 20


@dataclass(frozen=True)
class Request:
    """The arguments of the command.

    Attributes:
        lake_file: as it was typed.
        once: end when the queue is empty and all events are decided.
        most: end after this time; None: run until a signal.
    """

    lake_file: str
    once: bool = False
    most: timedelta | None = None


def run(
    request: Request,
    lake: Lake,
    *,
    clock: Callable[[], datetime],
    progress: Progress,
    stop: Event | None = None,
) -> CommandResult:
    """Follow the queue of a lake until a signal, or as long as requested.

    Raises:
        BadInput: the lake file names no queue.
        CannotAudit: the queue does not exist or refuses access, or no table was discovered.
        CannotPublish: the index cannot be written.
    """
    if lake.follow is None:
        raise BadInput("follow", "the lake file names no queue", "add the key `follow` (docs/follow.md)")
    clients, engine = clients_of(lake), InProcessEngine()

    def context() -> Context:
        now = clock()
        return Context(engine, clients, now, now, live=True, rate=lake.settings.confirm.rate)

    tables = _Tables(lake, clients, engine, context)
    with EventQueue.open(lake.follow, clients) as queue, _signals(stop or Event()) as stopped:
        with progress.stage("read the tables") as log:
            known = tables.known_tables()
            log.note(tables=len(known.watched), files=known.needed.index.about.files)
        publisher = Publisher(lake, clients, clock)
        follower = Follower(queue, known, publisher, context, time.monotonic)
        session = _Session(request, lake, clients, clock, follower, queue, tables)
        with progress.stage("follow") as log:
            session.run(stopped, log)
    return session.result(stopped=stopped.is_set())


@dataclass
class _Tables:
    """Reads the tables of a lake, and reads them again in the background."""

    lake: Lake
    clients: Clients
    engine: InProcessEngine
    context: Callable[[], Context]
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "index"))
    _next: "Future[KnownTables] | None" = None
    _read_at: float = field(default_factory=time.monotonic)

    def known_tables(self, *, fresh: bool = False) -> KnownTables:
        """Return the tables with an index of their files."""
        lake = self._described()
        watched = frozenset(table.name for table in lake.tables) - unwatched(lake).keys()
        folder = _state_folder(lake)
        followed = lake.model_copy(update={"tables": tuple(t for t in lake.tables if t.name in watched)})
        with spark_engine(lake) as builder:
            needed = NeededFiles.opened(followed, folder, self.context(), self.engine, builder, fresh=fresh)
        judge = Judge(followed, self.engine, Lifecycles(self.clients))
        return KnownTables(needed, judge, TablePlaces.of(lake.tables), watched)

    def newer(self, needed: NeededFiles) -> KnownTables | None:
        """Return newer tables once they are read; they are read in the background once a day, or when many changed."""
        if self._next is not None and self._next.done():
            read, self._next = self._next, None
            self._read_at = time.monotonic()
            return read.result()
        if self._next is None and (needed.is_outgrown or time.monotonic() - self._read_at > INDEX_AGE):
            self._next = self.pool.submit(self.known_tables, fresh=True)
        return None

    def _described(self) -> Lake:
        lake = self.lake
        if lake.finds_tables:
            lake = described(lake, self.context()).lake
        return as_stored(lake, self.clients)[0]


def _state_folder(lake: Lake) -> Path:
    """Return the folder of the index."""
    if lake.follow is not None and lake.follow.state is not None:
        return Path(lake.follow.state)
    return cache_dir(os.environ) / "follow" / digest(lake.name, lake.results.uri)


@dataclass
class _Session:
    """One run of the process."""

    request: Request
    lake: Lake
    clients: Clients
    clock: Callable[[], datetime]
    follower: Follower
    queue: EventQueue
    tables: _Tables
    missing: int = 0
    failures: int = 0
    _alerted: int = 0
    _alert_at: float = 0.0
    """When alerts are due; an earlier process may have ended before it sent those of its losses."""
    _line_at: float = field(default_factory=time.monotonic)
    _state_at: float = field(default_factory=time.monotonic)

    def run(self, stopped: Event, log: StageLog) -> None:
        """Follow until the end."""
        began = time.monotonic()
        for name, why in unwatched(self.tables.lake).items():
            log.say(f"losses of {name} are not reported: {why}", table=name)
        while not stopped.is_set():
            received = self._receive(stopped)
            self.follower.decide()
            self._say(log)
            self._send_alerts(log)
            if (newer := self._newer(log)) is not None:
                self.follower.known = newer
            if self.request.once and received == 0 and not self.follower.undecided:
                break
            if (
                self.request.most is not None
                and time.monotonic() - began >= self.request.most.total_seconds()
            ):
                break
        self.queue.release(self.follower.open_messages())

    def _receive(self, stopped: Event) -> int | None:
        """Return the number of received messages; None: the request failed, and is tried again later."""
        assert self.lake.follow is not None  # noqa: S101 - `run` requires it
        wait = min(IDLE.total_seconds(), max(self.follower.next_due, 1.0))
        try:
            received = self.follower.receive(self.lake.follow.window, timedelta(seconds=wait))
        except AuditError as error:
            self.failures += 1
            if not error.retryable or self.failures > MOST_FAILURES:
                raise
            self.follower.tally.failed = str(error)
            stopped.wait(AGAIN)
            return None
        self.failures = 0
        return received

    def _say(self, log: StageLog) -> None:
        """Report losses at once, and the progress every 15 seconds."""
        tally, now = self.follower.tally, time.monotonic()
        for line in tally.reported[:SHOWN]:
            log.say(line)
        tally.reported.clear()
        if now - self._state_at >= STATE:
            self._state_at = now
            self._count_missing(log)
        if now - self._line_at >= LINE:
            self._line_at = now
            log.say(self._line(), **self._counts())

    def _count_missing(self, log: StageLog) -> None:
        try:
            missing = self.queue.state().missing
        except AuditError:
            return
        if missing:
            self.missing += missing
            log.say(f"{_unread(missing)}: the next audit will find the losses", missing=missing)

    def _line(self) -> str:
        tally = self.follower.tally
        text = f"{number(tally.events, 'event')}, {number(tally.checks, 'check')}, {_losses(tally.losses)}"
        text += f", {number(self.follower.undecided, 'undecided object')}, {tally.behind:.0f} s behind"
        return f"{text}; {tally.failed}" if tally.failed else text

    def _counts(self) -> dict[str, int | float | str]:
        tally = self.follower.tally
        return {
            "events": tally.events,
            "checks": tally.checks,
            "losses": tally.losses,
            "undecided": self.follower.undecided,
            "behind": round(tally.behind, 1),
        }

    def _send_alerts(self, log: StageLog) -> None:
        """Send the alerts of reported losses, now or once no other run holds the lease."""
        tally, now = self.follower.tally, time.monotonic()
        if tally.losses > self._alerted:
            self._alert_at = min(self._alert_at, now)
        if now < self._alert_at:
            return
        losses = tally.losses
        try:
            failures = send(self.lake, self.request.lake_file, self.clients, self.clock()).failures
        except Busy:
            self._alert_at = now + 2
            return
        except AuditError as error:
            failures = (str(error),)
        for failure in failures:
            log.say(f"alert not sent: {failure}")
        self._alerted = losses
        self._alert_at = now + AGAIN if failures else float("inf")

    def _newer(self, log: StageLog) -> KnownTables | None:
        try:
            return self.tables.newer(self.follower.known.needed)
        except AuditError as error:
            log.say(f"the tables could not be read again: {error}")
            return None

    def result(self, *, stopped: bool) -> CommandResult:
        """Return the last line and the exit code: 1 losses were reported, else 3 an evidence gap, else 0."""
        tally = self.follower.tally
        unknown, given_up = tally.unknown.total(), self.follower.decisions.given_up
        gaps = [
            *([f"{number(unknown, 'event')} could not be understood"] if unknown else []),
            *([_unread(self.missing)] if self.missing else []),
            *([f"{number(given_up, 'object')} could not be checked"] if given_up else []),
        ]
        verdict = f"{number(tally.events, 'event')}, {_losses(tally.losses)} reported"
        if gaps:
            verdict += f"; evidence gap: {', '.join(gaps)}; the next audit will close it"
        code = 0 if stopped else 1 if tally.losses else 3 if gaps else 0
        return CommandResult(verdict, code)


def _losses(many: int) -> str:
    return f"{count(many)} {'loss' if many == 1 else 'losses'}"


def _unread(messages: int) -> str:
    return f"at least {number(messages, 'message')} left the queue unread"


@contextmanager
def _signals(stopped: Event) -> Iterator[Event]:
    """Set the event at SIGTERM and Ctrl-C; a second Ctrl-C interrupts the process."""

    def stop(*_: object) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        former = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:  # not the main thread, as in tests
        former = {}
    try:
        yield stopped
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
