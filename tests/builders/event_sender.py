"""Sends events of S3 to a queue as S3 does: late, twice, in any order, and with several records in a message."""

import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from threading import Event, Lock
from typing import Any

from tests.builders.object_events import notification, record

_PAUSE = 0.1
"""Seconds between two rounds of sending."""


@dataclass(frozen=True)
class Chaos:
    """The faults of the delivery of events, as parts of all events, and the most seconds of a delay.

    Attributes:
        records: the most records of a message.
    """

    twice: float = 0.05
    late: float = 0.05
    delay: float = 20.0
    records: int = 5


@dataclass
class Sender:
    """Sends events to a queue, each when it is due."""

    bucket: str
    queue: str
    chaos: Chaos
    random: random.Random
    messages: int = 0
    events: int = 0
    _due: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)
    _count: int = 0
    _lock: Lock = field(default_factory=Lock)

    def tell(self, name: str, key: str) -> None:
        """Send an event about an object now, or later, or twice."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        about = record(name, self.bucket, key, at=at, sequencer=f"{time.time_ns():016X}")
        now, late = time.monotonic(), self.random.random() < self.chaos.late
        with self._lock:
            self._add(now + (self.random.random() * self.chaos.delay if late else 0), about)
            if self.random.random() < self.chaos.twice:
                self._add(now + self.random.random() * self.chaos.delay, about)

    def _add(self, at: float, about: dict[str, Any]) -> None:
        self._count += 1
        heappush(self._due, (at, self._count, about))

    def run(self, client: Any, stopped: Event) -> None:
        """Send what is due until the end; then all that is left."""
        while not stopped.wait(_PAUSE):
            self._send(client, time.monotonic())
        self._send(client, float("inf"))

    def _send(self, client: Any, until: float) -> None:
        due: list[dict[str, Any]] = []
        with self._lock:
            while self._due and self._due[0][0] <= until:
                due.append(heappop(self._due)[2])
        self.random.shuffle(due)
        self.events += len(due)
        bodies: list[str] = []
        while due:
            many = self.random.randint(1, self.chaos.records)
            bodies.append(notification(*due[:many]))
            del due[:many]
        for start in range(0, len(bodies), 10):
            group = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies[start : start + 10])]
            client.send_message_batch(QueueUrl=self.queue, Entries=group)
        self.messages += len(bodies)
