"""The AWS permissions of other places of which tables should be copies."""

from collections.abc import Iterator

from lakeaudit.config import Lake
from lakeaudit.evidence.manifest.replica_source import InventoryManifest, ListingManifest
from lakeaudit.evidence.storage.inventory.permissions import folder_of
from lakeaudit.evidence.storage.listing.permissions import LISTED
from lakeaudit.grants import GET, LIST, LIST_VERSIONS, VERSIONING, Grant, S3Grant, read_below
from lakeaudit.keys import in_known_store


def of_listing(source: ListingManifest, lake: Lake) -> Iterator[Grant]:
    """See `kind.Kind`."""
    yield S3Grant("ListOriginals", source.location, LISTED)
    yield from _originals(lake)


def of_inventory(source: InventoryManifest, lake: Lake) -> Iterator[Grant]:
    """See `kind.Kind`."""
    yield from read_below("ReadInventories", (folder_of(source.location),))
    yield from _originals(lake)


def _originals(lake: Lake) -> Iterator[Grant]:
    """Yield the grants to look up originals of lost copies, at the places from which `maps` lead."""
    for old, _ in lake.maps:
        if in_known_store(old.bucket):
            yield S3Grant("LookUpOriginals", old, (GET, LIST, LIST_VERSIONS, VERSIONING))
