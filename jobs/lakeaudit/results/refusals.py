"""What a results place answers when it refuses, in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lakeaudit.errors import CannotPublish
from lakeaudit.keys import Location


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
        _refuse(place, causes, error)


def _names(place: Location, causes: list[str]) -> bool:
    """Whether the store behind the place spoke: Spark itself names the place whatever failed while writing."""
    path = f"{place.bucket}/{place.key}" if place.bucket else f"/{place.key}"
    spoken = [cause.partition("\n")[0] for cause in causes if not cause.startswith("org.apache.spark.")]
    return any(path in cause or "io.delta.exceptions." in cause for cause in spoken)


def _refuse(place: Location, causes: list[str], error: Exception) -> NoReturn:
    told = " ".join(causes)
    for signs, what, way_out in _REFUSALS:
        if any(sign in told for sign in signs):
            raise CannotPublish(place.uri, what, way_out) from error
    first = causes[-1].splitlines()[0][:200]
    raise CannotPublish(
        place.uri, f"the results cannot be written ({first})", "mend the place, or use another"
    )


_REFUSALS = (
    (
        ("AccessDenied", "Access Denied", "Permission denied", "Read-only file system", "Status Code: 403"),
        "the results may not be written",
        "grant list, get, put and delete rights on this place",
    ),
    (("UnknownStoreException", "NoSuchBucket"), "the bucket does not exist", "create it, or check the name"),
    (
        ("NoAuthWithAWS", "Unable to load credentials", "NoAwsCredentials"),
        "no AWS credentials found",
        "set a profile, role or environment of the AWS chain",
    ),
    (
        ("ConnectException", "UnknownHostException", "Connection refused"),
        "the endpoint cannot be reached",
        "check s3.endpoint and the network",
    ),
    (
        ("io.delta.exceptions.Concurrent", "ProtocolChangedException", "MetadataChangedException"),
        "another audit is writing here",
        "run one audit of a lake at a time, then run this one again",
    ),
    (
        ("Mkdirs failed", "ParentNotDirectory", "Not a directory", "DELTA_CANNOT_CREATE_LOG_PATH"),
        "no folder can be made there",
        "check the path of `results`",
    ),
)


def _causes(error: Exception) -> list[str]:
    """What the JVM says, outermost first; the last is the first cause."""
    thrown: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    told: list[str] = []
    while thrown is not None and len(told) < 20:
        told.append(str(thrown.toString()))
        thrown = thrown.getCause()
    return told or [str(error)]
