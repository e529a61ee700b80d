"""Storage as an S3 Inventory report names it: CSV, ORC or Parquet files that one manifest lists."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration, Flag, Place
from lakeaudit.config.sources import StorageSource
from lakeaudit.config.sources.base import EntryProblem, location_of
from lakeaudit.evidence.kind import StorageKind, deferred


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

    @property
    def expands(self) -> bool:
        return self.expand

    @classmethod
    def problems(cls, entry: Mapping[str, object]) -> Iterator[EntryProblem]:
        if entry.get("expand") is True and (place := location_of(entry)) and place.key.endswith(".json"):
            yield ("expand",), "one manifest holds no other inventories", "name the folder above"


KIND = StorageKind(
    name="s3_inventory",
    title="S3 Inventory",
    model=S3Inventory,
    read=deferred("lakeaudit.evidence.storage.inventory.reader:read"),
    probe=deferred("lakeaudit.evidence.storage.inventory.probe:probe"),
    finds_tables=True,
    expand=deferred("lakeaudit.evidence.storage.inventory.reader:expand"),
    permissions=deferred("lakeaudit.evidence.storage.inventory.permissions:permissions"),
    setup=deferred("lakeaudit.evidence.storage.inventory.permissions:setup"),
)
