"""Map the places of a lake to endpoints, for boto3 and for Spark."""

from collections.abc import Iterator
from dataclasses import replace

from lakeaudit.config import DynamoOptions, Lake, S3Options, glob_to_regex
from lakeaudit.config.sources.base import Source
from lakeaudit.keys import Aliases, Location, outside_local
from lakeaudit.runtime.connections.aws import Clients, Endpoint


def endpoint(options: S3Options) -> Endpoint:
    """Return an `s3` block as the clients take it."""
    return Endpoint(
        endpoint=options.endpoint,
        region=options.region,
        path_style=bool(options.path_style),
        role_arn=options.role_arn,
        external_id=options.external_id,
        requester_pays=bool(options.requester_pays),
    )


def dynamodb_endpoint(options: DynamoOptions) -> Endpoint:
    """Return a `dynamodb` block as the clients take it."""
    return Endpoint(
        endpoint=options.endpoint,
        region=options.region,
        role_arn=options.role_arn,
        external_id=options.external_id,
    )


def clients_of(lake: Lake) -> Clients:
    """Return clients for every bucket, by the lake's rules and by the `s3` blocks of sources."""
    rules = tuple((glob_to_regex(rule.match), endpoint(rule.options.over(lake.s3))) for rule in lake.buckets)
    azure = tuple(
        (glob_to_regex(rule.match), rule.endpoint)
        for rule in lake.buckets
        if "@" in rule.match and rule.endpoint
    )
    classes = tuple((glob_to_regex(rule.match), rule.storage_classes) for rule in lake.buckets)
    plain = Clients(
        endpoint(lake.s3), rules, aliases=_names(lake), maps=lake.maps, azure=azure, classes=classes
    )
    places = [(place, endpoint(options)) for place, options in _places(lake) if not place.is_local]
    places.append((lake.results, plain.endpoint(lake.results.bucket)))
    apart = {place.bucket for place, at in places if at != plain.endpoint(place.bucket)}
    own: dict[str, dict[str, Endpoint]] = {bucket: {} for bucket in apart}
    for place, at in places:
        if place.bucket in own:
            own[place.bucket].setdefault(place.key, at)
    for place, at in places:
        if place.bucket in own:
            for folder in _around(place):
                own[place.bucket].setdefault(folder, at)
    return replace(plain, own=own)


def _names(lake: Lake) -> Aliases:
    """Return other names of places, as claims write them.

    Local paths are places of this host only below the places of the lake file, unless all tables are on local disks.
    """
    listed = [source.location for source in lake.inventories if source.is_listing]
    tables = [table.location for table in lake.tables]
    if all(place.is_local for place in tables or listed):
        return lake.aliases
    return (
        *lake.aliases,
        *outside_local((*tables, *(place for source in _sources(lake) for place in source.places))),
    )


def _around(place: Location) -> list[str]:
    """Return the folders around a place, with the bucket."""
    parts = place.key.split("/")[:-1]
    return ["/".join(parts[:end]) for end in range(len(parts), -1, -1)]


def _places(lake: Lake) -> list[tuple[Location, S3Options]]:
    """Return the places of sources, and of tables with options of their own: other tables follow their bucket."""
    places = [(table.location, table.s3) for table in lake.tables if table.s3 != lake.s3]
    return places + [(place, source.s3) for source in _sources(lake) for place in source.places]


def _sources(lake: Lake) -> Iterator[Source]:
    """Yield all evidence that the lake file names."""
    yield from (manifest for table in lake.tables for manifest in table.manifests)
    yield from (*lake.inventories, *lake.metastores, *lake.events)
