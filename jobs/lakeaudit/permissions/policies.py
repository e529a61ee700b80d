"""Write grants as an IAM policy of one principal, in a stable order. Pure.

A place becomes resources of objects, and for listings a condition on the requested prefix: S3 also checks this
condition with the whole key if a request names a missing object, and answers 404 only if it holds.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakeaudit.grants import (
    INVENTORY,
    LIFECYCLE,
    LIST,
    LIST_UPLOADS,
    LIST_VERSIONS,
    NOTIFICATION,
    VERSIONING,
    Grant,
    NoGrant,
    S3Grant,
    ServiceGrant,
    arn,
    literal,
    partition_of,
    wildcards,
)
from lakeaudit.keys import Location, uri_of
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.storage_classes import cloud_of

Statement = Mapping[str, Any]
_BY_PREFIX = {LIST, LIST_VERSIONS}
_ON_BUCKET = {LIST_UPLOADS, VERSIONING, LIFECYCLE, INVENTORY, NOTIFICATION}
"""IAM has no condition on the prefix for uploads (Service Authorization Reference, Amazon S3)."""
_TABLE = "--table-s3"
"""The end of the alias by which the files of a table of Amazon S3 Tables are read."""
MANAGED, INLINE = 6_144, 10_240
"""Most characters of a managed policy, and of all inline policies of a role; white space does not count."""


@dataclass(frozen=True)
class Permissions:
    """The policies of a lake by the role that sends the requests; None: the credentials that run lakeaudit.

    `missing` are the parts of the lake file that no policy of AWS covers.
    """

    policies: Mapping[str | None, Mapping[str, Any]]
    missing: tuple[str, ...]


def permissions_of(grants: Iterable[Grant], clients: Clients) -> Permissions:
    """Return the policies of grants: those of each role of the lake file, and of the principal that assumes them."""
    by_role: dict[str | None, list[tuple[S3Grant | ServiceGrant, str]]] = {None: []}
    missing: dict[str, None] = {}
    for grant in grants:
        if isinstance(grant, NoGrant):
            missing[str(grant)] = None
        elif isinstance(grant, ServiceGrant):
            by_role.setdefault(grant.role, []).append((grant, ""))
        elif not grant.place.is_local:
            if not is_of_aws(grant.place, clients):
                missing[_not_of_aws(grant.place)] = None
                continue
            at = clients.endpoint(*grant.place)
            by_role.setdefault(at.role_arn, []).append(_at_endpoint(grant, at))
    roles = sorted(role for role in by_role if role is not None)
    assume = ServiceGrant("AssumeRoles", tuple(map(literal, roles)), ("sts:AssumeRole",))
    by_role[None] += [(assume, "")] if roles else []
    policies = {role: _policy(of_role) for role, of_role in by_role.items() if of_role}
    return Permissions(policies, tuple(missing))


def size_of(policy: Mapping[str, Any]) -> int:
    """Return the number of characters that AWS counts."""
    return len(json.dumps(policy, separators=(",", ":")))


def _at_endpoint(grant: S3Grant, at: Endpoint) -> tuple[S3Grant | ServiceGrant, str]:
    """Return the grant with its partition; files of AWS's own tables are read by the right to the data of a table."""
    if grant.place.bucket.endswith(_TABLE):
        tables = arn("s3tables", at.region, None, "bucket/aws-s3/table/*")
        return ServiceGrant(grant.purpose, (tables,), ("s3tables:GetTableData",), at.role_arn), ""
    return grant, partition_of(at.region, at.role_arn)


def is_of_aws(place: Location, clients: Clients) -> bool:
    """Return whether a place is in S3, or in a store of one's own with the API of S3, and so not in another cloud."""
    return place.is_in_s3 and cloud_of(clients.endpoint(*place).endpoint) is None


def _not_of_aws(place: Location) -> str:
    hint = "give its rights there (docs/deploy.md#rights-outside-of-aws)"
    return f"{uri_of(*place)}: is not in AWS, so no IAM policy covers it; {hint}"


def _policy(grants: Iterable[tuple[S3Grant | ServiceGrant, str]]) -> dict[str, Any]:
    statements: list[Statement] = []
    services: dict[tuple[str, tuple[str, ...]], set[str]] = defaultdict(set)
    granted: dict[_Place, set[str]] = defaultdict(set)
    for grant, partition in grants:
        if isinstance(grant, ServiceGrant):
            services[grant.purpose, tuple(sorted(grant.actions))] |= {*grant.resources}
        else:
            granted[_Place(grant.purpose, partition, grant.place, grant.is_pattern)] |= {*grant.actions}
    for (purpose, partition), places in _by_purpose(_without_repetitions(granted)).items():
        statements += _on_places(purpose, f"arn:{partition}:s3:::", places)
    for (purpose, actions), resources in services.items():
        statements.append(_statement(purpose, actions, resources))
    return {"Version": "2012-10-17", "Statement": [*_numbered(statements)]}


class _Place(NamedTuple):
    """A place with its purpose; `is_pattern` as in `S3Grant`."""

    purpose: str
    partition: str
    place: Location
    is_pattern: bool

    def around(self, action: str) -> Iterator[Location]:
        """Yield the place itself, and larger places whose grants of the action include it."""
        bucket, key = self.place
        if action in _ON_BUCKET:
            yield Location(bucket, "")
            return
        yield self.place
        while key:
            key = key.rpartition("/")[0]
            yield Location(bucket, key)


def _without_repetitions(granted: Mapping[_Place, set[str]]) -> dict[_Place, set[str]]:
    """Leave out actions that a larger place, or an earlier grant on the same place, gives anyway."""
    first: dict[tuple[str, bool, Location], _Place] = {}
    for each, actions in granted.items():
        for action in actions:
            first.setdefault((action, each.is_pattern, next(each.around(action))), each)

    def is_needed(action: str, by: _Place) -> bool:
        givers = [first.get((action, by.is_pattern, place)) for place in by.around(action)]
        return next(each for each in reversed(givers) if each is not None) is by

    return {by: {action for action in actions if is_needed(action, by)} for by, actions in granted.items()}


def _by_purpose(granted: Mapping[_Place, set[str]]) -> dict[tuple[str, str], dict[_Place, set[str]]]:
    found: dict[tuple[str, str], dict[_Place, set[str]]] = defaultdict(dict)
    for each, actions in granted.items():
        found[each.purpose, each.partition][each] = actions
    return found


def _on_places(purpose: str, begin: str, places: Mapping[_Place, Collection[str]]) -> Iterator[Statement]:
    objects: dict[tuple[str, ...], set[str]] = defaultdict(set)
    listings: dict[tuple[tuple[str, ...], str], set[str]] = defaultdict(set)
    buckets: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for (_, _, place, is_pattern), actions in places.items():
        bucket = f"{begin}{wildcards(place.bucket) if is_pattern else literal(place.bucket)}"
        below = [literal(place.key), f"{literal(place.prefix)}*"] if place.key else ["*"]
        if of_listing := tuple(sorted({*actions} & _BY_PREFIX)):
            listings[of_listing, bucket] |= {*below}
        if of_bucket := tuple(sorted({*actions} & _ON_BUCKET)):
            buckets[of_bucket].add(bucket)
        if of_objects := tuple(sorted({*actions} - _BY_PREFIX - _ON_BUCKET)):
            objects[of_objects] |= {f"{bucket}/{each}" for each in below}
    for of_objects, resources in objects.items():
        yield _statement(purpose, of_objects, resources)
    for (of_listing, bucket), prefixes in listings.items():
        yield _statement(f"{purpose}List", of_listing, [bucket], () if "*" in prefixes else prefixes)
    for of_bucket, resources in buckets.items():
        yield _statement(f"{purpose}Bucket", of_bucket, resources)


def _statement(
    sid: str, actions: Collection[str], resources: Collection[str], prefixes: Collection[str] = ()
) -> Statement:
    condition = {"Condition": {"StringLike": {"s3:prefix": sorted(prefixes)}}} if prefixes else {}
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Action": sorted(actions),
        "Resource": sorted(resources),
        **condition,
    }


def _numbered(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Yield the statements with Sids that differ."""
    seen: dict[str, int] = defaultdict(int)
    for each in statements:
        seen[each["Sid"]] += 1
        number = seen[each["Sid"]]
        yield {**each, "Sid": f"{each['Sid']}{number if number > 1 else ''}"}
