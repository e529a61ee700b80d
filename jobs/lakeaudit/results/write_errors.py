"""What a results place says when it refuses, and the one line that people are told."""

from collections.abc import Sequence
from typing import NoReturn

from lakeaudit.errors import CannotPublish
from lakeaudit.keys import Location


def refuse(place: Location, causes: Sequence[str], error: Exception) -> NoReturn:
    """Raise CannotPublish for what went wrong, outermost cause first."""
    told = " ".join(causes)
    for signs, what, way_out, may_pass in _REFUSALS:
        if any(sign in told for sign in signs):
            raise CannotPublish(place.uri, what, way_out, may_pass) from error
    first = causes[-1].splitlines()[0][:200]
    raise CannotPublish(
        place.uri, f"the results cannot be written ({first})", "mend the place, or use another"
    )


# words of the refusal, what it is, the way out, whether it may pass
_REFUSALS = (
    (
        ("AccessDenied", "Access Denied", "Permission denied", "Read-only file system", "Status Code: 403"),
        "the results may not be written",
        "grant list, get, put and delete rights on this place",
        False,
    ),
    (
        ("UnknownStoreException", "NoSuchBucket"),
        "the bucket does not exist",
        "create it, or check the name",
        False,
    ),
    (
        ("NoAuthWithAWS", "Unable to load credentials", "NoAwsCredentials"),
        "no AWS credentials found",
        "set a profile, role or environment of the AWS chain",
        False,
    ),
    (
        ("ConnectException", "UnknownHostException", "Connection refused"),
        "the endpoint cannot be reached",
        "check s3.endpoint and the network",
        True,
    ),
    (
        ("io.delta.exceptions.Concurrent", "ProtocolChangedException", "MetadataChangedException"),
        "another audit is writing here",
        "run one audit of a lake at a time, then run this one again",
        True,
    ),
    (
        ("Mkdirs failed", "ParentNotDirectory", "Not a directory", "DELTA_CANNOT_CREATE_LOG_PATH"),
        "no folder can be made there",
        "check the path of `results`",
        False,
    ),
)
