"""Use `listing` and `s3_inventory` as manifests: all objects of another place should be here (a migration, a copy).

`reader` reads that place as storage is read, `originals` turns its objects into claims by the names that `maps` give
them, and `point_lookup` looks up one object.
"""

from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration, Flag, Place
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import BY_KEY, ManifestKind, RowKind, deferred
from lakeaudit.keys import Location


class ReplicaSourceManifest(ManifestSource):
    """Another place whose objects the table should copy; `maps` name the copies.

    `complete`: the table should have no other files.
    """

    is_original = True

    location: Place
    complete: Flag = False
    keep: Duration | None = None
    """Age at which a copy may be deleted, by the day in its folders' names, else the original's age; None: never."""

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class ListingManifest(ReplicaSourceManifest):
    """All objects at another place while the audit runs."""

    kind: Literal["listing"]


class InventoryManifest(ReplicaSourceManifest):
    """All objects of another place in an S3 Inventory report, which may have any age."""

    kind: Literal["s3_inventory"]
    covers: tuple[Place, ...] | None = Field(default=None, min_length=1)
    """None: the whole source bucket that the report names."""


LISTING = ManifestKind(
    name="listing",
    title="a listing of another place",
    model=ListingManifest,
    read=deferred("lakeaudit.evidence.manifest.replica_source.reader:read_listing"),
    permissions=deferred("lakeaudit.evidence.manifest.replica_source.permissions:of_listing"),
    changes=deferred("lakeaudit.evidence.manifest.replica_source.reader:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.replica_source.point_lookup:read"),
    by_storage=True,
    rows={"originals": RowKind(BY_KEY, keyed=True)},
)

INVENTORY = ManifestKind(
    name="s3_inventory",
    title="an S3 Inventory report of another place",
    model=InventoryManifest,
    read=deferred("lakeaudit.evidence.manifest.replica_source.reader:read_inventory"),
    permissions=deferred("lakeaudit.evidence.manifest.replica_source.permissions:of_inventory"),
    changes=deferred("lakeaudit.evidence.manifest.replica_source.reader:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.replica_source.point_lookup:read"),
    by_storage=True,
    rows={"originals": RowKind(BY_KEY, keyed=True)},
)
