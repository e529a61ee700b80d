"""Follow the events of a queue: collect them for a few seconds, decide them together, report losses, and go on.

A message is deleted from the queue once all of its events are decided and their losses are published. A process that
is killed before gets the message again, and the ledger has its reports.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol

import pyarrow as pa

from lakeaudit.audit.run import new_run_id
from lakeaudit.errors import AuditError
from lakeaudit.evidence.protocol import Context
from lakeaudit.evidence.references import Key
from lakeaudit.findings.causes import with_causes
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.follow.causes import cause_rows
from lakeaudit.follow.decide import Candidate, Decisions, Loss, NoAnswer, NoLoss, OpenMessages, removes
from lakeaudit.follow.events import LOSING, ObjectEvent
from lakeaudit.follow.known_tables import KnownTables
from lakeaudit.follow.losses import Judged
from lakeaudit.follow.order import DecidedEvents
from lakeaudit.follow.publish import Publisher
from lakeaudit.follow.queue import Batch, Message
from lakeaudit.follow.removed_objects import RemovedObjects
from lakeaudit.formatting import visible
from lakeaudit.keys import true_place
from lakeaudit.ledger.load_open import OpenDiscrepancies
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, task_connection
from lakeaudit.runtime.failures import damage_of

MOST_OPEN = 50_000
"""Events that may be undecided before no more messages are received."""
MOST_CHECKS = 2000
"""Objects that are checked together."""


class Queue(Protocol):
    """A source of events: `queue.EventQueue` or `journal.JournalQueue`."""

    def collect(self, window: timedelta, idle: timedelta) -> Batch: ...
    def hidden(self, messages: Sequence[Message]) -> AbstractContextManager[None]: ...
    def delete(self, messages: Sequence[Message]) -> None: ...
    def release(self, messages: Sequence[Message]) -> None: ...
    def missing(self) -> int: ...


@dataclass
class Tally:
    """What a process has done: numbers of events, checks, losses and unknown parts of messages."""

    events: int = 0
    checks: int = 0
    losses: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    behind: float = 0.0
    """The age in seconds of the oldest message of the last window when it was received, by the clock of the queue."""
    failed: str = ""
    """Why losses could not be published, or objects not be judged, in the last round; empty: they were."""
    reported: list[str] = field(default_factory=list)
    """What was reported since the caller cleared this list, a line for each loss."""


@dataclass
class Follower:
    """Decides the events of a queue.

    Attributes:
        queue: the queue.
        known: the tables; a newer value may replace it between two calls.
        publisher: reports losses.
        round_context: returns the context of a round, with any clients.
        seconds: a monotonic clock.
    """

    queue: Queue
    known: KnownTables
    publisher: Publisher
    round_context: Callable[[], Context]
    seconds: Callable[[], float]
    tally: Tally = field(default_factory=Tally)
    decisions: Decisions = field(init=False)
    _messages: dict[str, Message] = field(default_factory=dict)
    _open: OpenMessages = field(default_factory=OpenMessages)
    _decided: DecidedEvents = field(default_factory=DecidedEvents)
    _window: dict[Key, list[ObjectEvent]] = field(default_factory=dict)
    _removed: RemovedObjects = field(default_factory=RemovedObjects)

    def __post_init__(self) -> None:
        self.decisions = Decisions(self._settle)

    def context(self) -> Context:
        """Return the context of a round."""
        return replace(self.round_context(), clients=self.known.clients)

    @property
    def undecided(self) -> int:
        """Return the number of objects whose events are not decided."""
        return len(self._window) + len(self.decisions)

    @property
    def next_due(self) -> float:
        """Return the seconds until an object is to be checked; infinity if none is."""
        due = (each.due for each in self.decisions.candidates.values())
        return max(min(due, default=float("inf")) - self.seconds(), 0.0)

    def open_messages(self) -> list[Message]:
        """Return the messages whose events are not decided."""
        return [*self._messages.values()]

    def receive(self, window: timedelta, idle: timedelta) -> int:
        """Receive the messages of a window, and return their number; see `EventQueue.collect`."""
        if self.undecided >= MOST_OPEN:
            return 0
        batch = self.queue.collect(window, idle)
        self.tally.behind = batch.oldest.total_seconds()
        self.tally.unknown.update(part.form for part in (*batch.unknown, *batch.foreign))
        for message in batch.messages:
            self._messages[message.id] = message
            self._open.add(message.id, self._sorted(message.parsed.events))
        return len(batch.messages)

    def _sorted(self, events: Sequence[ObjectEvent]) -> Collection[Key]:
        """Add events to the window, and return their objects."""
        names, keys = self.publisher.clients.names, set()
        for event in events:
            place = true_place(names, event.bucket, event.key)
            known = event if place == (event.bucket, event.key) else _moved(event, place)
            if event.change in LOSING and not self._decided.covers(known):
                self._window.setdefault(place, []).append(known)
                keys.add(place)
        self.tally.events += len(events)
        return keys

    def decide(self) -> int:
        """Decide the events of the window and all that are due; return the number of reported losses."""
        with self.queue.hidden([*self._messages.values()]):
            self._distribute()
            if self.decisions.due(self.seconds()) or self._to_read():
                self.tally.failed = ""
            self._read_commits()
            due = self.decisions.due(self.seconds())[:MOST_CHECKS]
            reported = self._check(due) if due else 0
            self._delete()
        return reported

    def _distribute(self) -> None:
        """Give the events of the window to the decisions."""
        window, self._window = self._window, {}
        keys, now = [*window], self.seconds()
        for key, tables in zip(keys, self.known.needed.tables_of(keys), strict=True):
            log = self.known.places.log_around(key)
            if log is not None and any(each.change == "created" for each in window[key]):
                self._removed.commit(log)
            own = log if any(each.change != "created" for each in window[key]) else None
            needing = (tables | {own} if own else tables) & self.known.watched
            around = self.known.places.around(key)
            self.decisions.add(
                key, window[key], needing, around if around in self.known.watched else None, now
            )

    def _to_read(self) -> list[str]:
        """Return the tables whose newest commits are to be read."""
        now = self.seconds()
        return [*dict.fromkeys([*self.decisions.to_read(now), *self._removed.to_read(now)])]

    def _read_commits(self) -> None:
        """Read the newest commits of the tables for which objects wait, or whose commits may list removed objects."""
        now = self.seconds()
        for table in self._to_read():
            context = self.context()
            unsure = self.known.needed.refresh([table], context)
            why = self.known.needed.reread(table, context) if table in unsure else None
            if why:
                self.tally.failed = why
            self.decisions.commits_read(table, self.known.needed.tables_of, now, whole=not why)
            added = self.known.needed.take_added(table)
            for key, events in self._removed.commits_read(table, added, now):
                self.decisions.add(key, events, {table}, None, now)

    def _check(self, due: Sequence[Candidate]) -> int:
        """Check objects, and report the losses that two checks have shown.

        If a table cannot be judged, the objects of the others are checked without it.
        """
        context, logs = self.context(), self._logs(due)
        if logs:
            context = self.publisher.with_last_states(context)
        stamp = RunStamp(new_run_id(context.now), self.publisher.lake.name, context.now)
        with task_connection("1GiB", threads=1) as con:
            try:
                judged = self._judged(con, due, context, stamp, {*logs.values()})
            except Exception as error:  # noqa: BLE001 - damage of one table must not end the others
                groups = _by_tables(due)
                if len(groups) > 1:
                    return sum(self._check(group) for group in groups)
                self.tally.failed = str(error) if isinstance(error, AuditError) else damage_of(error)
                self.decisions.decide({each.key: NoAnswer for each in due}, self.seconds())
                return 0
            self.tally.checks += len(due)
            lost = self.decisions.decide(_outcomes(due, judged, logs), self.seconds())
            return self._report(con, lost, judged, stamp) if lost else 0

    def _judged(
        self,
        con: Connection,
        due: Sequence[Candidate],
        context: Context,
        stamp: RunStamp,
        logs: Collection[str],
    ) -> Judged:
        tables = {name for each in due for name in each.tables}
        written = any(event.change == "created" for each in due for event in each.events)
        memory = self.publisher.open_discrepancies(tables, stamp.run_id) if written else OpenDiscrepancies()
        return self.known.judge.judge(con, tables, {each.key for each in due}, context, stamp, memory, logs)

    def _logs(self, due: Sequence[Candidate]) -> dict[Key, str]:
        """Return the objects of logs and metadata, with their tables."""
        found = {each.key: self.known.places.log_around(each.key) for each in due}
        return {key: table for key, table in found.items() if table is not None}

    def _report(self, con: Connection, lost: Sequence[Candidate], judged: Judged, stamp: RunStamp) -> int:
        """Publish losses; those that cannot be published are checked again later."""
        keys = duck.small(_KEYS, [each.key for each in lost])
        states = duck.literals(sorted({*self._logs(lost).values()} & judged.lost))
        sql = f"""SELECT findings.* FROM findings LEFT JOIN (SELECT bucket, key, true AS is_lost FROM keys)
            USING (bucket, key) WHERE coalesce(is_lost, false) OR (table_name IN ({states}) AND category = 'log')"""
        mine = duck.hold(con, duck.query(con, sql, findings=judged.findings, keys=keys))
        caused = with_causes(con, mine, cause_rows(event for each in lost for event in each.events))
        try:
            changed = self.publisher.publish(con, duck.hold(con, caused), stamp)
        except AuditError as error:
            self.tally.failed = str(error)
            self.decisions.put_off(lost, self.seconds())
            return 0
        self.decisions.reported(lost)
        reported = sum(changed.values())
        self.tally.losses += reported
        if reported:
            self.tally.reported += [*_lines(mine)]
        return reported

    def _settle(self, key: Key, events: Sequence[ObjectEvent]) -> None:
        for event in events:
            self._decided.record(event)
        around = self.known.places.around(key)
        if around in self.known.watched and removes(events):
            self._removed.add(key, around, events)
        else:
            self._removed.discard(key)
        self._open.settle(key)

    def _delete(self) -> None:
        """Delete the messages whose events are decided."""
        decided = [self._messages.pop(each) for each in self._open.take_decided() if each in self._messages]
        if decided:
            self.queue.delete(decided)


def _by_tables(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Return the objects by the tables that may need them."""
    groups: dict[frozenset[str], list[Candidate]] = {}
    for each in candidates:
        groups.setdefault(each.tables, []).append(each)
    return [*groups.values()]


def _lines(findings: Relation) -> Iterator[str]:
    for row in duck.rows_of(findings):
        yield f"{row['severity']} {row['kind']} in {row['table_name']}: {visible(row['subject'])}"


def _moved(event: ObjectEvent, place: Key) -> ObjectEvent:
    return replace(event, bucket=place[0], key=place[1])


_KEYS = pa.schema([("bucket", pa.string()), ("key", pa.string())])


def _outcomes(due: Sequence[Candidate], judged: Judged, logs: Mapping[Key, str]) -> Mapping[Key, str]:
    """Return what the check has shown of each object."""
    lost = {(row["bucket"], row["key"]) for row in duck.rows_of(judged.findings)}
    return {
        each.key: Loss
        if each.key in lost or logs.get(each.key) in judged.lost
        else NoAnswer
        if each.key in judged.undecided or each.tables & judged.unread.keys()
        else NoLoss
        for each in due
    }
