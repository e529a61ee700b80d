"""What a results place answers to Spark when it refuses, in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lakeaudit.keys import Location
from lakeaudit.results.write_errors import refuse


@contextmanager
def refusals(place: Location, *, only_its_own: bool = False) -> Iterator[None]:
    """Turn what the results place answers into one line.

    With `only_its_own`, a failure of which no cause names the place passes: it came with the rows.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        causes = _causes(error)
        if only_its_own and not _names(place, causes):
            raise
        refuse(place, causes, error)


def _names(place: Location, causes: list[str]) -> bool:
    """Whether the store behind the place spoke: Spark itself names the place whatever failed while writing."""
    path = f"{place.bucket}/{place.key}" if place.bucket else f"/{place.key}"
    spoken = [cause.partition("\n")[0] for cause in causes if not cause.startswith("org.apache.spark.")]
    return any(path in cause or "io.delta.exceptions." in cause for cause in spoken)


def _causes(error: Exception) -> list[str]:
    """What the JVM says, outermost first; the last is the first cause."""
    thrown: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    told: list[str] = []
    while thrown is not None and len(told) < 20:
        told.append(str(thrown.toString()))
        thrown = thrown.getCause()
    return told or [str(error)]
