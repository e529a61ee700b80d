"""Locations with empty parts (`s3a://b//warehouse/t`) of tables that Hadoop wrote: their keys have single slashes.

The location as it is written comes first. Where nothing lies there and something lies below its form with single
slashes, that form is the table's place, for manifests, catalogs and storage alike.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from lakeaudit.config import Lake, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import list_files
from lakeaudit.keys import Aliases, Location, collapsed
from lakeaudit.runtime.aws import Clients


def collapsed_locations(tables: Sequence[Table], clients: Clients) -> Aliases:
    """(location as it is written, the one where the table lies), for tables whose keys have single slashes.

    Only locations with empty parts are looked at: two listings of one key each.
    """
    return tuple(_moved(tables, clients))


def _moved(tables: Sequence[Table], clients: Clients) -> Iterator[tuple[Location, Location]]:
    for place in dict.fromkeys(table.location for table in tables):
        by_hadoop = Location(place.bucket, collapsed(place.key))
        if by_hadoop == place or place.is_local:
            continue
        try:
            if not _holds_any(clients, place) and _holds_any(clients, by_hadoop):
                yield place, by_hadoop
        except SourceError:
            continue  # the reader of the table says why


def _holds_any(clients: Clients, place: Location) -> bool:
    return any(True for _ in islice(list_files(clients, place), 1))


def as_stored(lake: Lake, clients: Clients) -> tuple[Lake, Clients]:
    """The lake with its tables where they lie, and clients that look there for what is named otherwise."""
    moved = collapsed_locations(lake.tables, clients)
    return relocated(lake, moved), with_collapsed(clients, moved)


def place_in_tables(tables: Sequence[Table], bucket: str, key: str) -> tuple[str, str]:
    """(bucket, key) as it is written, or where no table holds that, in the table that holds it but for empty parts."""
    place = Location(bucket, key)
    if any(table.location.contains(place) for table in tables):
        return place
    single = collapsed(key)
    for table in sorted(tables, key=lambda each: -each.location.depth):
        home = collapsed(table.location.key)
        if table.location.bucket == bucket and f"{single}/".startswith(f"{home}/"):
            return bucket, f"{table.location.key}{single[len(home) :]}"
    return place


def with_collapsed(clients: Clients, moved: Aliases) -> Clients:
    """Clients by which what manifests and catalogs name below these locations is looked for where it lies."""
    if not moved:
        return clients
    names = sorted({*moved, *clients.aliases}, key=lambda pair: (-len(pair[0].key), pair))
    return replace(clients, aliases=tuple(names))


def relocated(lake: Lake, moved: Aliases) -> Lake:
    """The lake with the tables at the places where they lie.

    A table of the same format that the lake has there already stands for both.
    """
    places = dict(moved)
    if not places:
        return lake
    tables = {_identity(table): table for table in lake.tables if table.location not in places}
    for table in lake.tables:
        if table.location not in places:
            continue
        new = table.model_copy(update={"location": places[table.location]})
        same = tables.get(_identity(new))
        also = () if same is None else (*same.also, table.name, *table.also)
        tables[_identity(new)] = new if same is None else same.model_copy(update={"also": also})
    return lake.model_copy(update={"tables": tuple(tables.values())})


def _identity(table: Table) -> tuple[Location, tuple[str, ...]]:
    return table.location, tuple(sorted(each.kind for each in table.manifests))
