"""Describe AWS permissions as plain values: a purpose, the place or resource, and the IAM actions. Pure.

Kinds of evidence (`Kind.permissions`) and actions of reconcile (`Action.permissions`) return grants, and
`lakeaudit.permissions` makes a policy of them. Names of actions: Service Authorization Reference.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeaudit.keys import Location

if TYPE_CHECKING:
    from lakeaudit.config.sources.base import Source

LIST, LIST_VERSIONS, LIST_UPLOADS = "s3:ListBucket", "s3:ListBucketVersions", "s3:ListBucketMultipartUploads"
GET, GET_VERSION = "s3:GetObject", "s3:GetObjectVersion"
GET_TAGS, GET_VERSION_TAGS = "s3:GetObjectTagging", "s3:GetObjectVersionTagging"
PUT, PUT_TAGS, ABORT = "s3:PutObject", "s3:PutObjectTagging", "s3:AbortMultipartUpload"
DELETE, DELETE_VERSION = "s3:DeleteObject", "s3:DeleteObjectVersion"
VERSIONING, LIFECYCLE = "s3:GetBucketVersioning", "s3:GetLifecycleConfiguration"
INVENTORY = "s3:GetInventoryConfiguration"
NOTIFICATION = "s3:GetBucketNotification"


@dataclass(frozen=True)
class S3Grant:
    """Actions on everything below a place; those on a bucket apply to the whole bucket.

    Attributes:
        purpose: what the statements are for, as letters and digits of a Sid, such as `ReadTables`.
        is_pattern: the bucket's name is a pattern of the lake file, such as `prod-*`.
    """

    purpose: str
    place: Location
    actions: tuple[str, ...]
    is_pattern: bool = False


@dataclass(frozen=True)
class ServiceGrant:
    """Actions on resources of another service, by their ARNs (see `arn`).

    Attributes:
        role: the role of the lake file with which the requests are sent; None: the credentials that run lakeaudit.
    """

    purpose: str
    resources: tuple[str, ...]
    actions: tuple[str, ...]
    role: str | None = None


@dataclass(frozen=True)
class NoGrant:
    """A part of the lake file whose permissions cannot be computed from it: where, why, and what to do."""

    where: str
    why: str
    hint: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why}; {self.hint}"


Grant = S3Grant | ServiceGrant | NoGrant


@dataclass(frozen=True)
class SetupStep:
    """A step that a person takes in AWS so that a source delivers; no stack can take it for an existing bucket."""

    what: str
    command: str


def let_deliver(bucket: str, sid: str, service: str, resource: str, **more: object) -> SetupStep:
    """Return the step that lets a service of AWS write below a resource; `more` are further keys of the statement."""
    statement = {
        "Sid": sid,
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": PUT,
        "Resource": resource,
        **more,
    }
    return SetupStep(f"add this statement to the policy of the bucket {bucket}", json.dumps(statement))


def read_places(source: "Source", lake: object) -> Iterator[Grant]:  # noqa: ARG001 - the signature of all kinds
    """Yield the grants to list and read the places of a source."""
    yield from read_below("ReadEvidence", source.places)


def no_setup(source: "Source", lake: object) -> Iterator[SetupStep]:  # noqa: ARG001 - the signature of all kinds
    """Yield nothing: the source needs no delivery by AWS."""
    yield from ()


def read_below(purpose: str, places: Iterable[Location]) -> Iterator[Grant]:
    """Yield the grants to list and read places: a folder, or one file."""
    for place in places:
        yield S3Grant(purpose, place, (GET, LIST))


_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}


def partition_of(region: str | None, role: str | None = None) -> str:
    """Return the AWS partition of a role's ARN, else of a region."""
    if role is not None:
        return role.split(":")[1]
    return next((name for begin, name in _PARTITIONS.items() if (region or "").startswith(begin)), "aws")


def arn(service: str, region: str | None, role: str | None, resource: str, account: str | None = None) -> str:
    """Return an ARN, with `*` for an unknown region or account; the account is that of the role, if none is given."""
    owner = account or (role.split(":")[4] if role is not None else "*")
    return f"arn:{partition_of(region, role)}:{service}:{region or '*'}:{owner}:{resource}"


_SPECIAL = re.compile(r"[*?$]")


def literal(text: str) -> str:
    """Escape a text for a resource or condition of a policy: `*`, `?` and `$` stand for themselves as `${*}`, ..."""
    return _SPECIAL.sub(lambda found: f"${{{found[0]}}}", text)


def wildcards(glob: str) -> str:
    """Return a pattern of names of the lake file as IAM writes it, where a set of characters is any character."""
    parts = re.split(r"(\*+|\?|\[[^\]]+\])", glob)
    return "".join(_wildcard(part) if number % 2 else literal(part) for number, part in enumerate(parts))


def _wildcard(part: str) -> str:
    return "*" if part.startswith("*") else "?"
