"""The lifecycle rules of a bucket: which objects and which older versions they delete or archive, and when.

Fields are those of GetBucketLifecycleConfiguration. Days count from when an object was written, those of an older
version from when the next one was, and S3 acts at the midnight (UTC) that follows (S3 User Guide, "Lifecycle
configuration elements").
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.keys import Location, is_azure
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import code_of, explain
from lakeaudit.storage_classes import KNOWN_CLASSES, StorageClasses

DELETES, ARCHIVES = "deletes", "archives"
SMALL = 128 << 10
"""Below so many bytes nothing is archived, where the bucket says so and the rule names no size."""


@dataclass(frozen=True)
class Action:
    """What one rule does to the current objects below a place: after so many days, or on a date (UTC).

    Sizes are exclusive bounds in bytes. `tags`: it concerns only objects with certain tags.
    """

    rule: str
    does: str
    below: Location
    days: int | None = None
    date: datetime | None = None
    larger_than: int | None = None
    smaller_than: int | None = None
    tags: bool = False

    def meets(self, place: Location) -> bool:
        """Whether it may concern an object in a place; the prefix of a rule need not end at a folder."""
        one, other = self.below, place
        return one.bucket == other.bucket and (
            one.key.startswith(other.prefix) or other.prefix.startswith(one.key)
        )

    def concerns(self, place: Location, size: int) -> bool:
        """Whether it concerns an object, whatever its tags."""
        return (
            place.bucket == self.below.bucket
            and place.key.startswith(self.below.key)
            and (self.larger_than is None or size > self.larger_than)
            and (self.smaller_than is None or size < self.smaller_than)
        )

    def acts_at(self, written: datetime) -> datetime | None:
        """When it acts on an object of that time."""
        if self.date is not None:
            return self.date
        if self.days is None:
            return None
        try:
            due = written + timedelta(days=self.days)
        except OverflowError:  # so many days that no calendar has them
            return None
        midnight = due.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight if midnight == due else midnight + timedelta(days=1)

    @property
    def when(self) -> str:
        """When it acts, in words."""
        if self.date is not None:
            return f"on {self.date:%Y-%m-%d}"
        return f"{self.days} days after they were written"


@dataclass(frozen=True)
class VersionExpiry:
    """What one rule does to older versions below a place: it deletes them so many days after they were replaced.

    `newer`: it spares a version that fewer newer ones than that, which are not current, lie above. Sizes and tags are
    those of `Action`.
    """

    rule: str
    below: Location
    days: int
    newer: int = 0
    larger_than: int | None = None
    smaller_than: int | None = None
    tags: bool = False


@dataclass(frozen=True)
class Lifecycle:
    """What of a bucket's rules concerns current objects, and older versions; `unread`: why they could not be read."""

    bucket: str
    actions: tuple[Action, ...] = ()
    unread: str = ""
    older: tuple[VersionExpiry, ...] = ()


def read_lifecycle(clients: Clients, bucket: str) -> Lifecycle:
    """The rules of a bucket, by one request. A bucket without rules has none; Azure's policies are not read."""
    if is_azure(bucket):
        return Lifecycle(bucket)
    try:
        answer = clients.s3(bucket).get_bucket_lifecycle_configuration(Bucket=bucket)
    except ClientError as error:
        if code_of(error) == "NoSuchLifecycleConfiguration":
            return Lifecycle(bucket)
        return Lifecycle(bucket, unread=explain(error).what)
    except BotoCoreError as error:
        return Lifecycle(bucket, unread=explain(error).what)
    actions = actions_of(answer, bucket, clients.storage_classes(bucket))
    return Lifecycle(bucket, actions, older=expiries_of(answer, bucket))


def actions_of(
    answer: Mapping[str, Any], bucket: str, classes: StorageClasses = KNOWN_CLASSES
) -> tuple[Action, ...]:
    """The actions of all enabled rules on current objects."""
    spares_small = answer.get("TransitionDefaultMinimumObjectSize") == "all_storage_classes_128K"
    return tuple(
        action
        for name, rule in _enabled(answer)
        for action in _actions(rule, name, bucket, classes, spares_small=spares_small)
    )


def expiries_of(answer: Mapping[str, Any], bucket: str) -> tuple[VersionExpiry, ...]:
    """What all enabled rules do to older versions. One that waits a thousand years does nothing."""
    found = []
    for name, rule in _enabled(answer):
        ends = rule.get("NoncurrentVersionExpiration")
        days = (ends or {}).get("NoncurrentDays") or 0
        if ends is not None and days < _FOR_EVER:
            below, larger, smaller, tagged = _concerned(rule, bucket)
            newer = ends.get("NewerNoncurrentVersions") or 0
            found.append(VersionExpiry(name, below, days, newer, larger, smaller, tagged))
    return tuple(found)


_FOR_EVER = 365_000


def _enabled(answer: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name, rule) of the rules that are enabled."""
    for number, rule in enumerate(answer.get("Rules", []), 1):
        if rule.get("Status") == "Enabled":
            yield rule.get("ID") or f"rule {number}", rule


def _concerned(rule: Mapping[str, Any], bucket: str) -> tuple[Location, int | None, int | None, bool]:
    """(below which place, larger than, smaller than, only with certain tags): what a rule's filter says."""
    given = rule.get("Filter") or {}
    wanted = {**given, **(given.get("And") or {})}
    below = Location(bucket, wanted.get("Prefix") or rule.get("Prefix") or "")
    tagged = bool(wanted.get("Tag") or wanted.get("Tags"))
    return below, wanted.get("ObjectSizeGreaterThan"), wanted.get("ObjectSizeLessThan"), tagged


def _actions(
    rule: Mapping[str, Any], name: str, bucket: str, classes: StorageClasses, *, spares_small: bool
) -> Iterator[Action]:
    below, larger, smaller, tagged = _concerned(rule, bucket)
    ends = rule.get("Expiration") or {}
    if "Days" in ends or "Date" in ends:
        yield Action(name, DELETES, below, ends.get("Days"), _utc(ends.get("Date")), larger, smaller, tagged)
    sized = larger is not None or smaller is not None
    least = SMALL - 1 if spares_small and not sized else larger
    for move in rule.get("Transitions") or ():
        if classes.archived(move.get("StorageClass")):
            yield Action(
                name, ARCHIVES, below, move.get("Days"), _utc(move.get("Date")), least, smaller, tagged
            )


def _utc(date: datetime | None) -> datetime | None:
    return None if date is None else date.astimezone(UTC).replace(tzinfo=None)


def in_places(lifecycles: Sequence[Lifecycle], places: Sequence[Location]) -> list[Action]:
    """The actions that may concern an object in any of the places."""
    return [
        action
        for lifecycle in lifecycles
        for action in lifecycle.actions
        if any(action.meets(place) for place in places)
    ]
