"""Find tables that are newer than the inventory reports by which `discover` knows tables: they may list old files."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.discovery import selecting_all, tables_at
from lakeaudit.evidence.files import folders
from lakeaudit.evidence.registry import reserved_folders
from lakeaudit.evidence.registry import roots as roots_of_formats
from lakeaudit.guard.doubts import Doubt
from lakeaudit.guard.listed_folders import is_root
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.threads import beside

MOST_FOLDERS = 2000
"""The most folders that are not tables in which tables are searched."""
THREADS = 16


@dataclass(frozen=True)
class NewTables:
    """Tables that the reports lack, and why there may be more."""

    tables: tuple[Table, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def new_tables(lake: Lake, known: Iterable[Table], clients: Clients) -> NewTables:
    """Return the tables in the places of `discover` that are not known: folders of known tables are not searched."""
    skipped = {table.location for table in known}
    places = [place for each in lake.discoveries for place in each.plain_places if place not in skipped]
    try:
        found, is_whole = _search(places, skipped, clients)
    except SourceError as error:
        return NewTables(doubts=(_missed(lake, error.what),))
    except (ClientError, BotoCoreError) as error:
        return NewTables(doubts=(_missed(lake, explain(error).what),))
    tables = tables_at(selecting_all(lake), {place: formats for place, formats in found if formats})[0]
    many = f"the places of `discover` have more than {MOST_FOLDERS:,} folders without a table"
    return NewTables(tuple(tables), () if is_whole else (_missed(lake, many),))


def _missed(lake: Lake, why: str) -> Doubt:
    return Doubt(lake.name, f"tables that are newer than the inventory reports may be missing: {why}")


def _search(
    places: list[Location], skipped: Collection[Location], clients: Clients
) -> tuple[list[tuple[Location, list[str]]], bool]:
    """Return the unknown folders with the formats of their tables, and whether all folders were searched."""
    found: list[tuple[Location, list[str]]] = []
    level = places
    with beside(THREADS) as pool:
        while level and len(found) <= MOST_FOLDERS:
            below = [each for some in pool.map(partial(_below, clients, skipped), level) for each in some]
            unknown = below[: MOST_FOLDERS + 1]
            formats = [*pool.map(partial(_formats, clients), unknown)]
            new = [*zip(unknown, formats, strict=True)]
            found += new
            level = [place for place, of_place in new if not of_place]
    return found, len(found) <= MOST_FOLDERS


def _below(clients: Clients, skipped: Collection[Location], place: Location) -> Iterator[Location]:
    """Yield the folders in a folder that may be tables or contain some: none of partitions, and no known table."""
    for name in folders(clients, place):
        child = place.join(name)
        if name and "=" not in name and name not in reserved_folders() and child not in skipped:
            yield child


def _formats(clients: Clients, place: Location) -> list[str]:
    return [name for name, root in roots_of_formats().items() if is_root(clients, place, root)]
