"""`listing` and `s3_inventory` as manifests: all that another place holds should be here (a migration, a copy).

`reader` reads that place as storage is read, `originals` makes claims of its objects by the names that `maps` give
them, and `point_lookup` asks for one object.
"""

from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration, Flag, Place
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import BY_KEY, ManifestKind, RowKind, deferred
from lakeaudit.keys import Location


class ElsewhereManifest(ManifestSource):
    """Another place, of whose objects the table should have a copy each; `maps` say which of them.

    `complete`: it should have nothing else.
    """

    is_original = True

    location: Place
    complete: Flag = False
    keep: Duration | None = None
    """From that age on a copy may be gone, by the day in its folders' names, else the original's age; None: never."""

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class ListingManifest(ElsewhereManifest):
    """All that lies at another place while the audit runs."""

    kind: Literal["listing"]


class InventoryManifest(ElsewhereManifest):
    """All that an S3 Inventory report names of another place; it may be of any age."""

    kind: Literal["s3_inventory"]
    covers: tuple[Place, ...] | None = Field(default=None, min_length=1)
    """None: the whole source bucket that the report names."""


LISTING = ManifestKind(
    name="listing",
    title="a listing of another place",
    model=ListingManifest,
    read=deferred("lakeaudit.evidence.manifest.another_place.reader:read_listing"),
    changes=deferred("lakeaudit.evidence.manifest.another_place.reader:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.another_place.point_lookup:read"),
    by_storage=True,
    rows={"originals": RowKind(BY_KEY, keyed=True)},
)

INVENTORY = ManifestKind(
    name="s3_inventory",
    title="an S3 Inventory report of another place",
    model=InventoryManifest,
    read=deferred("lakeaudit.evidence.manifest.another_place.reader:read_inventory"),
    changes=deferred("lakeaudit.evidence.manifest.another_place.reader:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.another_place.point_lookup:read"),
    by_storage=True,
    rows={"originals": RowKind(BY_KEY, keyed=True)},
)
