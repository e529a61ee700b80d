"""The tables that `follow` watches, with the index of their files."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeaudit.follow.losses import Judge
from lakeaudit.follow.needed_files import NeededFiles
from lakeaudit.follow.table_places import TablePlaces
from lakeaudit.runtime.connections.aws import Clients


@dataclass(frozen=True)
class KnownTables:
    """The tables of a lake, and how their objects are judged.

    Attributes:
        needed: the files that tables need.
        judge: judges objects.
        places: of the tables.
        watched: the tables whose losses can be seen.
        clients: resolve the names in the manifests of these tables.
        unwatched: by table why its losses cannot be seen; what may be missing in the list of tables is under its place.
    """

    needed: NeededFiles
    judge: Judge
    places: TablePlaces
    watched: frozenset[str]
    clients: Clients
    unwatched: Mapping[str, str] = field(default_factory=dict)
