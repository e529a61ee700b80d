"""Spark jobs that could not finish although lakeaudit did nothing wrong: that is no bug, but no audit either."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException

from lakeaudit.errors import CannotAudit, one_line
from lakeaudit.runtime.failures import is_full_disk, no_room, scratch_place

_FAILED_JOB = "org.apache.spark.SparkException"
_OWN = "lakeaudit.errors."
_LONGEST = 300
_FULL = "no space left on device"


class _FullDisk(Exception):
    """What a job says of a disk without room."""


@contextmanager
def job_errors() -> Iterator[None]:
    """Tell of lost executors, spent memory and files that vanished while they were read in one line.

    Raises:
        CannotAudit: a job failed for such a reason.
    """
    try:
        yield
    except (Py4JJavaError, PythonException) as error:
        if is_full_disk(error):
            place = f"{scratch_place()}, or another folder for temporary files of Spark"
            raise no_room(place, _FullDisk(_cause(error) or _FULL)) from error
        cause = _cause(error)
        if cause is None:
            raise
        hint = "run it again; if that fails too, --debug shows where"
        raise CannotAudit(
            "Spark", f"a job failed: {one_line(cause, _LONGEST)}", hint, retryable=True
        ) from error


def _cause(error: Py4JJavaError | PythonException) -> str | None:
    """None for what only a bug explains."""
    if isinstance(error, PythonException):
        last = str(error).strip().splitlines()[-1]
        return last.partition(": ")[2] if last.startswith(_OWN) else None
    thrown = error.java_exception
    if thrown.getClass().getName() != _FAILED_JOB:
        return None
    return str(thrown.getMessage()).partition("\n")[0]
