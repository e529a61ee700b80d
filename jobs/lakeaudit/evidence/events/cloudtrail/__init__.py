"""Data events of S3 in CloudTrail."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration, Place
from lakeaudit.config.sources import EventsSource
from lakeaudit.evidence.kind import EventsKind, deferred


class CloudTrail(EventsSource):
    """Data events of S3 in CloudTrail: the folder that a trail delivers to."""

    kind: Literal["cloudtrail"]
    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})


KIND = EventsKind(
    name="cloudtrail",
    title="CloudTrail's data events",
    model=CloudTrail,
    read=deferred("lakeaudit.evidence.events.cloudtrail.reader:read"),
    probe=deferred("lakeaudit.evidence.events.cloudtrail.reader:probe"),
    setup=deferred("lakeaudit.evidence.events.cloudtrail.setup:setup"),
)
