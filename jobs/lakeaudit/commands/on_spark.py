"""Run a command on Spark, with a session that starts in the background and stops at the end."""

import sys
import warnings
from contextlib import closing, contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING

from lakeaudit.config import Lake
from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.extras import install_hint, missing_of
from lakeaudit.runtime.java import under_submit
from lakeaudit.runtime.threads import beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from lakeaudit.engine.spark import SparkEngine


@contextmanager
def spark_engine(lake: Lake, *, at_once: bool = False) -> "Iterator[SparkEngine]":
    """Yield an engine on Spark, which starts in a thread of its own once it is needed.

    `at_once`: it starts with the audit, even if this process could do all work itself, as it does under spark-submit.

    Raises:
        CannotAudit: there is no usable Java, Spark does not start, or a job failed inside the block.
    """
    from lakeaudit.engine.spark import SparkEngine
    from lakeaudit.runtime.job_errors import job_errors
    from lakeaudit.runtime.spark_settings import use_utc

    use_utc()
    with beside(1) as pool:
        starting = _Starting(lambda: pool.submit(_session, lake))
        try:
            engine = SparkEngine(
                starting.session,
                start=starting.begin,
                is_local=_is_local,
                check=starting.check,
                at_once=at_once or under_submit(),
            )
            with job_errors(), closing(engine):
                yield engine
        finally:
            interrupted = isinstance(sys.exception(), KeyboardInterrupt)
            with suppress(Exception), warnings.catch_warnings(action="ignore"):  # py4j hangs up on Ctrl-C
                starting.stop(wait=not interrupted)


def _is_local() -> bool:
    if not under_submit():
        return True
    from lakeaudit.runtime.session import is_local

    return is_local()


class _Starting:
    """A session that starts in the background when it is first needed."""

    def __init__(self, submit: "Callable[[], Future[SparkSession]]") -> None:
        self._submit = submit
        self._future: Future[SparkSession] | None = None
        self._lock = Lock()

    def begin(self) -> "Future[SparkSession]":
        """Start the session unless it was started before."""
        with self._lock:  # several readers may find at the same time that they need Spark
            self._future = self._future or self._submit()
        return self._future

    def session(self) -> "SparkSession":
        """Wait for the session."""
        return self.begin().result()

    def check(self) -> None:
        """Raise the exception of a start that has failed by now."""
        if self._future is not None and self._future.done():
            self._future.result()

    def stop(self, *, wait: bool) -> None:
        """Stop the session; without `wait`, one that is still starting ends with this process."""
        if self._future is not None and (wait or self._future.done()):
            self._future.result().stop()


def _session(lake: Lake) -> "SparkSession":
    from lakeaudit.runtime.session import build_session

    if missing := missing_of(
        "spark"
    ):  # Spark would report it for each source, as evidence that cannot be read
        raise CannotAudit(missing[0], "is not installed", install_hint("spark"))
    return build_session(f"lakeaudit {lake.name}", brief=True, delta=False)
