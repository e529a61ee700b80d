"""Azure Blob Storage as its blob inventory reports name it, hierarchical accounts and flat ones."""

from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration, Place, Text
from lakeaudit.config.sources import StorageSource
from lakeaudit.evidence.kind import StorageKind, deferred


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


KIND = StorageKind(
    name="azure_inventory",
    title="Azure's blob inventory reports",
    model=AzureInventory,
    read=deferred("lakeaudit.evidence.storage.azure_inventory.reader:read"),
    probe=deferred("lakeaudit.evidence.storage.azure_inventory.reader:probe"),
    finds_tables=True,
)
