"""Read data events of S3 in CloudTrail: gzipped JSON files of records, written about every five minutes, unordered.

Keys are not encoded. A `DeleteObjects` record mostly lacks the removed keys, and lifecycle actions have no records
(Amazon S3 User Guide, "Amazon S3 CloudTrail events").
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.errors import SourceError
from lakeaudit.evidence.events import event_files
from lakeaudit.evidence.events.cloudtrail import CloudTrail
from lakeaudit.evidence.events.event_files import Window, events_of, texts_of
from lakeaudit.evidence.events.trail_records import NoRecordsError, records
from lakeaudit.evidence.files import File
from lakeaudit.evidence.protocol import Batches, Context, Events, Probed, note_row
from lakeaudit.keys import Aliases, true_place
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import REQUEST, plain_time

NAME = re.compile(
    r"_CloudTrail_[^_]+_(?P<year>20\d\d)(?P<month>\d\d)(?P<day>\d\d)T(?P<hour>\d\d)(?P<minute>\d\d)Z_[^/]*\.json(\.gz)?\Z"
)
CHANGES = {
    "PutObject": "put",
    "PostObject": "put",
    "CompleteMultipartUpload": "put",
    "CopyObject": "copy",
    "DeleteObject": "delete",
    "DeleteObjects": "delete",
    "RestoreObject": "restore",
}
READS = {"GetObject": "get", "HeadObject": "head", "ListObjects": "list"}
MISSING = ("NoSuchKey", "NotFound", "404")
SAMPLE = 200
ROWS_A_BATCH = 10_000

Record = Mapping[str, Any]


def read(source: CloudTrail, ctx: Context, source_id: str) -> Events:
    """Return the files of the window; files are read only once a finding needs an explanation."""
    return events_of(source, ctx, source_id, NAME, partial(_read, clients=ctx.clients, source_id=source_id))


def probe(source: CloudTrail, clients: Clients, now: datetime) -> Probed:
    """See `registry.EventsKind`."""
    return event_files.probe(source, clients, now, NAME)


def _read(
    con: Connection,  # noqa: ARG001 - a part is given one
    *,
    clients: Clients,
    source_id: str,
    files: Sequence[File],
    window: Window,
    reads: bool,
) -> Batches:
    actions = CHANGES | (READS if reads else {})
    first, last = window[0].replace(microsecond=0), window[1]
    for file, content in texts_of(clients, files):
        held: list[dict[str, Any]] = []
        fault = None
        try:
            for record in records(content):
                rows = _rows(record, actions, source_id, clients.aliases)
                held += [row for row in rows if row["reject"] or first <= row["at"] <= last]
                if len(held) >= ROWS_A_BATCH:
                    yield "requests", pa.Table.from_pylist(held, REQUEST)
                    held = []
        except (NoRecordsError, SourceError) as error:
            fault = error.what if isinstance(error, SourceError) else str(error)
        yield "requests", pa.Table.from_pylist(held, REQUEST)
        if fault is not None:
            yield "notes", note_row(source_id, file.place.uri, fault, count=1)


def _rows(
    record: object, actions: Mapping[str, str], source_id: str, aliases: Aliases
) -> Iterator[dict[str, Any]]:
    """Yield the REQUEST rows of a record; none for services other than S3 and for operations not in `actions`."""
    if not isinstance(record, dict):
        yield _rejected(source_id, record)
    elif record.get("eventSource") == "s3.amazonaws.com" and record.get("eventName") in actions:
        try:
            parameters = record.get("requestParameters") or {}
            failed = record.get("errorCode")
            same = {
                "source": source_id,
                "action": actions[record["eventName"]],
                "at": plain_time(datetime.fromisoformat(record["eventTime"]).astimezone(UTC)),
                "principal": _principal(record.get("userIdentity") or {}),
                "request_id": record.get("requestID"),
                "operation": record["eventName"],
                "status": 404 if failed in MISSING else None if failed else 200,
                "succeeded": not failed,
                "took": None,
                "job": None,
                "reject": None,
            }
            rows = [same | place for place in _places(record["eventName"], parameters, failed, aliases)]
            yield from pa.Table.from_pylist(rows, REQUEST).to_pylist()
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, pa.ArrowException):
            yield _rejected(source_id, record)


def _places(name: str, parameters: Record, failed: object, aliases: Aliases) -> Iterator[dict[str, Any]]:
    """Yield bucket, key and version of each object that a request names."""
    if name == "DeleteObjects":
        listed = parameters.get("delete") or {}
        named = listed.get("object") or listed.get("objects") or []
        objects = [named] if isinstance(named, dict) else named
    elif name == "ListObjects":
        objects = [{"key": parameters.get("prefix") or ""}]
    elif failed and "key" not in parameters:
        return  # it was refused before it was parsed
    else:
        objects = [parameters]
    for each in objects:
        if not (isinstance(parameters["bucketName"], str) and isinstance(each["key"], str)):
            raise TypeError("not text")
        bucket, key = true_place(aliases, parameters["bucketName"], each["key"])
        yield {"bucket": bucket, "key": key, "version_id": each.get("versionId")}


def _principal(who: Record) -> str | None:
    """Return the principal, as far as the record names it; requests of `ANONYMOUS_PRINCIPAL` are not signed."""
    if who.get("accountId") == "anonymous":
        return "anonymous"
    named = (who.get(name) for name in ("arn", "invokedBy", "principalId", "accountId"))
    return next((str(name) for name in named if name), None)


_SAFE_FIELDS = ("eventName", "eventTime", "eventID")
"""The fields of an invalid record that a message shows: its parameters may hold the signature of a URL."""


def _rejected(source_id: str, record: object) -> dict[str, Any]:
    shown = {name: record.get(name) for name in _SAFE_FIELDS} if isinstance(record, dict) else record
    sample = json.dumps(shown, default=str)[:SAMPLE]
    nothing: dict[str, Any] = dict.fromkeys(REQUEST.names)
    return nothing | {"source": source_id, "reject": f"not a record of a request to S3: {sample}"}
