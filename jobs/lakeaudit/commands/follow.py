"""Run `lakeaudit follow`: report losses of files within a minute, from the events of storage."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event

from lakeaudit.commands.alert import send
from lakeaudit.commands.follow_tables import TablesReader, state_folder
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Follow, Lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import AuditError, BadInput, Busy
from lakeaudit.evidence.protocol import Context
from lakeaudit.follow.journal import JournalQueue
from lakeaudit.follow.known_tables import KnownTables
from lakeaudit.follow.loop import Follower, Queue
from lakeaudit.follow.publish import Publisher
from lakeaudit.follow.queue import EventQueue
from lakeaudit.formatting import number, number_of, visible
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
    """Follow the queue or the journal of a lake until a signal, or as long as requested.

    Raises:
        BadInput: the lake file names no queue and no journal.
        CannotAudit: the queue or the journal does not exist or refuses access, or no table was discovered.
        CannotPublish: the index cannot be written.
    """
    if lake.follow is None:
        raise BadInput(
            "follow", "the lake file names no queue and no journal", "add the key `follow` (docs/follow.md)"
        )
    clients, engine = clients_of(lake), InProcessEngine()

    def context() -> Context:
        now = clock()
        return Context(engine, clients, now, now, live=True, rate=lake.settings.confirm.rate)

    tables = TablesReader(lake, clients, engine, context)
    with _queue(lake, lake.follow, clients, context) as queue, _signals(stop or Event()) as stopped:
        with progress.stage("read the tables") as log:
            known = tables.known_tables()
            log.note(tables=len(known.watched), files=known.needed.index.about.files)
        publisher = Publisher(lake, clients, clock)
        follower = Follower(queue, known, publisher, context, time.monotonic)
        session = _Session(request, lake, clients, clock, follower, queue, tables)
        with progress.stage("follow") as log:
            session.run(stopped, log)
    return session.result(stopped=stopped.is_set())


def _queue(
    lake: Lake, follow: Follow, clients: Clients, context: Callable[[], Context]
) -> EventQueue | JournalQueue:
    if follow.journal is not None:
        return JournalQueue(follow.journal, state_folder(lake), context)
    return EventQueue.open(follow, clients)


@dataclass
class _Session:
    """One run of the process."""

    request: Request
    lake: Lake
    clients: Clients
    clock: Callable[[], datetime]
    follower: Follower
    queue: Queue
    tables: TablesReader
    missing: int = 0
    failures: int = 0
    _alerted: int = 0
    _alert_at: float = 0.0
    """When alerts are due; an earlier process may have ended before it sent those of its losses."""
    _named: set[tuple[str, str]] = field(default_factory=set)
    _line_at: float = field(default_factory=time.monotonic)
    _state_at: float = field(default_factory=time.monotonic)

    def run(self, stopped: Event, log: StageLog) -> None:
        """Follow until the end."""
        began = time.monotonic()
        self._name_unwatched(log)
        while not stopped.is_set():
            received = self._receive(stopped)
            self.follower.decide()
            self._say(log)
            self._send_alerts(log)
            if (newer := self._newer(log)) is not None:
                self.follower.known = newer
                self._name_unwatched(log)
            if self.request.once and received == 0 and not self.follower.undecided:
                break
            if (
                self.request.most is not None
                and time.monotonic() - began >= self.request.most.total_seconds()
            ):
                break
        self.queue.release(self.follower.open_messages())

    def _name_unwatched(self, log: StageLog) -> None:
        """Name the tables whose losses are not reported, each once, and count the others of a long list."""
        new = [each for each in self.follower.known.unwatched.items() if each not in self._named]
        for name, why in new[:SHOWN]:
            log.say(f"losses of {visible(name)} are not reported: {why}", table=name)
        if len(new) > SHOWN:
            log.say(f"losses of {number(len(new) - SHOWN, 'other table')} are not reported")
        self._named.update(new)

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
        if len(tally.reported) > SHOWN:
            log.say(f"{_losses(len(tally.reported) - SHOWN)} more")
        tally.reported.clear()
        if now - self._state_at >= STATE:
            self._state_at = now
            self._count_missing(log)
        if now - self._line_at >= LINE:
            self._line_at = now
            log.say(self._line(), **self._counts())

    def _count_missing(self, log: StageLog) -> None:
        try:
            missing = self.queue.missing()
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
    return number_of(many, "loss", "losses")


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
