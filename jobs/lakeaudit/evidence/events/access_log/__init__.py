"""Server access logs of S3."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration, Place
from lakeaudit.config.sources import EventsSource
from lakeaudit.evidence.kind import EventsKind, deferred


class S3AccessLog(EventsSource):
    """Server access logs of S3: the folder that they are delivered to."""

    kind: Literal["s3_access_log"]
    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})


KIND = EventsKind(
    name="s3_access_log",
    title="S3's access logs",
    model=S3AccessLog,
    read=deferred("lakeaudit.evidence.events.access_log.reader:read"),
    probe=deferred("lakeaudit.evidence.events.access_log.reader:probe"),
    setup=deferred("lakeaudit.evidence.events.access_log.setup:setup"),
)
