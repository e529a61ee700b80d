"""Work that runs beside other work of the driver."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def beside(threads: int) -> Iterator[ThreadPoolExecutor]:
    """A pool that is left without waiting: a failure or Ctrl-C is told at once, and stopping Spark ends the rest."""
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
