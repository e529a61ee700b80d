"""Turn the rows of S3 Metadata's journal into events of objects."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow as pa

from lakeaudit.errors import SourceError, one_line
from lakeaudit.evidence.events.journal.reader import GONE, LIFECYCLE, tables_of
from lakeaudit.evidence.files import File
from lakeaudit.follow.event_fields import (
    UnknownFormError,
    UnknownPart,
    bucket_name,
    etag_of,
    optional_text,
    quoted,
    raw_key,
    required_text,
    sequencer_of,
    size_of,
    time_of,
)
from lakeaudit.follow.events import Change, ObjectEvent, ParsedMessage
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import plain_time

ROWS = 5_000
"""Rows of one message."""


def parsed_rows(clients: Clients, file: File, least: datetime | None) -> Iterator[ParsedMessage]:
    """Yield the rows of a data file in messages, without those before `least`; a damaged file is an unknown part."""
    try:
        for table in tables_of(clients, file):
            rows = iter(table.to_pylist())
            while some := list(islice(rows, ROWS)):
                yield _message(some, least)
    except SourceError as error:
        if error.what != GONE:  # a compaction removed it, and its rows are in a file of a newer state
            yield ParsedMessage(unknown=(UnknownPart("invalid record", f"{file.place.uri}: {error.what}"),))
    except (pa.ArrowException, ValueError, OSError, RecursionError) as error:
        reason = f"{file.place.uri} is not a part of a journal: {one_line(str(error), 200) or 'damaged'}"
        yield ParsedMessage(unknown=(UnknownPart("invalid record", reason),))


def _message(rows: Sequence[dict[str, Any]], least: datetime | None) -> ParsedMessage:
    events: list[ObjectEvent] = []
    unknown: list[UnknownPart] = []
    for row in rows:
        try:
            event = event_of(row)
        except UnknownFormError as error:
            unknown.append(error.part)
            continue
        if least is None or event.at is None or event.at >= least:
            events.append(event)
    return ParsedMessage(tuple(events), tuple(unknown))


def event_of(row: dict[str, Any]) -> ObjectEvent:
    """Return the event of a row (Amazon S3 User Guide, "S3 Metadata journal tables schema").

    Raises:
        UnknownFormError: the row has an unknown type, or no bucket or key.
    """
    return ObjectEvent(
        bucket=bucket_name(row.get("bucket")),
        key=raw_key(required_text(row.get("key"), "key")),
        version_id=optional_text(row.get("version_id")),
        sequencer=sequencer_of(row.get("sequence_number")),
        change=_change(row),
        name=f"journal: {row['record_type']}",
        at=_time(row.get("record_timestamp")),
        principal=optional_text(row.get("requester")),
        request_id=optional_text(row.get("request_id")),
        size=size_of(row.get("size")),
        etag=etag_of(row.get("e_tag")),
    )


def _change(row: dict[str, Any]) -> Change:
    kind = row.get("record_type")
    if kind == "CREATE":
        return "created"
    if kind == "UPDATE_METADATA":
        return "other"
    if kind != "DELETE":
        raise UnknownFormError("unknown event", f"the record type {quoted(kind)} is not known")
    marked = row.get("is_delete_marker") in (True, "true")
    if row.get("requester") in LIFECYCLE:
        return "expired_marked" if marked else "expired"
    return "marked_deleted" if marked else "removed"


def _time(value: object) -> datetime | None:
    """Return a time in UTC without a zone, from a column of Parquet or from text of an export."""
    if isinstance(value, str):
        return time_of(value.removesuffix(" UTC"))
    return plain_time(value) if isinstance(value, datetime) else None
