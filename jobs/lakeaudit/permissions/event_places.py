"""Choose the places of a lake whose events `follow` needs, and the folders of doctor's canaries. Pure."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from lakeaudit.config import Lake
from lakeaudit.keys import Location

CANARY = "_lakeaudit_canary"
"""The folder of canaries, next to tables: readers ignore names that begin with `_`."""


def event_places(lake: Lake) -> tuple[Location, ...]:
    """Return one folder of each bucket in S3 that contains all its tables, sorted.

    A table's own location is below its folder, so that a canary in the folder is in no table that the lake file names.
    """
    folders: dict[str, list[Location]] = {}
    for place in _folders(lake):
        if place.is_in_s3:
            folders.setdefault(place.bucket, []).append(place)
    return tuple(_around(places) for _, places in sorted(folders.items()))


def canary_folder(place: Location) -> Location:
    """Return the folder of canaries below a place of events."""
    return place.join(CANARY)


def is_canary(key: str) -> bool:
    """Return whether a key is in a folder of canaries."""
    return f"/{CANARY}/" in f"/{key}"


def unnamed_places(lake: Lake) -> Iterator[str]:
    """Yield the parts of a lake file that name no bucket, whose events have to be set up by hand."""
    for place in (place for each in lake.discoveries for place in each.patterns):
        yield f"events of the buckets that match {place.uri}: set them up for each of these buckets"
    for name, store in (each for by in lake.catalog_discoveries for each in by.stores):
        if store.location is None:
            yield f"events of the buckets of tables in catalog {store.name or name}: set them up for each of them"


def _folders(lake: Lake) -> Iterator[Location]:
    for table in lake.tables:
        yield Location(table.location.bucket, table.location.key.rpartition("/")[0])
    for each in lake.discoveries:
        yield from each.plain_places
    for by in lake.catalog_discoveries:
        yield from (store.location for _, store in by.stores if store.location is not None)


def _around(places: Sequence[Location]) -> Location:
    """Return the smallest folder around places of one bucket."""
    levels = zip(*(place.key.split("/") for place in places), strict=False)
    common = takewhile(lambda level: len({*level}) == 1, levels)
    return Location(places[0].bucket, "/".join(level[0] for level in common))
