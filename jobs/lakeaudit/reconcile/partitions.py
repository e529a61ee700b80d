"""What a finding about a partition is about, and how the catalog and storage have it now.

Steps about partitions go by the finding's subject in place of a key: `<place>#<kind> <catalog>:<table>`, where the
place is the URI of a folder, or the partition's `col=value/col=value`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import CatalogSource, Lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.protocol import folder_of
from lakeaudit.evidence.storage.folder_look import look_into
from lakeaudit.keys import identify
from lakeaudit.reconcile.glue_partitions import GluePartitions
from lakeaudit.reconcile.hive_partitions import HivePartitions
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.partition_store import Partition, PartitionStore, TableSeen
from lakeaudit.reconcile.protocol import Sight
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain

UNREGISTERED, EMPTY, STALE = "unregistered_partition", "empty_partition", "stale_pointer"
POINTERS = (UNREGISTERED, EMPTY, STALE)
"""Kinds whose steps are about partitions and tables of catalogs, and about no object."""
_ESCAPED = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{}\\[\\]^]")
"""Characters that Hive escapes in names of partitions' folders (`FileUtils.escapePathName`)."""


@dataclass(frozen=True)
class PartitionState:
    """A partition as the catalog has it now, None: not, and what readers see where it could lie.

    Attributes:
        table: that it is of.
        values: of its columns.
        partition: that is registered.
        location: of the folder that is called by its values.
        folder_filled: readers see files in that folder.
        filled: readers see files where the registered one points.
    """

    table: TableSeen
    values: tuple[str, ...]
    partition: Partition | None
    location: str
    folder_filled: bool
    filled: bool


def partition_of(sight: Sight, bucket: str, key: str) -> PartitionState:  # noqa: ARG001 - the protocol's
    """What there is now of a finding's subject. Raises Unclear."""
    place, source, name = _subject(sight.lake, key)
    try:
        store = opened_at(source, sight.clients, name)
        sight.keys.pace()
        table = store.table()
        if table is None:
            raise Unclear("the catalog does not know its table any more")
        if not table.asked_for or not table.columns:
            raise Unclear("readers of its table do not ask the catalog for partitions")
        values, relative = _values(sight.clients, table, place)
        partition = store.partition(values)
    except (ClientError, BotoCoreError) as error:
        raise Unclear(f"the catalog cannot be asked: {explain(error).what}") from error
    except SourceError as error:
        raise Unclear(str(error)) from error
    location = f"{table.location.rstrip('/')}/{relative}"
    folder_filled = _seen_at(sight, location)
    filled = partition is not None and _seen_at(sight, partition["location"])
    return PartitionState(table, values, partition, location, folder_filled, filled)


def store_at(lake: Lake, clients: Clients, key: str) -> PartitionStore:
    """The store of a finding's subject. Raises Unclear."""
    _, source, name = _subject(lake, key)
    return opened_at(source, clients, name)


def opened_at(source: CatalogSource, clients: Clients, name: str) -> PartitionStore:
    """The store of a table by its name in a catalog. Raises Unclear: nothing here writes to such a catalog."""
    if source.kind not in _STORES:
        raise Unclear(f"nothing here writes to a catalog of kind {source.kind}")
    return _STORES[source.kind](source, clients, name)


_STORES: Mapping[str, Callable[[Any, Clients, str], PartitionStore]] = {
    "glue": GluePartitions.opened,
    "hive": lambda source, _, name: HivePartitions.opened(source, name),
}
"""By kind of catalog the store of a table's partitions."""


def _subject(lake: Lake, key: str) -> tuple[str, CatalogSource, str]:
    """(place, catalog, table in it)."""
    found = [
        (place, store, table)
        for store in lake.metastores
        if isinstance(store, CatalogSource) and store.knows_partitions
        for place, mark, table in [key.rpartition(f"#{store.kind} {store.name}:")]
        if mark
    ]
    if len(found) != 1:
        raise Unclear(f"{len(found)} catalogs of the lake file are called as the finding's")
    return found[0]


def _values(clients: Clients, table: TableSeen, place: str) -> tuple[tuple[str, ...], str]:
    """(the values that a place names, its folder below the table's)."""
    named = identify(place)
    if named is None:
        values = _of_path(table.columns, place)
        pairs = zip(table.columns, values, strict=True)
        return values, "/".join(f"{column.lower()}={_escaped(value)}" for column, value in pairs)
    bucket, root = folder_of(table.location, clients.aliases)
    if named[0] != bucket or not named[1].startswith(root) or not (bucket or root):
        raise Unclear("the folder lies outside of the table's place in the catalog")
    relative = named[1][len(root) :].rstrip("/")
    return _of_folder(table.columns, relative), relative


def _of_folder(columns: Sequence[str], relative: str) -> tuple[str, ...]:
    """Values as Hive unescapes them; names of columns without regard to case."""
    pairs = [part.partition("=") for part in relative.split("/")]
    if [name.lower() for name, mark, _ in pairs if mark] != [column.lower() for column in columns]:
        raise Unclear("the folder's name does not say the values of its partition")
    try:
        return tuple(unquote(value, errors="strict") for _, _, value in pairs)
    except UnicodeDecodeError:
        raise Unclear("the folder's name does not say the values of its partition") from None


def _of_path(columns: Sequence[str], path: str) -> tuple[str, ...]:
    """Values of `col=value/col=value`, where they stand as they are: a value may hold a slash."""
    pattern = "/".join(f"{re.escape(column)}=(.*)" for column in columns)
    found = re.fullmatch(pattern, path, re.DOTALL)
    marks = [f"/{column}=" for column in columns[1:]]
    if found is None or any(path.count(mark) != 1 for mark in marks):
        raise Unclear("the finding does not say the values of its partition")
    return found.groups()


def _escaped(value: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def _seen_at(sight: Sight, location: str) -> bool:
    """Whether readers see anything at a place now. Raises Unclear."""
    bucket, key = folder_of(location, sight.clients.aliases)
    if not bucket and not key:
        raise Unclear("the partition's location is in no store that is known")
    sight.keys.pace()
    answer, _, seen, _ = look_into(sight.clients, (bucket, key))
    if answer != "live":
        raise Unclear(f"storage cannot be asked about {location}: {answer}")
    return bool(seen)
