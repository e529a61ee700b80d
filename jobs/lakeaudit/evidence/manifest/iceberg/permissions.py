"""The AWS permissions of an Iceberg table's metadata outside of the table."""

from collections.abc import Iterator

from lakeaudit.config import Lake
from lakeaudit.evidence.manifest.iceberg import IcebergManifest
from lakeaudit.grants import Grant, read_below
from lakeaudit.keys import Location


def permissions(source: IcebergManifest, lake: Lake) -> Iterator[Grant]:  # noqa: ARG001 - the signature of all kinds
    """See `kind.Kind`. Lists and manifests are beside a metadata.json."""
    for place in source.places:
        is_file = place.key.endswith((".json", ".json.gz"))
        folder = Location(place.bucket, place.key.rpartition("/")[0]) if is_file else place
        yield from read_below("ReadIcebergMetadata", (folder,))
