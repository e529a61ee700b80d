"""Google's inventory reports of Storage Insights: what a bucket held at one instant."""

from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration, Place
from lakeaudit.config.sources import StorageSource
from lakeaudit.evidence.kind import StorageKind, deferred


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


KIND = StorageKind(
    name="gcs_inventory",
    title="Google's inventory reports",
    model=GcsInventory,
    read=deferred("lakeaudit.evidence.storage.gcs_inventory.reader:read"),
    probe=deferred("lakeaudit.evidence.storage.gcs_inventory.reader:probe"),
    finds_tables=True,
)
