"""Name the places of a lake's tables for grants. Pure."""

from collections.abc import Iterator

from lakeaudit.config import Lake
from lakeaudit.grants import Grant, NoGrant, S3Grant
from lakeaudit.keys import Location


def on_tables(purpose: str, lake: Lake, actions: tuple[str, ...]) -> Iterator[Grant]:
    """Yield the grants on each place where a table of the lake is, or may be discovered."""
    for table in lake.tables:
        yield S3Grant(purpose, table.location, actions)
    for each in lake.discoveries:
        for place in each.under:
            yield S3Grant(purpose, place, actions, is_pattern=place in each.patterns)
    for by in lake.catalog_discoveries:
        for _, store in by.stores:
            if store.location is not None:
                yield S3Grant(purpose, store.location, actions)
            else:
                why = "its tables are discovered, and the lake file does not say where they are"
                yield NoGrant(f"catalog {store.name}", why, "give the catalog a `location`")


def buckets_of_tables(lake: Lake) -> list[Location]:
    """Return the buckets of S3 in which the lake file names tables, or places with tables."""
    places = [table.location for table in lake.tables]
    places += [place for each in lake.discoveries for place in each.plain_places]
    return [Location(bucket, "") for bucket in sorted({place.bucket for place in places if place.is_in_s3})]
