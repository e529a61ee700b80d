"""Read the partition of a finding from its catalog, and the files at its locations.

Steps on partitions have the finding's subject instead of a key: `<place>#<kind> <catalog>:<table>`, where the place is
the URI of a folder, or the partition's `col=value/col=value`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import CatalogSource, Lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.protocol import folder_of
from lakeaudit.evidence.storage.folder_look import look_into
from lakeaudit.grants import Grant
from lakeaudit.keys import identify
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.protocol import StateReader
from lakeaudit.reconcile.stores.glue_partitions import GluePartitions, glue_partition_grant
from lakeaudit.reconcile.stores.hive_partitions import HivePartitions
from lakeaudit.reconcile.stores.partition_store import CatalogTable, Partition, PartitionStore
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain

UNREGISTERED, EMPTY, STALE = "unregistered_partition", "empty_partition", "stale_pointer"
POINTERS = (UNREGISTERED, EMPTY, STALE)
"""Kinds whose steps act on partitions and tables of catalogs instead of objects."""
_ESCAPED = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{}\\[\\]^]")
"""Characters that Hive escapes in names of partition folders (`FileUtils.escapePathName`)."""


@dataclass(frozen=True)
class PartitionState:
    """The current state of a partition in its catalog and in storage.

    Attributes:
        table: table of the partition.
        values: values of its columns.
        partition: the registered partition; None: it is not registered.
        location: location of the folder that is named by the values.
        folder_filled: readers see files in that folder.
        filled: readers see files at the location of the registered partition.
    """

    table: CatalogTable
    values: tuple[str, ...]
    partition: Partition | None
    location: str
    folder_filled: bool
    filled: bool


def partition_of(reader: StateReader, bucket: str, key: str) -> PartitionState:  # noqa: ARG001 - the protocol's
    """Read the state of a finding's subject. Raises Unclear."""
    place, source, name = _subject(reader.lake, key)
    try:
        store = open_store_at(source, reader.clients, name)
        reader.keys.pace()
        table = store.table()
        if table is None:
            raise Unclear("the catalog no longer has its table")
        if not table.reads_partitions or not table.columns:
            raise Unclear("readers of its table do not use the catalog's partitions")
        values, relative = _values(reader.clients, table, place)
        partition = store.partition(values)
    except (ClientError, BotoCoreError) as error:
        raise Unclear(f"the catalog cannot be queried: {explain(error).what}") from error
    except SourceError as error:
        raise Unclear(str(error)) from error
    location = f"{table.location.rstrip('/')}/{relative}"
    folder_filled = _has_files(reader, location)
    filled = partition is not None and _has_files(reader, partition["location"])
    return PartitionState(table, values, partition, location, folder_filled, filled)


def store_at(lake: Lake, clients: Clients, key: str) -> PartitionStore:
    """Return the store of a finding's subject. Raises Unclear."""
    _, source, name = _subject(lake, key)
    return open_store_at(source, clients, name)


def open_store_at(source: CatalogSource, clients: Clients, name: str) -> PartitionStore:
    """Return the store of a table by its name in a catalog. Raises Unclear: the kind of catalog is not supported."""
    if source.kind not in _STORES:
        raise Unclear(f"reconcile cannot write to a catalog of kind {source.kind}")
    return _STORES[source.kind](source, clients, name)


_STORES: Mapping[str, Callable[[Any, Clients, str], PartitionStore]] = {
    "glue": GluePartitions.of_table,
    "hive": lambda source, _, name: HivePartitions.of_table(source, name),
}
"""Constructors of stores by kind of catalog."""


def partition_grants(lake: Lake) -> Iterator[Grant]:
    """Yield the grants to read and write partitions of the lake's catalogs of AWS."""
    for store in lake.metastores:
        if store.kind in _GRANTS:
            yield _GRANTS[store.kind](store)


_GRANTS: Mapping[str, Callable[[Any], Grant]] = {"glue": glue_partition_grant}


def _subject(lake: Lake, key: str) -> tuple[str, CatalogSource, str]:
    """Return (place, catalog, table in the catalog)."""
    matches = [
        (place, store, table)
        for store in lake.metastores
        if isinstance(store, CatalogSource) and store.knows_partitions
        for place, mark, table in [key.rpartition(f"#{store.kind} {store.name}:")]
        if mark
    ]
    if len(matches) != 1:
        raise Unclear(f"{len(matches)} catalogs of the lake file have the name in the finding")
    return matches[0]


def _values(clients: Clients, table: CatalogTable, place: str) -> tuple[tuple[str, ...], str]:
    """Return (values of the partition, its folder below the table's)."""
    named = identify(place)
    if named is None:
        values = _of_path(table.columns, place)
        pairs = zip(table.columns, values, strict=True)
        return values, "/".join(f"{column.lower()}={_escaped(value)}" for column, value in pairs)
    bucket, root = folder_of(table.location, clients.aliases)
    if named[0] != bucket or not named[1].startswith(root) or not (bucket or root):
        raise Unclear("the folder is outside of the table's location in the catalog")
    relative = named[1][len(root) :].rstrip("/")
    return _of_folder(table.columns, relative), relative


def _of_folder(columns: Sequence[str], relative: str) -> tuple[str, ...]:
    """Return the values as Hive unescapes them; names of columns are compared without case."""
    pairs = [part.partition("=") for part in relative.split("/")]
    if [name.lower() for name, mark, _ in pairs if mark] != [column.lower() for column in columns]:
        raise Unclear("the folder's name does not contain the values of its partition")
    try:
        return tuple(unquote(value, errors="strict") for _, _, value in pairs)
    except UnicodeDecodeError:
        raise Unclear("the folder's name does not contain the values of its partition") from None


def _of_path(columns: Sequence[str], path: str) -> tuple[str, ...]:
    """Return the values of `col=value/col=value` without unescaping; a value may contain a slash."""
    pattern = "/".join(f"{re.escape(column)}=(.*)" for column in columns)
    match = re.fullmatch(pattern, path, re.DOTALL)
    marks = [f"/{column}=" for column in columns[1:]]
    if match is None or any(path.count(mark) != 1 for mark in marks):
        raise Unclear("the finding does not contain the values of its partition")
    return match.groups()


def _escaped(value: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def _has_files(reader: StateReader, location: str) -> bool:
    """Return whether readers see files at a location. Raises Unclear."""
    bucket, key = folder_of(location, reader.clients.aliases)
    if not bucket and not key:
        raise Unclear("the partition's location is in an unknown store")
    reader.keys.pace()
    answer, _, seen, _ = look_into(reader.clients, (bucket, key))
    if answer != "live":
        raise Unclear(f"{location} cannot be listed: {answer}")
    return bool(seen)
