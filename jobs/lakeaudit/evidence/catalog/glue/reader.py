"""Read the Glue Data Catalog: databases, tables and partitions by its API, page by page.

The first page of a table's partitions is read on the driver; if there are more, tasks read them by segments (Glue API
Reference, GetPartitions). Resource links and views have no place of their own and are left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import glob_to_regex
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import reading
from lakeaudit.evidence.catalog.glue import Glue
from lakeaudit.evidence.catalog.hive_tables import (
    PREVIOUS,
    changed_at,
    format_of,
    hive_table,
    location_of,
    statistics_of,
)
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
from lakeaudit.evidence.catalog.snapshot import Names, digest_of, no_partitions
from lakeaudit.evidence.protocol import (
    Batches,
    Clock,
    EvidenceGap,
    Part,
    Probed,
    SnapshotWindow,
    SourceInfo,
    note_row,
    utc_now,
)
from lakeaudit.formatting import count
from lakeaudit.keys import Aliases
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import BrokenListing, code_of, explain
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint
from lakeaudit.runtime.duck import Connection

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient

SEGMENTS = 10
"""The number of parts in which the partitions of a large table are read: the most that Glue allows."""
PAGE = 1000
"""Partitions of a page: the most that Glue returns without their columns."""
AT_ONCE = 4
"""Concurrent requests: Glue throttles an account, not a client."""
_FAILURES = (ClientError, BotoCoreError)


@dataclass
class _Read:
    """The tables and gaps that were read so far."""

    tables: list[CatalogTable] = field(default_factory=list)
    hive: dict[str, HiveTable] = field(default_factory=dict)
    holes: list[EvidenceGap] = field(default_factory=list)


def list_tables(
    source: Glue, clients: Clients, source_id: str, wanted: PartitionFilter, clock: Clock = utc_now
) -> Pointers:
    """Return all tables of the selected databases, and the partitions of the selected tables.

    Raises:
        SourceError: the databases cannot be listed.
    """
    start, glue, read = clock(), _client(source, clients), _Read()
    databases = _databases(source, glue)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(partial(_tables_of, source, glue, source_id), databases):
            _take(read, source_id, clients.aliases, found)
        partitioned = [
            table
            for table in read.tables
            if table.name in read.hive and not read.hive[table.name].projected and wanted(table)
        ]
        parts = [
            part
            for each in pool.map(partial(_parts, source, clients, source_id), partitioned)
            for part in each
        ]
    counts = f"{count(len(databases))} databases, {count(len(read.tables))} tables"
    identity = f"{counts}, {digest_of(read.tables)}"
    cut = SnapshotWindow(start, clock(), source.margin or timedelta(0))
    info = SourceInfo(source_id, "metastore", source.kind, source.name, identity, cut, len(read.tables))
    return Pointers(info, tuple(read.tables), tuple(parts), tuple(read.holes), hive=read.hive)


def probe(source: Glue, clients: Clients, now: datetime) -> Probed:  # noqa: ARG001 - every kind is given the time
    """See `registry.MetastoreKind`."""
    glue = _client(source, clients)
    databases = _databases(source, glue)
    if not databases:
        message = f"the catalog {source.name} has none of the selected databases"
        return Probed(message, hint="check its account, its region and `databases`")
    glue.get_tables(DatabaseName=databases[0], MaxResults=1, **_account(source))
    return Probed(f"can be read, {count(len(databases))} databases")


def current(source: Glue, clients: Clients, name: str) -> CatalogTable | None:
    """Return a table as the catalog has it now; None: it has none, or none with a place. Names are in lower case.

    Raises:
        SourceError: it does not answer.
    """
    database, _, table = name.lower().partition(".")
    try:
        answer = _client(source, clients).get_table(DatabaseName=database, Name=table, **_account(source))
        entry = required(answer, "Table")
    except _FAILURES as error:
        if _is_gone(error):
            return None
        raise SourceError(f"Glue {source.name}", *explain(error)) from error
    read = _Read()
    _take(read, "", clients.aliases, (database, [entry], ""))
    return next(iter(read.tables), None)


def _client(source: Glue, clients: Clients) -> "GlueClient":
    return clients.glue(dynamodb_endpoint(source.way))


def _account(source: Glue) -> dict[str, Any]:
    return {"CatalogId": source.catalog_id} if source.catalog_id else {}


def _databases(source: Glue, glue: "GlueClient") -> list[str]:
    """Return the names of the selected databases."""
    patterns = [glob_to_regex(glob) for glob in source.databases]
    try:
        pages = glue.get_paginator("get_databases").paginate(**_account(source))
        names = [
            required(each, "Name")
            for page in pages
            for each in required(page, "DatabaseList")
            if "TargetDatabase" not in each
        ]
    except _FAILURES as error:
        raise SourceError(f"Glue {source.name}", *explain(error)) from error
    return [n for n in names if not patterns or any(re.fullmatch(regex, n) for regex in patterns)]


DatabaseTables = tuple[str, list[Mapping[str, Any]], str]
"""A database, its tables as Glue returns them, and why these may not be all."""


def _tables_of(source: Glue, glue: "GlueClient", source_id: str, database: str) -> DatabaseTables:  # noqa: ARG001
    found: list[Mapping[str, Any]] = []
    try:
        for page in glue.get_paginator("get_tables").paginate(DatabaseName=database, **_account(source)):
            found += required(page, "TableList")
    except _FAILURES as error:
        return database, found, "" if _is_gone(error) else explain(error).what
    return database, found, ""


def _take(read: _Read, source_id: str, aliases: Aliases, found: DatabaseTables) -> None:
    database, tables, failure = found
    if failure:
        hidden = f"{database}.*"
        read.holes.append(
            EvidenceGap(source_id, f"tables could not be listed: {failure}", hidden, hides="its tables")
        )
    for each in tables:
        descriptor = each.get("StorageDescriptor") or {}
        if "TargetTable" in each or each.get("TableType") == "VIRTUAL_VIEW" or not descriptor.get("Location"):
            continue
        table, of_hive = _table(source_id, database, each, descriptor, aliases)
        read.tables.append(table)
        if table.format == "hive":
            read.hive[table.name] = of_hive


def _table(
    source_id: str, database: str, entry: Mapping[str, Any], descriptor: Mapping[str, Any], aliases: Aliases
) -> tuple[CatalogTable, HiveTable]:
    parameters = entry.get("Parameters") or {}
    serde = (descriptor.get("SerdeInfo") or {}).get("Parameters") or {}
    uri = location_of(descriptor["Location"], serde)
    bucket, key = folder_of(uri, aliases)
    table = CatalogTable(
        source_id, f"{database}.{entry['Name']}", bucket, key,
        format_of(parameters, descriptor.get("InputFormat") or ""), parameters.get("metadata_location", ""),
        tuple(each["Name"] for each in entry.get("PartitionKeys") or ()),
        changed_at(parameters, entry.get("CreateTime"), entry.get("UpdateTime")), parameters.get(PREVIOUS, ""),
        scheme_of(uri),
    )  # fmt: skip
    return table, hive_table(parameters)


def _parts(source: Glue, clients: Clients, source_id: str, table: CatalogTable) -> Iterator[Part]:
    """Yield one part for a table whose partitions fit on a page, which is read now; else a part for each segment."""
    segments = partial(_read_segment, source=source, clients=clients, source_id=source_id, name=table.name)
    try:
        page = _ask(source, _client(source, clients), table.name)
        partitions = required(page, "Partitions")
    except _FAILURES:
        # the task meets the same failure and reports it
        yield Part(source_id, partial(segments, segment=None))
        return
    if page.get("NextToken"):
        yield from (Part(source_id, partial(segments, segment=number)) for number in range(SEGMENTS))
    else:
        yield Part(source_id, partial(_read_page, _batch(source_id, table.name, partitions, clients.aliases)))


def _ask(source: Glue, glue: "GlueClient", name: str, **more: Any) -> Mapping[str, Any]:
    database, _, table = name.lower().partition(".")
    return glue.get_partitions(
        DatabaseName=database, TableName=table, MaxResults=PAGE, ExcludeColumnSchema=True,
        **_account(source), **more,
    )  # fmt: skip


def _read_page(batch: pa.RecordBatch, _: Connection) -> Batches:
    yield "partitions", batch


def _read_segment(
    _: Connection, *, source: Glue, clients: Clients, source_id: str, name: str, segment: int | None
) -> Batches:
    """Yield the partitions of one segment (None: all) of a table; a NOTE row if they could not be read."""
    glue = _client(source, clients)
    request: dict[str, Any] = (
        {} if segment is None else {"Segment": {"SegmentNumber": segment, "TotalSegments": SEGMENTS}}
    )
    try:
        while True:
            page = _ask(source, glue, name, **request)
            yield "partitions", _batch(source_id, name, required(page, "Partitions"), clients.aliases)
            following = page.get("NextToken")
            if not following:
                return
            if following == request.get("NextToken"):
                raise BrokenListing(reason="the list of partitions does not advance")
            request["NextToken"] = following
    except _FAILURES as error:
        if _is_gone(error):
            yield "notes", note_row(source_id, name, data=GONE)
        else:
            yield (
                "notes",
                note_row(source_id, name, f"partitions could not be read: {explain(error).what}", count=1),
            )


def _batch(
    source_id: str, name: str, partitions: Sequence[Mapping[str, Any]], aliases: Aliases
) -> pa.RecordBatch:
    return partition_batch(source_id, name, map(_partition, partitions), aliases)


def _partition(entry: Mapping[str, Any]) -> RegisteredPartition:
    location = (entry.get("StorageDescriptor") or {}).get("Location", "")
    parameters = entry.get("Parameters") or {}
    at = changed_at(parameters, entry.get("CreationTime"))
    return RegisteredPartition(location, entry.get("Values") or [], at, statistics_of(parameters))


def _is_gone(error: Exception) -> bool:
    """Return whether the table or database was dropped meanwhile."""
    return isinstance(error, ClientError) and code_of(error) == "EntityNotFoundException"


def named_tables(source: Glue, clients: Clients, source_id: str, names: Names) -> Pointers:  # noqa: ARG001 - Glue lists all
    """Return all tables, without partitions."""
    return list_tables(source, clients, source_id, no_partitions)


read = partial(reading.read, list_tables)
get_entry = partial(reading.get_entry, list_tables)
