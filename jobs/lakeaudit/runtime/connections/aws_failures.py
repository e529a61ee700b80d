"""Explain the refusals of a store: a message and a hint, and whether a key is missing, denied or worth a retry."""

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import botocore.session
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    FlexibleChecksumError,
    LoginError,
    LoginInsufficientPermissions,
    MetadataRetrievalError,
    MissingDependencyException,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    ReadTimeoutError,
    RefreshWithMFAUnsupportedError,
    SSLError,
    SSOError,
    TokenRetrievalError,
)

from lakeaudit.advice.command_lines import option
from lakeaudit.errors import one_line
from lakeaudit.keys import LOCAL_ELSEWHERE
from lakeaudit.runtime.connections.request_budget import BudgetSpent

LACKS = "the store lacks this operation"
ARCHIVED = "is archived and cannot be read before it is restored"
_CODES = {
    "404": ("does not exist", "check the name"),
    "NoSuchBucket": ("the bucket does not exist", "check the name and the endpoint"),
    "NoSuchKey": ("does not exist", "check the path"),
    "ResourceNotFoundException": ("the table does not exist", "check its name, region and endpoint"),
    "403": ("access denied", "grant read and list rights to the audit's role"),
    "AccessDenied": ("access denied", "grant read and list rights to the audit's role"),
    "AccessDeniedException": ("access denied", "grant read and list rights to the audit's role"),
    "InvalidObjectState": (ARCHIVED, "request it back (`aws s3api restore-object`), which takes hours"),
    "301": ("lies in another region", "set s3.region of this source"),
    "PermanentRedirect": ("lies in another region", "set s3.region of this source"),
    "AuthorizationHeaderMalformed": ("lies in another region", "set s3.region of this source"),
    "IllegalLocationConstraintException": ("lies in another region", "set s3.region of this source"),
    "InvalidAccessKeyId": ("the access key is not known", "check the AWS credentials chain"),
    "SignatureDoesNotMatch": ("the secret key does not fit", "check the AWS credentials chain"),
    "ExpiredToken": ("the credentials have expired", "renew them and run again"),
    "ExpiredTokenException": ("the credentials have expired", "renew them and run again"),
    "NotImplemented": (LACKS, "no right is missing: see the operations in the store's own docs"),
    "501": (LACKS, "no right is missing: see the operations in the store's own docs"),
}

_CONDITION_REFUSED = {
    *("PreconditionFailed", "ConditionalRequestConflict", "412", "409"),
    "ConditionalCheckFailedException",  # DynamoDB
}

_PASSING = {
    *("SlowDown", "Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded"),
    *("ProvisionedThroughputExceededException", "RequestTimeout", "ExpiredToken", "ExpiredTokenException"),
}
_SERVER_AT_FAULT, _NOT_IMPLEMENTED = 500, 501


class OnAzure(BotoCoreError):
    """A request of the S3 API was meant for a container of Azure."""

    fmt = "{bucket} lies on Azure"


LOCAL_PATH = "a local path in a table on object storage"
OTHER_STORE = "lies in a store that is not read"


class OnOtherStore(BotoCoreError):
    """A request was meant for a store that is not known, or for a local path that only another host has."""

    fmt = "{reason}"


def why_not_read(bucket: str) -> str:
    """Return why a place outside of the known stores is not read."""
    return LOCAL_PATH if bucket == LOCAL_ELSEWHERE else OTHER_STORE


class OddResponse(BotoCoreError):
    """A store's response is not that of S3: nothing can be concluded from it."""

    fmt = "{reason}"
    hint = "check s3.endpoint and the store's own log"


class BrokenListing(OddResponse):
    """The pages of a listing do not make a complete list."""

    hint = "repeat the command; if it happens every time, the store has a fault: report it to the store's operator"


class IncompleteResponse(OddResponse):
    """A response lacks required fields."""

    fmt = "the store's response lacks {fields}"


class UnreadableResponse(OddResponse):
    """A response is not the XML that S3 sends."""

    fmt = "{endpoint} answers, but not as S3 does ({reason})"


class WebPage(OddResponse):
    """A web page (a console, a login, a proxy) answers instead of a store."""

    fmt = "a web page answers at {endpoint}, and no S3 store"
    hint = "set s3.endpoint to the address of the S3 API, often another port or host than the console's"


class Failure(NamedTuple):
    """The message and hint of an AWS failure, without secrets and on one line; `retryable`: another try may succeed."""

    what: str
    hint: str
    retryable: bool = False


def explain(error: Exception) -> Failure:
    """Return the message and hint of an exception."""
    about_session = _of_session(error) or _of_connection(error)
    if about_session is not None:
        return about_session
    if isinstance(error, OnAzure):
        return Failure("lies on Azure, from which files are only read", "see docs/lakes/azure.yaml")
    if isinstance(error, OnOtherStore):
        return Failure(str(error), "name it by the object storage that has it, or add its origin to `maps`")
    if isinstance(error, BudgetSpent):
        return Failure(str(error), error.hint)
    if isinstance(error, FlexibleChecksumError):
        return _CHECKSUMS_DIFFER
    if isinstance(error, ClientError):
        return _of_answer(error)
    return Failure(
        f"{type(error).__name__}: {one_line(str(error), _LONGEST)}", "run again with --debug for more"
    )


def _of_session(error: Exception) -> Failure | None:
    """Explain why the AWS chain has no credentials; another try does not help when a session has ended."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return no_credentials()
    if isinstance(error, ProfileNotFound):
        name = error.kwargs["profile"]
        return Failure(f"the AWS configuration has no profile {name}", "correct AWS_PROFILE")
    for kind, failure in _PLAIN.items():
        if isinstance(error, kind):
            return failure
    for kinds, session, command in _SESSIONS:
        if isinstance(error, kinds):
            profile = profile_name() or "default"
            ended = f"the {session} session of profile {profile} has ended"
            return Failure(ended, f"aws {command} {option('--profile', profile)}")
    if isinstance(error, CredentialRetrievalError | MetadataRetrievalError):
        provider = error.kwargs.get("provider", "the instance's metadata")
        what = f"{provider} returned no credentials"
        return Failure(what, "run it by hand: its error may hold a secret and is not repeated here")
    return None


_PLAIN: dict[type[Exception], Failure] = {
    LoginInsufficientPermissions: Failure(
        "the login session lacks a right", "grant signin:CreateOAuth2Token"
    ),
    MissingDependencyException: Failure(
        "the AWS configuration needs a package that is missing", "pip install 'botocore[crt]'"
    ),
    RefreshWithMFAUnsupportedError: Failure(
        "the role's session has ended, and a new one needs an MFA code", "renew it and run again"
    ),
}
_SESSIONS: tuple[tuple[tuple[type[Exception], ...], str, str], ...] = (
    ((SSOError, TokenRetrievalError, NoAuthTokenError), "SSO", "sso login"),
    ((LoginError,), "login", "login"),
)
"""Errors of botocore, the kind of session that has ended, and the command of the AWS CLI that begins another."""


def _of_connection(error: Exception) -> Failure | None:
    """Explain why no response came. Certificates and proxies come first: their errors are connection errors too."""
    if isinstance(error, SSLError):
        host = _origin(str(error.kwargs.get("endpoint_url") or ""))
        return Failure(f"the certificate of the endpoint{host} is not trusted", TRUST)
    if isinstance(error, ProxyConnectionError):
        proxy = _origin(str(error.kwargs.get("proxy_url") or ""))
        return Failure(
            f"the proxy{proxy} cannot be reached", "check HTTPS_PROXY and NO_PROXY", retryable=True
        )
    if isinstance(error, EndpointConnectionError | ConnectTimeoutError | ConnectionClosedError):
        return unreachable(str(error.kwargs.get("endpoint_url") or ""))
    if isinstance(error, OddResponse):
        return Failure(str(error), error.hint, retryable=isinstance(error, UnreadableResponse))
    if isinstance(error, ReadTimeoutError):
        return Failure("the store did not answer in time", "run it again when it does", retryable=True)
    return None


TRUST = "name its authority in AWS_CA_BUNDLE, or in ca_bundle of the profile"


def _of_answer(error: ClientError) -> Failure:
    code = code_of(error) or "?"
    if code not in _CODES_OF_RIGHTS and any(map(_ABOUT_CHECKSUMS.search, _texts(error))):
        return _CHECKSUMS_REFUSED
    known = _CODES.get(code, (f"the store answered {one_line(code, _LONGEST)}", "see the store's own log"))
    return Failure(*known, retryable=_is_passing(error, code))


def _is_passing(error: ClientError, code: str) -> bool:
    status = _status(error)
    return code in _PASSING or (status >= _SERVER_AT_FAULT and status != _NOT_IMPLEMENTED)


def _texts(error: ClientError) -> Iterator[str]:
    """Yield the texts of a store's error, from all of its fields."""
    yield from (str(value) for value in error.response.get("Error", {}).values())


_ABOUT_CHECKSUMS = re.compile(
    r"x-amz-(?:sdk-)?checksum|x-amz-trailer|x-amz-content-sha256|XAmzContentSHA256Mismatch|aws-chunked"
    r"|AWS chunked encoding|STREAMING-(?:UNSIGNED|AWS4)|CRC32|trailing checksum",
    re.IGNORECASE,
)
_CODES_OF_RIGHTS = ("AccessDenied", "AccessDeniedException", "403")
_CHECKSUMS_REFUSED = Failure(
    "the store refuses the checksums that the AWS SDK adds to requests",
    "set AWS_REQUEST_CHECKSUM_CALCULATION=when_required and AWS_RESPONSE_CHECKSUM_VALIDATION=when_required",
)
_CHECKSUMS_DIFFER = Failure(
    "the content differs from the checksum that the store sent with it",
    "read it again; where the store is known for it, set AWS_RESPONSE_CHECKSUM_VALIDATION=when_required",
)
_LONGEST = 160
"""The most characters of another program's message."""


def profile_name() -> str | None:
    """Return the profile of the AWS configuration that is selected by name."""
    profile = botocore.session.get_session().get_config_variable("profile")
    return None if profile is None else str(profile)


def no_credentials() -> Failure:
    """Return the failure of an AWS chain without credentials."""
    profile = profile_name()
    named = f" (profile {profile})" if profile else ""
    return Failure(f"no AWS credentials found{named}", "set a profile, role or environment of the AWS chain")


def unreachable(url: str) -> Failure:
    """Return the failure of an endpoint, named by scheme and host only: the path may hold a key."""
    what = f"the endpoint{_origin(url)} cannot be reached"
    return Failure(what, "check s3.endpoint and the network", retryable=True)


def _origin(url: str) -> str:
    """Return scheme, host and port, after a blank; empty for a URL without a host."""
    parts = urlsplit(url)
    return f" {parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def code_of(error: ClientError) -> str:
    """Return the store's error code; "" where it has none."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_condition_refused(error: ClientError) -> bool:
    """Return whether the condition of a request did not hold, or another writer was faster."""
    return code_of(error) in _CONDITION_REFUSED


def is_denied(error: ClientError) -> bool:
    """Return whether an error is a 403 in any spelling, which never proves absence."""
    return code_of(error) in {"403", "AccessDenied", "AccessDeniedException", "AllAccessDisabled"}


def is_missing(error: ClientError) -> bool:
    """Return whether an error is a 404 for a key, not for a bucket."""
    return code_of(error) in {"404", "NoSuchKey"}


def is_missing_bucket(error: Exception) -> bool:
    """Return whether the bucket is missing; a HEAD request does not distinguish this from a missing key."""
    return isinstance(error, ClientError) and code_of(error) == "NoSuchBucket"
