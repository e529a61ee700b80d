"""What commands run on Spark: a session that starts beside other work, and stops with it."""

import sys
import warnings
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from lakeaudit.config import Lake
from lakeaudit.runtime.threads import beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from lakeaudit.engine.spark import SparkEngine


@contextmanager
def spark_engine(lake: Lake) -> "Iterator[SparkEngine]":
    """An engine on Spark, which starts in a thread of its own once there is something to do.

    Raises:
        CannotAudit: no usable Java; Spark does not start; inside the block, a job failed.
    """
    from lakeaudit.engine.spark import SparkEngine
    from lakeaudit.runtime.job_errors import job_errors
    from lakeaudit.runtime.session import check_java, is_local, use_utc

    use_utc()
    check_java()
    with beside(1) as pool:
        starting = _Starting(lambda: pool.submit(_session, lake))
        try:
            engine = SparkEngine(
                starting.session, start=starting.begin, is_local=is_local, check=starting.check
            )
            with job_errors(), closing(engine):
                yield engine
        finally:
            interrupted = isinstance(sys.exception(), KeyboardInterrupt)
            with suppress(Exception), warnings.catch_warnings(action="ignore"):  # py4j hangs up on Ctrl-C
                starting.stop(wait=not interrupted)


class _Starting:
    """A session that is built beside other work, once that is asked for."""

    def __init__(self, submit: "Callable[[], Future[SparkSession]]") -> None:
        self._submit = submit
        self._begun: Future[SparkSession] | None = None

    def begin(self) -> "Future[SparkSession]":
        """Begin, unless that was done."""
        self._begun = self._begun or self._submit()
        return self._begun

    def session(self) -> "SparkSession":
        """Wait for it."""
        return self.begin().result()

    def check(self) -> None:
        """Raise what kept it from starting, where that is known by now."""
        if self._begun is not None and self._begun.done():
            self._begun.result()

    def stop(self, *, wait: bool) -> None:
        """Stop it, where it was begun; without `wait` one that is still starting ends with this process."""
        if self._begun is not None and (wait or self._begun.done()):
            self._begun.result().stop()


def _session(lake: Lake) -> "SparkSession":
    from lakeaudit.runtime.session import build_session

    return build_session(f"lakeaudit {lake.name}", brief=True, delta=False)
