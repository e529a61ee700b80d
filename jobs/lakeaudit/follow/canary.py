"""Prove that events of a lake's buckets arrive in its queue: write an object, remove it, and receive both events.

Messages about other objects stay in the queue: they are hidden while the probe runs, and shown again at its end.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from math import ceil
from typing import Any, NamedTuple
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Follow, Lake
from lakeaudit.errors import AuditError, SourceError
from lakeaudit.evidence.protocol import Probed
from lakeaudit.follow.events import Change, events_of
from lakeaudit.follow.missing_link import missing_link
from lakeaudit.follow.sqs import LONGEST_POLL, SqsQueue, open_queue
from lakeaudit.formatting import count, number
from lakeaudit.keys import Location
from lakeaudit.permissions.event_places import canary_folder, event_places
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain

PATIENCE = timedelta(minutes=1)
"""S3 sends most events within seconds, and some after a minute."""
MOST_OTHERS = 1_000
"""Messages about other objects that the probe hides at most."""
MOST_BUCKETS = 20
_REMOVED: frozenset[Change] = frozenset({"removed", "marked_deleted"})
_FEW_DELIVERIES, _SHORT_RETENTION = 15, timedelta(days=1)


def probe_queue(follow: Follow, clients: Clients) -> Probed:
    """Read the properties of the queue.

    Raises:
        CannotAudit: it does not exist, or access is denied.
    """
    attributes = open_queue(follow, clients).attributes()
    notes = []
    if attributes.most_receives is None:
        notes.append("it has no dead-letter queue: messages that S3 did not send return until they expire")
    elif attributes.most_receives < _FEW_DELIVERIES:
        few = f"maxReceiveCount is {attributes.most_receives}"
        notes.append(f"{few}: a killed `follow` may lose events; set at least {_FEW_DELIVERIES}")
    if timedelta(seconds=attributes.retention) < _SHORT_RETENTION:
        notes.append("messages expire within a day: events are lost if `follow` stands still longer")
    waiting = f"{number(attributes.waiting, 'message')} waiting, {count(attributes.in_flight)} received"
    return Probed(f"can be read; {waiting}", notes=tuple(notes))


class Canary(NamedTuple):
    """An object that was written and removed again below a place of events."""

    bucket: str
    key: str


@dataclass
class _Sightings:
    """The changes of canaries that arrived, with the seconds until the last one; `others` are other receipts."""

    changes: dict[Canary, set[Change]] = field(default_factory=dict)
    seconds: dict[Canary, float] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    def complete(self, canary: Canary) -> bool:
        changes = self.changes.get(canary, set())
        return "created" in changes and not changes.isdisjoint(_REMOVED)


def probe_events(
    lake: Lake,
    clients: Clients,
    patience: timedelta = PATIENCE,
    clock: Callable[[], float] = time.monotonic,
    new_id: Callable[[], object] = uuid4,
) -> Iterator[tuple[Location, Callable[[], Probed]]]:
    """Yield each place of events with a function that returns the outcome, or raises SourceError with the missing link.

    Raises:
        CannotAudit: the queue cannot be read.
    """
    if lake.follow is None:
        return
    queue = open_queue(lake.follow, clients)
    places = event_places(lake)[:MOST_BUCKETS]
    canaries = {place: Canary(place.bucket, canary_folder(place).join(str(new_id())).key) for place in places}
    failures: dict[Location, SourceError] = {}
    for place, canary in canaries.items():
        try:
            _write(canary, clients)
        except (ClientError, BotoCoreError) as error:
            failures[place] = _not_written(canary, error)
    sent = [canary for place, canary in canaries.items() if place not in failures]
    sightings = _receive(queue, sent, patience, clock)
    for place, canary in canaries.items():
        failure = failures.get(place)
        link = partial(_link, place, canary, sightings, queue, clients, patience)
        yield place, partial(_outcome, canary, failure, sightings, link)


def _not_written(canary: Canary, error: Exception) -> SourceError:
    failure = explain(error)
    hint = "grant the statement WriteCanary of `lakeaudit policy LAKE --for follow`"
    where = Location(canary.bucket, canary.key).uri
    return SourceError(
        where, f"the canary cannot be written or removed: {failure.what}", hint, failure.retryable
    )


def _write(canary: Canary, clients: Clients) -> None:
    """Write the object and remove it, with all its versions."""
    client: Any = clients.s3(*canary)
    at = {"Bucket": canary.bucket, "Key": canary.key}
    written = client.put_object(**at, Body=b"lakeaudit doctor: this object is removed at once\n").get(
        "VersionId"
    )
    marker = client.delete_object(**at).get("VersionId")
    for version in filter(None, (marker, written)):
        client.delete_object(**at, VersionId=version)


def _receive(
    queue: SqsQueue, canaries: list[Canary], patience: timedelta, clock: Callable[[], float]
) -> _Sightings:
    """Receive until both events of every canary have arrived, or until time or the limit of other messages is over."""
    sightings, begin = _Sightings(), clock()
    with _shown_at_end(queue, sightings):
        while not all(map(sightings.complete, canaries)) and len(sightings.others) < MOST_OTHERS:
            left = patience.total_seconds() - (clock() - begin)
            if left <= 0:
                break
            wait = min(ceil(left), LONGEST_POLL)
            for delivery in queue.receive(wait, ceil(left) + LONGEST_POLL):
                events = {
                    Canary(each.bucket, each.key): each.change for each in events_of(delivery.body).events
                }
                if not events or not events.keys() <= {*canaries}:
                    sightings.others.append(delivery.receipt)
                    continue
                for canary, change in events.items():
                    sightings.changes.setdefault(canary, set()).add(change)
                    sightings.seconds[canary] = clock() - begin
                queue.delete([delivery.receipt])
    return sightings


@contextmanager
def _shown_at_end(queue: SqsQueue, sightings: _Sightings) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(AuditError):
            queue.hide(sightings.others, 0)


def _outcome(
    canary: Canary, failure: SourceError | None, sightings: _Sightings, link: Callable[[], SourceError]
) -> Probed:
    if failure is not None:
        raise failure
    if sightings.complete(canary):
        seconds = ceil(sightings.seconds[canary])
        return Probed(f"an object was written and removed, and both events arrived within {seconds} s")
    if len(sightings.others) >= MOST_OTHERS:
        what = f"could not be tested: at least {count(MOST_OTHERS)} other messages wait in the queue"
        return Probed(what, notes=("run `lakeaudit follow`, and repeat this when the queue is nearly empty",))
    raise link()


def _link(
    place: Location,
    canary: Canary,
    sightings: _Sightings,
    queue: SqsQueue,
    clients: Clients,
    patience: timedelta,
) -> SourceError:
    arrived = sightings.changes.get(canary, set())
    return missing_link(place, canary.key, arrived, queue.attributes(), clients, patience)
