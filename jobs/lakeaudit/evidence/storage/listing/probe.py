"""Whether a place can be listed, and the first of its objects be read."""

from datetime import datetime
from pathlib import Path

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import list_files, stat
from lakeaudit.evidence.protocol import Probed
from lakeaudit.evidence.storage.listing import Listing
from lakeaudit.evidence.storage.listing.s3_listing import rights
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import LACKS


def probe(source: Listing, clients: Clients, now: datetime) -> Probed:  # noqa: ARG001 - a listing has no age
    """See `registry.StorageKind`."""
    place = source.location
    if place.is_local:
        if not Path(place.spark_path).is_dir():
            raise SourceError(place.uri, "is not a folder", "correct the location")
        return Probed("can be listed", covers=(place,))
    allowed = rights(clients, place)
    first = next(list_files(clients, place), None)
    if first is not None:
        stat(clients, first.place)
    denied = any(LACKS not in warning for warning in allowed.warnings)
    hint = "grant s3:ListBucketVersions and s3:ListBucketMultipartUploads" if denied else ""
    told = "can be listed and read" if first else "can be listed; it is empty"
    return Probed(told, allowed.warnings, hint, (place,))
