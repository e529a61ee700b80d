"""Finds the keys of tables whose location has empty parts (`s3a://b//warehouse/t`): Hadoop writes single slashes.

The location as written takes precedence. If it has no objects and its form with single slashes has some, that form is
the table's location for manifests, catalogs and storage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakeaudit.config import Lake, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import holds_any_file
from lakeaudit.keys import Aliases, Location, collapsed
from lakeaudit.runtime.connections.aws import Clients


def collapsed_locations(tables: Sequence[Table], clients: Clients) -> Aliases:
    """Return (location as written, location of the keys) for tables whose keys have single slashes.

    Only locations with empty parts are checked, with two listings of one key each.
    """
    return tuple(_moved(tables, clients))


def _moved(tables: Sequence[Table], clients: Clients) -> Iterator[tuple[Location, Location]]:
    for place in dict.fromkeys(table.location for table in tables):
        by_hadoop = Location(place.bucket, collapsed(place.key))
        if by_hadoop == place or place.is_local:
            continue
        try:
            if not holds_any_file(clients, place) and holds_any_file(clients, by_hadoop):
                yield place, by_hadoop
        except SourceError:
            continue  # the table's reader reports the error


def as_stored(lake: Lake, clients: Clients) -> tuple[Lake, Clients]:
    """Return the lake with its tables at the locations of their keys, and clients that resolve the names as written."""
    moved = collapsed_locations(lake.tables, clients)
    return relocated(lake, moved), with_collapsed(clients, moved)


def place_in_tables(tables: Sequence[Table], bucket: str, key: str) -> tuple[str, str]:
    """Return (bucket, key) as written, or, if no table contains it, the matching key without empty parts in a table."""
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
    """Return clients that resolve the names of manifests and catalogs below these locations to the stored keys."""
    if not moved:
        return clients
    names = sorted({*moved, *clients.aliases}, key=lambda pair: (-len(pair[0].key), pair))
    return replace(clients, aliases=tuple(names))


def relocated(lake: Lake, moved: Aliases) -> Lake:
    """Return the lake with the tables at the locations of their keys.

    If the lake already has a table of the same format there, the two become one table.
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
