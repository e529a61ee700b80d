"""Read the Hive Metastore: databases, tables and partitions by Thrift.

Tables are read on the driver, a hundred at a time. Partitions are read in tasks, one task for each table: their names
in one response of bounded size, then the partitions, `BATCH` at a time. For a dropped table the server returns no
partitions and no error, so the table is requested again at the end. Views have no place of their own and are left out.
Only tables of the default catalog (`hive`) are read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from lakeaudit.config import glob_to_regex
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import reading
from lakeaudit.evidence.catalog.hive import Hive
from lakeaudit.evidence.catalog.hive_tables import (
    PREVIOUS,
    changed_at,
    format_of,
    hive_table,
    location_of,
    statistics_of,
)
from lakeaudit.evidence.catalog.http import NotThere
from lakeaudit.evidence.catalog.metastore_client import MetastoreClient, in_batches
from lakeaudit.evidence.catalog.names import name_of, parts_of
from lakeaudit.evidence.catalog.protocol import (
    GONE,
    CatalogTable,
    HiveTable,
    PartitionFilter,
    Pointers,
    RegisteredPartition,
    folder_of,
    partition_batch,
    scheme_of,
)
from lakeaudit.evidence.catalog.snapshot import Names, any_name, no_partitions, or_gap, pointers_of, text_of
from lakeaudit.evidence.protocol import Batches, Clock, EvidenceGap, Part, Probed, note_row, utc_now
from lakeaudit.formatting import count
from lakeaudit.keys import Aliases
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection

TABLES = 100
"""Tables of one request."""
BATCH = 500
"""Partitions of one request; each comes with all columns of its table. A metastore may return fewer with an error."""


@dataclass
class _Read:
    """The tables and gaps that were read so far."""

    tables: list[CatalogTable] = field(default_factory=list)
    hive: dict[str, HiveTable] = field(default_factory=dict)
    holes: list[EvidenceGap] = field(default_factory=list)


def list_tables(
    source: Hive,
    clients: Clients,
    source_id: str,
    wanted: PartitionFilter = no_partitions,
    clock: Clock = utc_now,
    *,
    names: Names = any_name,
) -> Pointers:
    """Return the tables of the selected databases that `names` selects, and the partitions that `wanted` selects.

    Raises:
        SourceError: the databases cannot be listed.
    """
    start, read = clock(), _Read()
    with MetastoreClient(source) as metastore:
        for database in _databases(source, metastore):
            found = or_gap(read.holes, source_id, [database], partial(_tables_of, metastore, database, names))
            _take(read, source_id, clients.aliases, database, found)
    pointers = pointers_of(source, source_id, source.uri, (start, clock()), read.tables, read.holes)
    parts = tuple(
        Part(source_id, partial(_read_partitions, source, clients.aliases, source_id, table.name))
        for table in pointers.tables
        if table.name in read.hive and not read.hive[table.name].projected and wanted(table)
    )
    return replace(pointers, partitions=parts, hive=read.hive)


def probe(source: Hive, clients: Clients, now: datetime) -> Probed:  # noqa: ARG001 - every kind is given both
    """See `registry.MetastoreKind`."""
    with MetastoreClient(source) as metastore:
        databases = _databases(source, metastore)
        if not databases:
            message = f"the metastore {source.name} has none of the selected databases"
            return Probed(message, hint="check its uri and `databases`")
        metastore.ask(lambda thrift: thrift.get_all_tables(databases[0]))
    return Probed(f"can be read, {count(len(databases))} databases")


def current(source: Hive, clients: Clients, name: str) -> CatalogTable | None:
    """Return a table as the metastore has it now; None: it does not have it any more, or the table has no place.

    Raises:
        SourceError: it does not answer.
    """
    database, table = database_and_table(name)
    read = _Read()
    with MetastoreClient(source) as metastore:
        try:
            found = get_table(metastore, database, table)
        except NotThere:
            return None
    _take(read, "", clients.aliases, database, [found])
    return next(iter(read.tables), None)


def database_and_table(name: str) -> tuple[str, str]:
    """Return both parts of a name as this catalog has them; the metastore keeps all names in lower case."""
    database, *table = parts_of(name)
    return database.lower(), ".".join(table).lower()


def get_table(metastore: MetastoreClient, database: str, table: str) -> Any:
    """Return a table, as Hive's `Table`. Raises NotThere, SourceError."""
    from hive_metastore.ttypes import GetTableRequest

    request = GetTableRequest(dbName=database, tblName=table, capabilities=_capabilities())
    return metastore.ask(
        lambda thrift: thrift.get_table_req(request).table, lambda thrift: thrift.get_table(database, table)
    )


def _capabilities() -> Any:
    """Return the capability without which the metastore refuses insert-only tables."""
    from hive_metastore.ttypes import ClientCapabilities, ClientCapability

    return ClientCapabilities([ClientCapability.INSERT_ONLY_TABLES])


def _databases(source: Hive, metastore: MetastoreClient) -> list[str]:
    """Return the names of the selected databases."""
    patterns = [glob_to_regex(glob) for glob in source.databases]
    names = metastore.ask(lambda thrift: list(thrift.get_all_databases()))
    return [n for n in names if not patterns or any(re.fullmatch(regex, n) for regex in patterns)]


def _tables_of(metastore: MetastoreClient, database: str, names: Names) -> list[Any]:
    listed = metastore.ask(lambda thrift: list(thrift.get_all_tables(database)))
    selected = [name for name in listed if names(name_of((database, name)))]
    batches = in_batches(selected, TABLES, partial(_tables_named, metastore, database))
    return [table for _, tables in batches for table in tables]


def _tables_named(metastore: MetastoreClient, database: str, names: Sequence[str]) -> list[Any]:
    """Return those of some tables that exist."""
    from hive_metastore.ttypes import GetTablesRequest

    request = GetTablesRequest(dbName=database, tblNames=names, capabilities=_capabilities())
    return metastore.ask(
        lambda thrift: list(thrift.get_table_objects_by_name_req(request).tables),
        lambda thrift: list(thrift.get_table_objects_by_name(database, names)),
    )


def _take(read: _Read, source_id: str, aliases: Aliases, database: str, tables: Sequence[Any]) -> None:
    for each in tables:
        if each.tableType == "VIRTUAL_VIEW" or each.sd is None or not text_of(each.sd.location):
            continue
        parameters = each.parameters or {}
        serde = (each.sd.serdeInfo.parameters if each.sd.serdeInfo else None) or {}
        uri = location_of(each.sd.location, serde)
        bucket, key = folder_of(uri, aliases)
        table = CatalogTable(
            source_id, name_of((database, text_of(each.tableName))), bucket, key,
            format_of(parameters, text_of(each.sd.inputFormat), text_of(each.tableType)),
            parameters.get("metadata_location", ""), tuple(column.name for column in each.partitionKeys or ()),
            changed_at(parameters, _time(each.createTime)), parameters.get(PREVIOUS, ""), scheme_of(uri),
        )  # fmt: skip
        read.tables.append(table)
        if table.format == "hive":
            read.hive[table.name] = hive_table(parameters)


def _read_partitions(source: Hive, aliases: Aliases, source_id: str, name: str, _: Connection) -> Batches:
    """Yield the partitions of one table; a NOTE row if not all of them could be read."""
    database, table = database_and_table(name)
    try:
        with MetastoreClient(source) as metastore:
            hidden = 0
            for names, found in _batches(metastore, database, table):
                yield "partitions", partition_batch(source_id, name, map(_partition, found), aliases)
                if len(found) < len(names):
                    hidden += len(_still_named(metastore, database, table, names)) - len(found)
            get_table(metastore, database, table)
        if hidden > 0:
            why = f"{count(hidden)} partitions that are named were not returned"
            yield "notes", note_row(source_id, name, f"partitions could not be read: {why}", count=1)
    except SourceError as error:
        if isinstance(error, NotThere) or _is_gone(source, database, table):
            yield "notes", note_row(source_id, name, data=GONE)
        else:
            yield "notes", note_row(source_id, name, f"partitions could not be read: {error.what}", count=1)


def _is_gone(source: Hive, database: str, table: str) -> bool:
    """Return whether a table was dropped meanwhile: some servers then send no valid response for its partitions."""
    try:
        with MetastoreClient(source) as metastore:
            get_table(metastore, database, table)
    except NotThere:
        return True
    except SourceError:
        return False
    return False


def _batches(
    metastore: MetastoreClient, database: str, table: str
) -> Iterator[tuple[Sequence[str], list[Any]]]:
    """Yield names of partitions, with the partitions."""
    names = metastore.ask(lambda thrift: list(thrift.get_partition_names(database, table, -1)))
    yield from in_batches(names, BATCH, partial(_partitions_named, metastore, database, table))


def _partitions_named(
    metastore: MetastoreClient, database: str, table: str, names: Sequence[str]
) -> list[Any]:
    return metastore.ask(lambda thrift: list(thrift.get_partitions_by_names(database, table, names)))


def _still_named(metastore: MetastoreClient, database: str, table: str, names: Sequence[str]) -> set[str]:
    """Return those of some partitions that were not dropped meanwhile."""
    return set(names) & set(
        metastore.ask(lambda thrift: thrift.get_partition_names(database, table, -1) or [])
    )


def _partition(entry: Any) -> RegisteredPartition:
    location, parameters = text_of(entry.sd.location) if entry.sd else "", entry.parameters or {}
    at = changed_at(parameters, _time(entry.createTime))
    return RegisteredPartition(location, entry.values or (), at, statistics_of(parameters))


def _time(seconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds and seconds > 0 else None


def named_tables(source: Hive, clients: Clients, source_id: str, names: Names) -> Pointers:
    """Return the tables whose names pass, without partitions."""
    return list_tables(source, clients, source_id, names=names)


read = partial(reading.read, list_tables)
get_entry = partial(reading.get_entry, list_tables)
