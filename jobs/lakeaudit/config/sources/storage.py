"""What says what storage holds."""

from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import (
    Duration,
    Flag,
    Place,
    Text,
)
from lakeaudit.config.sources.base import Source
from lakeaudit.keys import Location


class StorageSource(Source):
    """What storage holds."""

    location: Place
    margin: Duration | None = None

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class S3Inventory(StorageSource):
    """A folder of dated S3 Inventory reports, or one manifest.json."""

    kind: Literal["s3_inventory"]
    location: Place
    covers: tuple[Place, ...] | None = Field(default=None, min_length=1)
    """None: the whole source bucket that the report names."""
    expand: Flag = False
    """Every folder `<source bucket>/<configuration>/` below the location is an inventory of its own."""
    max_age: Duration | None = None
    """None: 3d, and 10d where the folders of dated reports show that they are made weekly."""
    margin: Duration | None = None
    """None: the time rule's own margin."""


class GcsInventory(StorageSource):
    """A folder of inventory reports of Google's Storage Insights, or one manifest."""

    kind: Literal["gcs_inventory"]
    location: Place
    covers: tuple[Place, ...] | None = Field(default=None, min_length=1)
    """None: the whole bucket that the report is of."""
    max_age: Duration | None = None
    """None: 3d."""
    margin: Duration | None = None
    """None: no margin, since a report is of one instant."""


class AzureInventory(StorageSource):
    """A container or folder with the blob inventory reports of an account of Azure, or one manifest."""

    kind: Literal["azure_inventory"]
    location: Place
    rule: Text | None = None
    """None: the only rule whose reports lie there."""
    covers: tuple[Place, ...] | None = Field(default=None, min_length=1)
    """None: what the rule's prefixes name as whole containers and folders."""
    max_age: Duration | None = None
    """None: 3d, of weekly reports 10d."""
    margin: Duration | None = None
    """None: no margin, since what was there when the run began is listed."""


class S3Metadata(StorageSource):
    """The live inventory table of S3 Metadata: the metadata.json of its state, or the folder of the table."""

    kind: Literal["s3_metadata"]
    location: Place
    covers: tuple[Place, ...] = Field(min_length=1)
    """The bucket that the table is of, or places in it: the table itself has no word of it."""
    max_age: Duration | None = None
    """None: 3d."""
    margin: Duration | None = None
    """None: 1h, or 24h where the table does not say up to when it is whole."""


class Listing(StorageSource):
    """A place that is listed while the audit runs."""

    kind: Literal["listing"]
    location: Place
    margin: Duration | None = None
    """None: no margin, since the time of a listing is known."""
