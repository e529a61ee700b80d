"""The journal table of S3 Metadata, and exports of it."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration, Place
from lakeaudit.config.sources import EventsSource
from lakeaudit.evidence.kind import EventsKind, deferred


class S3Journal(EventsSource):
    """The journal table of S3 Metadata, or exports of it: Parquet or JSON Lines files with its columns."""

    kind: Literal["s3_journal"]
    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})


KIND = EventsKind(
    name="s3_journal",
    title="S3 Metadata's journal table",
    model=S3Journal,
    read=deferred("lakeaudit.evidence.events.journal.reader:read"),
    probe=deferred("lakeaudit.evidence.events.journal.reader:probe"),
    permissions=deferred("lakeaudit.evidence.storage.s3_metadata.permissions:permissions"),
    setup=deferred("lakeaudit.evidence.storage.s3_metadata.permissions:setup"),
)
