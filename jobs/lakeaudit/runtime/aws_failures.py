"""What a store's refusal means: in words for people, and whether a key is missing, denied or may be asked for again."""

from typing import NamedTuple
from urllib.parse import urlsplit

import botocore.session
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
)

_CODES = {
    "404": ("does not exist", "check the name"),
    "NoSuchBucket": ("the bucket does not exist", "check the name and the endpoint"),
    "NoSuchKey": ("does not exist", "check the path"),
    "ResourceNotFoundException": ("the table does not exist", "check its name, region and endpoint"),
    "403": ("access denied", "grant read and list rights to the audit's role"),
    "AccessDenied": ("access denied", "grant read and list rights to the audit's role"),
    "AccessDeniedException": ("access denied", "grant read and list rights to the audit's role"),
    "301": ("lies in another region", "set s3.region of this source"),
    "PermanentRedirect": ("lies in another region", "set s3.region of this source"),
    "AuthorizationHeaderMalformed": ("lies in another region", "set s3.region of this source"),
    "IllegalLocationConstraintException": ("lies in another region", "set s3.region of this source"),
    "InvalidAccessKeyId": ("the access key is not known", "check the AWS credentials chain"),
    "SignatureDoesNotMatch": ("the secret key does not fit", "check the AWS credentials chain"),
    "ExpiredToken": ("the credentials have expired", "renew them and run again"),
    "ExpiredTokenException": ("the credentials have expired", "renew them and run again"),
}

_CONDITION_REFUSED = {
    *("PreconditionFailed", "ConditionalRequestConflict", "412", "409"),
    "ConditionalCheckFailedException",  # DynamoDB
}

_PASSING = {
    *("SlowDown", "Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded"),
    *("ProvisionedThroughputExceededException", "RequestTimeout", "ExpiredToken", "ExpiredTokenException"),
}
_SERVER_AT_FAULT = 500


class OnAzure(BotoCoreError):
    """A request of S3's was meant for a container of Azure."""

    fmt = "{bucket} lies on Azure"


class Failure(NamedTuple):
    """An AWS failure in words, without secrets and on one line; `may_pass`: another try may do."""

    what: str
    way_out: str
    may_pass: bool = False


def explain(error: Exception) -> Failure:
    """What went wrong, and the way out."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return no_credentials()
    if isinstance(error, ProfileNotFound):
        return Failure(
            f"the AWS configuration has no profile {error.kwargs['profile']}", "correct AWS_PROFILE"
        )
    if isinstance(error, EndpointConnectionError | ConnectTimeoutError | ConnectionClosedError):
        return unreachable(str(error.kwargs.get("endpoint_url") or ""))
    if isinstance(error, OnAzure):
        return Failure("lies on Azure, which is read, and asked nothing else", "see docs/lakes/azure.yaml")
    if isinstance(error, ReadTimeoutError):
        return Failure("the store did not answer in time", "run it again when it does", may_pass=True)
    if isinstance(error, ClientError):
        code = code_of(error) or "?"
        words = _CODES.get(code, (f"the store answered {code}", "see the store's own log"))
        return Failure(*words, may_pass=code in _PASSING or _status(error) >= _SERVER_AT_FAULT)
    return Failure(type(error).__name__, "run again with --debug for the full story")


def no_credentials() -> Failure:
    """The AWS chain has none."""
    profile = botocore.session.get_session().get_config_variable("profile")
    named = f" (profile {profile})" if profile else ""
    return Failure(f"no AWS credentials found{named}", "set a profile, role or environment of the AWS chain")


def unreachable(url: str) -> Failure:
    """The endpoint by its scheme and host alone: what follows may be a key."""
    parts = urlsplit(url)
    named = f" {parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""
    return Failure(
        f"the endpoint{named} cannot be reached", "check s3.endpoint and the network", may_pass=True
    )


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def code_of(error: ClientError) -> str:
    """The store's own word for what went wrong; "" where it gave none."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_condition_refused(error: ClientError) -> bool:
    """Whether the condition of a request did not hold, or another was faster."""
    return code_of(error) in _CONDITION_REFUSED


def is_denied(error: ClientError) -> bool:
    """403 in any spelling: never evidence that something is absent."""
    return code_of(error) in {"403", "AccessDenied", "AccessDeniedException", "AllAccessDisabled"}


def is_missing(error: ClientError) -> bool:
    """404 for a key, not for a bucket."""
    return code_of(error) in {"404", "NoSuchKey"}
