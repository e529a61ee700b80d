"""Read a catalog of any kind: its tables on the driver, and the partitions of the audited tables in tasks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lakeaudit.config import CatalogSource
from lakeaudit.errors import SourceError
from lakeaudit.evidence import registry
from lakeaudit.evidence.catalog.protocol import GONE, CatalogTable, HiveTable, Pointers
from lakeaudit.evidence.catalog.snapshot import Names
from lakeaudit.evidence.protocol import BufferedRows, Clock, Context, EvidenceGap, SnapshotWindow, utc_now
from lakeaudit.runtime.connections.aws import Clients

ListTables = Callable[..., Pointers]
"""(source, clients, source id, partition filter, clock) -> the content of the catalog."""


def read(
    list_tables: ListTables, source: CatalogSource, ctx: Context, source_id: str, clock: Clock = utc_now
) -> Pointers:
    """Return the content of the catalog, with its partitions read: those of plain Hive tables in the audit's places.

    A table that was dropped meanwhile is left out. The window ends when the last partition was read.

    Raises:
        SourceError: the catalog cannot be read at all, or the audit is about a time in the past.
    """
    if not ctx.live:
        what = "a catalog has only its current content, and no past one"
        raise SourceError(f"{source.kind} {source.name}", what, "leave --as-of out")

    def is_audited(table: CatalogTable) -> bool:
        return bool(table.partition_keys) and table.location in ctx.places

    found = list_tables(source, ctx.clients, source_id, is_audited, clock)
    if not isinstance(found.partitions, tuple):
        return found
    kept = ctx.engine.keep(found.partitions)
    return _without_the_dropped(found, kept, clock)


def get_entry(
    list_tables: ListTables, source: CatalogSource, clients: Clients, bucket: str, key: str
) -> dict[str, Any] | None:
    """Return the catalog's current entry of the table in whose location a key lies; None: it has none there.

    Raises:
        SourceError: it cannot be read.
    """
    found = list_tables(source, clients, "", lambda _: False)
    holding = [t for t in found.tables if t.location is not None and t.location.holds(bucket, key)]
    if not holding:
        return None
    table = max(holding, key=lambda each: len(each.key))
    entry = {
        "table": table.name,
        "location": table.location.uri if table.location else "",
        "format": table.format,
        "partitioned_by": ", ".join(table.partition_keys),
        "metadata_location": table.metadata_location,
        "updated_at": table.updated_at,
    }
    return {name: value for name, value in entry.items() if value}


def _without_the_dropped(found: Pointers, kept: BufferedRows, clock: Clock) -> Pointers:
    gone = {str(note["subject"]) for note in kept.notes if note["data"] == GONE}
    holes = {
        EvidenceGap(found.info.id, str(note["reason"]), str(note["subject"]), hides="its partitions")
        for note in kept.notes
        if note["reason"]
    }
    cut = found.info.cut
    ended = replace(found.info, cut=SnapshotWindow(cut.start, clock(), cut.margin) if cut else None)
    hive: Mapping[str, HiveTable] = {name: each for name, each in found.hive.items() if name not in gone}
    tables = tuple(table for table in found.tables if table.name not in gone)
    sorted_holes = tuple(sorted(holes, key=lambda hole: (hole.subject, hole.reason)))
    return replace(
        found, info=ended, tables=tables, partitions=kept, holes=(*found.holes, *sorted_holes), hive=hive
    )


def named_tables(source: CatalogSource, clients: Clients, source_id: str, names: Names) -> Pointers:
    """Return the tables of a catalog whose names pass, or more where a filter saves nothing; no partition is read.

    Raises:
        SourceError: the catalog cannot be read at all.
    """
    list_tables = registry.catalog(source.kind).list_tables
    if list_tables is None:
        raise SourceError(source.name, f"tables of kind {source.kind} are not discovered", "name each table")
    return list_tables(source, clients, source_id, names)


def no_entry(source: CatalogSource, *_: object) -> dict[str, Any] | None:
    """Raise SourceError: for catalogs in which no file can be looked up."""
    raise SourceError(source.name, "it has only tables, no files", "look up the table")
