"""Report Spark jobs that failed because of the cluster or the machine, which is not a bug of lakeaudit."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakeaudit.errors import CannotAudit, one_line
from lakeaudit.runtime.failures import is_full_disk, no_room, scratch_place

_FAILED_JOB = "org.apache.spark.SparkException"
_OWN = "lakeaudit.errors."
_LONGEST = 300
_FULL = "no space left on device"


class _FullDisk(Exception):
    """The message of a job about a full disk."""


@contextmanager
def job_errors() -> Iterator[None]:
    """Report lost executors, exhausted memory and files that vanished while they were read in one line.

    Raises:
        CannotAudit: a job failed for such a reason.
    """
    try:
        yield
    except Exception as error:
        if not _is_of_spark(error):
            raise
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


def _is_of_spark(error: Exception) -> bool:
    if "pyspark" not in sys.modules:
        return False
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PythonException

    return isinstance(error, Py4JJavaError | PythonException)


def _cause(error: Any) -> str | None:
    """Return the cause of a failed job; None for an error that only a bug explains."""
    from pyspark.errors import PythonException

    if isinstance(error, PythonException):
        last = str(error).strip().splitlines()[-1]
        return last.partition(": ")[2] if last.startswith(_OWN) else None
    thrown = error.java_exception
    if thrown.getClass().getName() != _FAILED_JOB:
        return None
    return str(thrown.getMessage()).partition("\n")[0]
