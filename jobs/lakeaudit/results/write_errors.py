"""Turns the refusals of a results place into one line that says what to do."""

from collections.abc import Sequence
from typing import NoReturn

from lakeaudit.errors import CannotPublish, one_line
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws_failures import TRUST
from lakeaudit.runtime.failures import is_full_disk, no_room


def refuse(place: Location, causes: Sequence[str], error: Exception) -> NoReturn:
    """Raise CannotPublish for an error of boto3, delta-rs or a folder; `causes` are its texts."""
    if is_full_disk(error):
        raise no_room(place.uri, error) from error
    text = one_line(" ".join(causes))
    for signs, what, hint, retryable in _REFUSALS:
        if any(sign in text for sign in signs):
            raise CannotPublish(place.uri, what, hint, retryable) from error
    first = one_line(causes[-1], 200)
    raise CannotPublish(
        place.uri, f"the results cannot be written ({first})", "repair the place, or use another"
    ) from error


# parts of the error's text, what it means, what to do, whether a retry may succeed
_REFUSALS = (
    (
        ("invalid peer certificate", "UnknownIssuer", "CERTIFICATE_VERIFY_FAILED", "SSLError"),
        "the certificate of the endpoint is not trusted",
        TRUST,
        False,
    ),
    (
        (
            *("AccessDenied", "Access Denied", "Permission denied", "Read-only file system", "Status Code: 403"),
            *("InvalidAccessKeyId", "SignatureDoesNotMatch", "(403)", "403 Forbidden"),
        ),
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
        ("NoCredentialsError", "PartialCredentialsError", "Unable to locate credentials"),
        "no AWS credentials found",
        "set a profile, role or environment of the AWS chain",
        False,
    ),
    (
        ("EndpointConnectionError", "ConnectTimeoutError", "ConnectionClosedError", "ConnectionRefused",
         "Connection refused", "error trying to connect", "error sending request"),
        "the endpoint cannot be reached",
        "check s3.endpoint and the network",
        True,
    ),
    (
        ("CommitFailedError", "ConcurrentAppend", "ConcurrentTransaction", "ConcurrentDelete"),
        "another audit is writing here",
        "run one audit of a lake at a time, then run this one again",
        True,
    ),
    (
        ("NotADirectoryError", "FileExistsError", "Not a directory"),
        "no folder can be made there",
        "check the path of `results`",
        False,
    ),
)  # fmt: skip
