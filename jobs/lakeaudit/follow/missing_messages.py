"""Notice that messages left a queue without being received here: it was purged, they expired, or others read it. Pure.

SQS reports no purge: a purged queue looks empty. But the number of its messages falls by more than the deletions here.
"""

from collections import deque
from collections.abc import Callable

LAG = 120.0
"""Seconds by which the numbers of SQS may be out of date, which are a minute behind at most."""
SLACK = 10
"""Smaller differences are not reported: the numbers are approximate."""


class MissingMessages:
    """Compare the numbers of messages with the deletions; the result is a lower bound."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deletions: deque[tuple[float, int]] = deque()
        self._last: tuple[float, int] | None = None
        self._excused = 0

    def delete(self, messages: int) -> None:
        """Record deletions of this process."""
        self._deletions.append((self._clock(), messages))

    def excuse(self, messages: int) -> None:
        """Record messages that may leave the queue for the dead-letter queue."""
        self._excused += messages

    def observe(self, messages: int) -> int:
        """Return how many messages are missing since the last call, and record the present number."""
        now = self._clock()
        missing = 0
        if self._last is not None:
            since, before = self._last
            while self._deletions and self._deletions[0][0] < since - LAG:
                self._deletions.popleft()
            own = sum(number for _, number in self._deletions) + self._excused
            missing = before - own - messages
        self._last = (now, messages)
        return missing if missing > SLACK else 0
