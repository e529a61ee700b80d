"""Parse the bodies of event messages: S3's notifications, the same wrapped by SNS, and events of EventBridge. Pure.

Keys are decoded here, once: S3 notifications encode them as forms do, with `+` for a space; EventBridge does not
(Amazon S3 User Guide, "Event message structure", "EventBridge event message structure"). A body is hostile input:
anybody whom the queue's policy admits may send one.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from lakeaudit.follow.event_fields import (
    FOREIGN,
    UnknownFormError,
    UnknownPart,
    bucket_name,
    decoded_key,
    etag_of,
    event_name,
    inner_object,
    optional_text,
    quoted,
    raw_key,
    required_text,
    sequencer_of,
    size_of,
    time_of,
)

Change = Literal["created", "removed", "marked_deleted", "expired", "expired_marked", "restored", "other"]
"""What happened to an object; the two with `marked` left a delete marker, the two with `expired` are lifecycle rules'.

`restored` is an archived object that can be read again. `other` changes neither presence nor content.
"""
LOSING: frozenset[Change] = frozenset({"created", "removed", "marked_deleted", "expired", "expired_marked"})
"""The changes after which an object may be absent or have other content."""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """One event about one object; null: the event does not state it.

    Attributes:
        bucket: the name in the event, which may be an alias of the lake file.
        key: decoded; it may contain any character.
        version_id: the version that was written, removed, or is the delete marker.
        sequencer: orders the events of one key (`order`): hexadecimal digits in upper case.
        change: see `Change`.
        name: the service's own name of the event, such as `ObjectRemoved:Delete`.
        at: the time of the event by the clock of the store, UTC without a zone.
        principal: the requester; a service's name for lifecycle rules.
        request_id: S3's id of the request.
        size: in bytes, of the object that was written.
        etag: without quotes.
    """

    bucket: str
    key: str
    version_id: str | None
    sequencer: str | None
    change: Change
    name: str
    at: datetime | None
    principal: str | None = None
    request_id: str | None = None
    size: int | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """The events of a body, and its parts that were not understood; both are empty for `s3:TestEvent`."""

    events: tuple[ObjectEvent, ...] = ()
    unknown: tuple[UnknownPart, ...] = ()

    @property
    def is_foreign(self) -> bool:
        """Whether no part is an event of a store: the sender is another program."""
        return bool(self.unknown) and not self.events and all(part.form in FOREIGN for part in self.unknown)


_WRAPPERS = 4
"""The most messages inside each other: EventBridge sends through SNS, and a topic through another."""


def events_of(body: str | bytes) -> ParsedMessage:
    """Return the events of a message's body; an invalid body gives no exception, but unknown parts."""
    events: list[ObjectEvent] = []
    unknown: list[UnknownPart] = []
    try:
        for name, record in _records(_unwrapped(body)):
            try:
                events.append(_PARSERS[name](record))
            except UnknownFormError as error:
                unknown.append(error.part)
    except UnknownFormError as error:
        unknown.append(error.part)
    return ParsedMessage(tuple(events), tuple(unknown))


def _unwrapped(body: str | bytes) -> Mapping[str, Any]:
    """Return the document inside of all messages of SNS around it."""
    for _ in range(_WRAPPERS):
        document = _document(body)
        if not ("TopicArn" in document and "Type" in document):
            return document
        if document["Type"] != "Notification" or not isinstance(document.get("Message"), str):
            kind = f"a message of SNS of type {quoted(document['Type'])}, not a notification"
            raise UnknownFormError("unknown SNS message", kind)
        body = document["Message"]
    raise UnknownFormError("unknown SNS message", f"more than {_WRAPPERS} messages inside each other")


def _document(body: str | bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise UnknownFormError("not JSON", f"{len(body)} characters that are not JSON") from error
    if not isinstance(document, dict):
        raise UnknownFormError("unknown message", f"not an object of JSON: {quoted(document)}")
    return document


def _records(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (parser, record) of each record of a document; `s3:TestEvent` has none."""
    if isinstance(document.get("Records"), list):
        for record in document["Records"]:
            yield "notification", record if isinstance(record, dict) else {}
    elif "detail-type" in document and "detail" in document:
        yield "eventbridge", document
    elif document.get("Event") != "s3:TestEvent":
        names = ", ".join(map(str, list(document)[:8])) or "none"
        raise UnknownFormError("unknown message", f"neither records nor an event; its fields: {names}")


def _of_notification(record: Mapping[str, Any]) -> ObjectEvent:
    source = record.get("eventSource")
    if not (isinstance(source, str) and source.endswith(":s3")):
        raise UnknownFormError("unknown source", f"a record of the source {quoted(source)}, not of S3")
    name = required_text(record.get("eventName"), "eventName").removeprefix("s3:")
    inside = inner_object(record, "s3")
    about = inner_object(inside, "object")
    return ObjectEvent(
        bucket=bucket_name(inner_object(inside, "bucket").get("name")),
        key=decoded_key(required_text(about.get("key"), "key")),
        version_id=optional_text(about.get("versionId")),
        sequencer=sequencer_of(about.get("sequencer")),
        change=_change(name),
        name=event_name(name),
        at=time_of(record.get("eventTime")),
        principal=optional_text(inner_object(record, "userIdentity").get("principalId")),
        request_id=optional_text(inner_object(record, "responseElements").get("x-amz-request-id")),
        size=size_of(about.get("size")),
        etag=etag_of(about.get("eTag")),
    )


def _of_eventbridge(event: Mapping[str, Any]) -> ObjectEvent:
    if event.get("source") != "aws.s3":
        raise UnknownFormError("unknown source", f"an event of {quoted(event.get('source'))}, not of aws.s3")
    detail = inner_object(event, "detail")
    about = inner_object(detail, "object")
    title, reason = (
        required_text(event.get("detail-type"), "detail-type"),
        optional_text(detail.get("reason")),
    )
    key = required_text(about.get("key"), "key")
    return ObjectEvent(
        bucket=bucket_name(inner_object(detail, "bucket").get("name")),
        key=raw_key(key),
        version_id=optional_text(about.get("version-id")),
        sequencer=sequencer_of(about.get("sequencer")),
        change=_bridged_change(title, reason, optional_text(detail.get("deletion-type"))),
        name=event_name(f"{title} ({reason})" if reason else title),
        at=time_of(event.get("time")),
        principal=optional_text(detail.get("requester")),
        request_id=optional_text(detail.get("request-id")),
        size=size_of(about.get("size")),
        etag=etag_of(about.get("etag")),
    )


_PARSERS = {"notification": _of_notification, "eventbridge": _of_eventbridge}

_BY_FAMILY: Mapping[str, Change] = {
    "ObjectCreated": "created",
    "ObjectRemoved": "removed",
    "LifecycleExpiration": "expired",
    "ReducedRedundancyLostObject": "removed",
    "ObjectRestore": "other",
    "ObjectTagging": "other",
    "ObjectAcl": "other",
    "ObjectAccessed": "other",
    "Replication": "other",
    "LifecycleTransition": "other",
    "IntelligentTiering": "other",
}
"""By the part of an event's name before the colon."""
_BY_NAME: Mapping[str, Change] = {
    "ObjectRemoved:DeleteMarkerCreated": "marked_deleted",
    "LifecycleExpiration:DeleteMarkerCreated": "expired_marked",
    "ObjectRestore:Completed": "restored",
}
_BRIDGED: Mapping[str, Change] = {
    "Object Created": "created",
    "Object Deleted": "removed",
    "Object Restore Completed": "restored",
    "Object Restore Initiated": "other",
    "Object Restore Expired": "other",
    "Object Storage Class Changed": "other",
    "Object Access Tier Changed": "other",
    "Object ACL Updated": "other",
    "Object Tags Added": "other",
    "Object Tags Deleted": "other",
}


def _change(name: str) -> Change:
    change = _BY_NAME.get(name) or _BY_FAMILY.get(name.partition(":")[0])
    if change is None:
        raise UnknownFormError("unknown event", f"the event {quoted(name)} is not known")
    return change


def _bridged_change(title: str, reason: str | None, deletion: str | None) -> Change:
    change = _BRIDGED.get(title)
    if change is None:
        raise UnknownFormError("unknown event", f"the event {quoted(title)} is not known")
    if change != "removed":
        return change
    if deletion == "Delete Marker Created":
        return "expired_marked" if reason == "Lifecycle Expiration" else "marked_deleted"
    return "expired" if reason == "Lifecycle Expiration" else "removed"
