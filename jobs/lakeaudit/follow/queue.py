"""Receive the events of a queue, keep their messages hidden while they are decided, and delete them afterwards.

A message is deleted only by `delete`: if the process ends before, SQS delivers it again. A message that no store sent
is never deleted, since the queue may be another program's: SQS moves it to the dead-letter queue if there is one, and
drops it at the end of its retention otherwise.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from math import ceil
from threading import Event, Thread
from types import TracebackType
from typing import Self

from lakeaudit.config import Follow
from lakeaudit.errors import AuditError
from lakeaudit.follow.event_fields import UnknownPart
from lakeaudit.follow.events import ObjectEvent, ParsedMessage, events_of
from lakeaudit.follow.missing_messages import MissingMessages
from lakeaudit.follow.sqs import AT_ONCE, LONGEST_POLL, Attributes, Received, SqsQueue, groups, open_queue
from lakeaudit.permissions.event_places import is_canary
from lakeaudit.runtime.connections.aws import Clients

HIDDEN = 60
"""Seconds for which a message stays hidden without a renewal: after a crash it is received again this much later."""
SET_ASIDE = 900
"""Seconds until a message that no store sent is received again, if there is no dead-letter queue."""
YIELDED, CANARY_AGE = 5, timedelta(seconds=70)
"""A recent message about a canary is left to doctor: it is received again after some seconds, until it has this age."""
PARALLEL = 4
"""Requests at once for a queue that has many messages."""
MOST_PARTS = 20_000
"""Messages and events of a batch, which the last group of requests may exceed: this bounds the memory."""
_REMEMBERED = 10_000
_LONGEST_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Message:
    """A received message without its body."""

    id: str
    receipt: str
    parsed: ParsedMessage
    age: timedelta | None


@dataclass(frozen=True)
class Batch:
    """The messages of one window.

    Attributes:
        messages: to be passed to `delete` once all their events are decided.
        foreign: parts of messages that no store sent, each message once; they stay in the queue.
    """

    messages: tuple[Message, ...] = ()
    foreign: tuple[UnknownPart, ...] = ()

    @property
    def events(self) -> Iterator[ObjectEvent]:
        return chain.from_iterable(message.parsed.events for message in self.messages)

    @property
    def unknown(self) -> tuple[UnknownPart, ...]:
        """The events of stores that were not understood: an evidence gap, since they may be deletes."""
        return tuple(chain.from_iterable(message.parsed.unknown for message in self.messages))

    @property
    def oldest(self) -> timedelta:
        """The greatest age of a message at its receipt; zero if no age is known."""
        return max((message.age for message in self.messages if message.age), default=timedelta(0))


@dataclass(frozen=True)
class QueueState:
    """The state of a queue now.

    Attributes:
        missing: messages that left the queue since the last call without being received (purged, expired, read by
            another program): an evidence gap. The number is a lower bound.
    """

    attributes: Attributes
    missing: int


class EventQueue:
    """The queue of a lake; a context manager.

    Use: `collect` a batch, decide it inside `hidden`, and pass its messages to `delete`.
    """

    def __init__(self, queue: SqsQueue, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the queue's properties once.

        Raises:
            CannotAudit: the queue does not exist, or access is denied.
        """
        self._queue = queue
        self._clock = clock
        self._pool = ThreadPoolExecutor(PARALLEL, "queue")
        self._foreign: OrderedDict[str, None] = OrderedDict()
        self._hidden_at: dict[str, float] = {}
        self._missing = MissingMessages(clock)
        self._has_dead_letters = self.state().attributes.most_receives is not None

    @classmethod
    def open(cls, follow: Follow, clients: Clients) -> Self:
        """Return the queue of a lake file; raises as the constructor does."""
        return cls(open_queue(follow, clients))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def state(self) -> QueueState:
        """Return the numbers of messages, which SQS counts with a delay of up to a minute."""
        attributes = self._queue.attributes()
        return QueueState(attributes, self._missing.observe(attributes.messages))

    def missing(self) -> int:
        """Return how many messages left the queue since the last call without being received, at least."""
        return self.state().missing

    def collect(self, window: timedelta, idle: timedelta = timedelta(seconds=LONGEST_POLL)) -> Batch:
        """Return the messages that arrive in a window, which begins with the first of them.

        Return an empty batch if none arrives within `idle`, and a batch early if it has `MOST_PARTS`.

        Raises:
            CannotAudit: a request failed; `retryable` if another may succeed.
        """
        messages: list[Message] = []
        foreign: list[UnknownPart] = []
        try:
            self._fill(messages, foreign, window, idle)
        except BaseException:  # also Ctrl-C: another process need not wait for them
            self.release(messages)
            raise
        return Batch(tuple(messages), tuple(foreign))

    def _fill(
        self, messages: list[Message], foreign: list[UnknownPart], window: timedelta, idle: timedelta
    ) -> None:
        end, size, is_full = self._clock() + idle.total_seconds(), 0, False
        while size < MOST_PARTS and (left := end - self._clock()) > 0:
            deliveries = self._receive(left, window, at_once=PARALLEL if is_full else 1)
            if deliveries and not size:
                end = self._clock() + window.total_seconds()
            for delivery in deliveries:
                size += self._add(delivery, messages, foreign)
            is_full = len(deliveries) >= AT_ONCE
            if deliveries and not is_full:
                time.sleep(_pause(end - self._clock(), window))

    def _receive(self, left: float, window: timedelta, *, at_once: int) -> list[Received]:
        """Receive by one request, which waits for a message, or by several from a queue that has many."""
        visibility = HIDDEN + ceil(window.total_seconds())
        if at_once == 1:
            return self._queue.receive(min(max(ceil(left), 1), LONGEST_POLL), visibility)
        requests = [self._pool.submit(self._queue.receive, 1, visibility) for _ in range(at_once)]
        return [each for request in requests for each in request.result()]

    def _add(self, delivery: Received, messages: list[Message], foreign: list[UnknownPart]) -> int:
        """Add a delivery to one of the lists; return the number of its parts."""
        parsed = events_of(delivery.body)
        if _is_of_doctor(parsed, delivery.age):
            self._queue.hide([delivery.receipt], YIELDED)
            return 1
        if not parsed.is_foreign:
            messages.append(Message(delivery.id, delivery.receipt, parsed, delivery.age))
            self._hidden_at[delivery.receipt] = self._clock()
        elif self._set_aside(delivery):
            foreign += parsed.unknown[:1]
        return 1 + len(parsed.events) + len(parsed.unknown)

    def _set_aside(self, delivery: Received) -> bool:
        """Leave a message in the queue; return whether it is received for the first time."""
        if not self._has_dead_letters:
            self._queue.hide([delivery.receipt], SET_ASIDE)
        is_new = delivery.id not in self._foreign
        self._foreign[delivery.id] = None
        if len(self._foreign) > _REMEMBERED:
            self._foreign.popitem(last=False)
        if is_new:
            self._missing.excuse(1)
        return is_new

    @contextmanager
    def hidden(self, messages: Sequence[Message]) -> Iterator[None]:
        """Keep messages hidden from other receivers until the block ends, however long it takes.

        Messages that stay undecided belong into the next block, too.
        """
        end = Event()
        receipts = [message.receipt for message in messages]
        thread = Thread(target=self._keep_hidden, args=(receipts, end), name="hidden messages", daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def _keep_hidden(self, receipts: Sequence[str], end: Event) -> None:
        """Renew in time; a renewal that fails is tried again soon, and at worst SQS delivers the messages again."""
        is_first = True
        while is_first or not end.wait(HIDDEN / 30):
            is_first = False
            before = self._clock() - HIDDEN / 3
            due = [each for each in receipts if self._hidden_at.get(each, before) <= before]
            for group in groups(due):
                with suppress(AuditError):
                    self._queue.hide(group, HIDDEN)
                    self._hidden_at.update(dict.fromkeys(group, self._clock()))
                if end.is_set():
                    return

    def delete(self, messages: Sequence[Message]) -> None:
        """Delete messages whose events are decided; those that SQS does not delete are delivered again.

        Raises:
            CannotAudit: a request failed.
        """
        receipts = [message.receipt for message in messages]
        failures = sum(self._pool.map(self._queue.delete, groups(receipts)))
        self._missing.delete(len(messages) - failures)
        self._forget(receipts)

    def release(self, messages: Sequence[Message]) -> None:
        """Show messages again at once, for the next process; at worst they are shown after `HIDDEN` seconds."""
        receipts = [message.receipt for message in messages]
        with suppress(AuditError):
            self._queue.hide(receipts, 0)
        self._forget(receipts)

    def _forget(self, receipts: Sequence[str]) -> None:
        for receipt in receipts:
            self._hidden_at.pop(receipt, None)


def _is_of_doctor(parsed: ParsedMessage, age: timedelta | None) -> bool:
    """Return whether a running doctor may wait for a message: it is about a canary only, and recent."""
    is_recent = age is not None and age < CANARY_AGE
    return is_recent and bool(parsed.events) and all(is_canary(event.key) for event in parsed.events)


def _pause(left: float, window: timedelta) -> float:
    """Return the seconds before the next request: fewer and fuller answers cost less than many small ones."""
    return max(0.0, min(left, _LONGEST_PAUSE, window.total_seconds() / 10))
