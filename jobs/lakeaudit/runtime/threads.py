"""Run work of the driver in parallel, and pace requests."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock


@contextmanager
def beside(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool that is left without waiting: a failure or Ctrl-C ends the block at once, and Spark the rest."""
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Pacer:
    """Slots in time at even distances, one for each request, shared by all threads."""

    def __init__(
        self,
        rate: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval = 1 / rate
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._next = 0.0

    def wait(self) -> None:
        """Take the next free slot, and return when its time has come."""
        with self._lock:
            now = self._clock()
            slot = max(self._next, now)
            self._next = slot + self._interval
        if slot > now:
            self._sleep(slot - now)
