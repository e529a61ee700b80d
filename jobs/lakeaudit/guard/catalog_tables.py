"""Find in catalogs what the lake file does not name, and what may need files of its tables.

A clone or a snapshot lists files of another table, wherever its own location is. A partition of a plain table can be
registered in the folder of another table.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeaudit.config import CatalogSource, Lake, Table, metastore_id
from lakeaudit.errors import SourceError
from lakeaudit.evidence import registry
from lakeaudit.evidence.catalog.protocol import CatalogTable
from lakeaudit.evidence.catalog.reading import named_tables
from lakeaudit.evidence.catalog.snapshot import any_name
from lakeaudit.evidence.other_listers import by_catalog, is_known
from lakeaudit.evidence.protocol import Context
from lakeaudit.evidence.registry import roots as roots_of_formats
from lakeaudit.formatting import number
from lakeaudit.guard.doubts import Doubt
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.table_facts import roots
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import PARTITION

MOST_PARTITIONS = 1000
"""The most partitions of a table in the folder of another one that are named singly."""


@dataclass(frozen=True)
class CatalogEvidence:
    """The tables of catalogs that the lake file does not name, and why there may be more, or who needs a folder."""

    tables: tuple[Table, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def catalog_evidence(
    lake: Lake, con: Connection, context: Context, known: Collection[str]
) -> CatalogEvidence:
    """Return what the catalogs of a lake have besides the tables of the lake file and those with `known` names."""
    tables: dict[str, Table] = {}
    doubts: list[Doubt] = []
    for place, store in enumerate(lake.metastores):
        if isinstance(store, CatalogSource):
            try:
                named, gaps = _tables(store, context, metastore_id(place))
                doubts += [Doubt(store.name, why) for why in gaps]
                tables |= {each.name: each for each in _unnamed(lake, named, store) if each.name not in known}
                doubts += _partitions(lake, con, context, named, store, metastore_id(place))
            except SourceError as error:
                doubts.append(Doubt(store.name, f"its tables are not known: {error.what}"))
    return CatalogEvidence(tuple(tables.values()), tuple(doubts))


def _tables(
    store: CatalogSource, context: Context, source_id: str
) -> tuple[Sequence[CatalogTable], list[str]]:
    pointers = named_tables(store, context.clients, source_id, any_name)
    return pointers.tables, [f"{hole.subject}: {hole.reason}" for hole in pointers.holes]


def _unnamed(lake: Lake, named: Sequence[CatalogTable], store: CatalogSource) -> Iterator[Table]:
    """Yield tables with a log, with the settings of the table whose removed files are needed for the longest time."""
    longest = max(lake.tables, key=lambda table: table.settings.retention)
    for each in named:
        has_log = each.format in roots_of_formats() and (each.location or each.metadata_location)
        if has_log and not is_known(lake.tables, each):
            yield by_catalog(longest, each, store)


def _partitions(
    lake: Lake,
    con: Connection,
    context: Context,
    named: Sequence[CatalogTable],
    store: CatalogSource,
    source_id: str,
) -> Iterator[Doubt]:
    """Yield the partitions of plain tables that are registered in the folder of another table of the lake file."""
    places = {each.name: each.location for each in named if each.partition_keys and each.location}
    if not places:
        return
    everywhere = replace(context, places=frozenset(places.values()))
    pointers = registry.catalog(store.kind).read(store, everywhere, source_id)
    yield from (Doubt(store.name, f"{hole.subject}: {hole.reason}") for hole in pointers.holes)
    if not isinstance(pointers.partitions, tuple):
        rows = duck.hold_batches(con, PARTITION, pointers.partitions.batches("partitions"))
        yield from _registered_elsewhere(lake, con, rows, places)


def _registered_elsewhere(
    lake: Lake, con: Connection, rows: Relation, places: dict[str, Location]
) -> Iterator[Doubt]:
    homes = duck.small(_HOME, [(name, place.bucket, place.prefix) for name, place in places.items()])
    elsewhere = """SELECT rows.* FROM rows JOIN homes ON table_name = name
        WHERE rows.bucket <> home_bucket OR NOT starts_with(key, home)"""
    others = duck.query(con, elsewhere, rows=rows, homes=homes)
    owned = attach_label(con, others, roots(lake.tables), "owner")
    sql = f"""SELECT owner, table_name, list(bucket)[:{MOST_PARTITIONS}] AS buckets,
            list(key)[:{MOST_PARTITIONS}] AS keys, count(*) AS partitions
        FROM owned WHERE owner IS NOT NULL GROUP BY owner, table_name ORDER BY ALL"""
    for row in duck.rows_of(duck.query(con, sql, owned=owned)):
        many = number(row["partitions"], "partition")
        why = f"{many} of the plain table {row['table_name']} registered in its folder"
        found = [Location(*place) for place in zip(row["buckets"], row["keys"], strict=True)]
        if row["partitions"] > MOST_PARTITIONS:
            found = [lake.table(row["owner"]).location]
        yield from (
            Doubt(row["owner"], why, Location(place.bucket, place.key.rstrip("/"))) for place in found
        )


_HOME = pa.schema([(name, pa.string()) for name in ("name", "home_bucket", "home")])
