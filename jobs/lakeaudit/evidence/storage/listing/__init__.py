"""Storage as a listing of S3 or of a local folder names it now: versions, delete markers and open uploads."""

from collections.abc import Iterator, Mapping
from typing import Literal

from lakeaudit.config.field_types import Duration, Place
from lakeaudit.config.sources import StorageSource
from lakeaudit.config.sources.base import EntryProblem, location_of
from lakeaudit.evidence.kind import StorageKind, deferred


class Listing(StorageSource):
    """A place that is listed while the audit runs."""

    is_listing = True

    kind: Literal["listing"]
    location: Place
    margin: Duration | None = None
    """None: no margin, since the time of a listing is known."""

    @classmethod
    def problems(cls, entry: Mapping[str, object]) -> Iterator[EntryProblem]:
        place = location_of(entry)
        if place is not None and place.is_azure:
            hint = "have the account make a blob inventory and name its folder as azure_inventory"
            yield ("location",), "containers of Azure are not listed", hint


KIND = StorageKind(
    name="listing",
    title="a listing of a bucket or folder",
    model=Listing,
    read=deferred("lakeaudit.evidence.storage.listing.reader:read"),
    probe=deferred("lakeaudit.evidence.storage.listing.probe:probe"),
    permissions=deferred("lakeaudit.evidence.storage.listing.permissions:permissions"),
)
