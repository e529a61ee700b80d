"""Records of who did what."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import (
    Duration,
    Place,
)
from lakeaudit.config.sources.base import Source
from lakeaudit.keys import Location


class EventsSource(Source):
    """Who did what to which key, and when: the requests of `window` before the audit are read."""

    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class S3AccessLog(EventsSource):
    """Server access logs of S3: the folder that they are delivered to."""

    kind: Literal["s3_access_log"]
    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})


class CloudTrail(EventsSource):
    """Data events of S3 in CloudTrail: the folder that a trail delivers to."""

    kind: Literal["cloudtrail"]
    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})


class S3Journal(EventsSource):
    """The journal table of S3 Metadata, or exports of it: Parquet or JSON Lines files with its columns."""

    kind: Literal["s3_journal"]
    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})
