"""Finds the tables of a lake in catalogs, by location and name, and other places that catalogs name for them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

from lakeaudit.config import CatalogSource, Lake, MetastoreSource, Table, metastore_id
from lakeaudit.evidence.catalog.protocol import CatalogTable, HiveTable, Pointers
from lakeaudit.evidence.protocol import SnapshotWindow
from lakeaudit.keys import Location
from lakeaudit.matching.pointer_folders import NAMED_AS_FILE
from lakeaudit.matching.prefix_match import Places
from lakeaudit.matching.table_facts import ownership_rank
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import PARTITION, POINTED_OBJECT, POINTED_TABLE, plain_time

UNREAD = "not all catalogs that could name the table could be read"


@dataclass(frozen=True)
class CatalogedTable:
    """A table of the lake with its entry in one catalog."""

    table: Table
    by: CatalogTable
    pointers: Pointers
    catalog: str
    """The catalog's kind and name, for people."""

    @property
    def hive(self) -> HiveTable | None:
        return self.pointers.hive.get(self.by.name)

    @property
    def partition_gap(self) -> str | None:
        """Return why its partitions are not all known."""
        found = (hole.reason for hole in self.pointers.holes if hole.subject == self.by.name)
        return next(found, None)

    @property
    def partitioned(self) -> bool:
        """Whether readers of a plain table find its files by partitions that the catalog registers."""
        hive = self.hive
        plain = hive is not None and not hive.projected and not self.table.state_manifests
        return plain and bool(self.by.partition_keys) and self.by.location == self.table.location


@dataclass(frozen=True)
class PointedTables:
    """The entries of the lake's tables in the catalogs of a run.

    `partitions` are PARTITION rows on the driver's connection; folders below `places` are counted. `gap` explains why a
    table without an entry may have one in a catalog that could not be read, or is empty.
    """

    named: tuple[CatalogedTable, ...]
    partitions: Relation
    places: Places
    gap: str
    objects: pa.Table = field(default_factory=POINTED_OBJECT.empty_table)
    """Rows (bucket, key) of locations in any catalog that may be a single object."""

    @property
    def rows(self) -> pa.Table:
        """Return POINTED_TABLE rows."""
        return duck.small(POINTED_TABLE, [_row(each) for each in self.named])

    @property
    def partition_gaps(self) -> Mapping[str, str]:
        """Return by table why its partitions are not all known."""
        return {
            each.table.name: f"{each.catalog}: {each.partition_gap}"
            for each in self.named
            if each.partition_gap
        }

    @property
    def disagreements(self) -> tuple[str, ...]:
        """Return messages about tables whose location differs between catalogs or from the lake file."""
        places: dict[str, dict[str, str]] = defaultdict(dict)
        for each in self.named:
            place = each.by.location
            uri = place.uri if place else "no place in a store"
            places[each.table.name][f"{each.catalog} ({each.by.name})"] = uri
        return tuple(
            _differing(t, places[t.name]) for t in _tables(self.named) if _differs(t, places[t.name])
        )

    @property
    def cuts(self) -> Mapping[str, Sequence[SnapshotWindow]]:
        """Return by table the snapshot windows of the catalogs that name it."""
        found: dict[str, list[SnapshotWindow]] = defaultdict(list)
        for each in self.named:
            if each.pointers.info.cut:
                found[each.table.name].append(each.pointers.info.cut)
        return found


def _tables(named: Sequence[CatalogedTable]) -> Sequence[Table]:
    return list({each.table.name: each.table for each in named}.values())


def _differs(table: Table, places: Mapping[str, str]) -> bool:
    return any(place != table.location.uri for place in places.values())


def _differing(table: Table, places: Mapping[str, str]) -> str:
    entries = ", ".join(f"{catalog} has it at {place}" for catalog, place in places.items())
    return f"{table.name}: {entries}; the lake file says {table.location.uri}"


def catalog_sources(lake: Lake) -> Mapping[str, MetastoreSource]:
    """Return the catalogs of the lake file by the ids of their sources."""
    sources = {metastore_id(number): source for number, source in enumerate(lake.metastores)}
    return {
        id_: source
        for id_, source in sources.items()
        if isinstance(source, CatalogSource) and source.knows_partitions
    }


def pointed_tables(
    con: Connection,
    tables: Sequence[Table],
    catalogs: Sequence[Pointers],
    sources: Mapping[str, MetastoreSource],
) -> PointedTables | None:
    """Find these tables in these catalogs; None: there are no catalogs.

    `sources` are the catalogs of the lake file by id, readable or not.
    """
    if not sources:
        return None
    named = tuple(each for pointers in catalogs for each in _cataloged_tables(pointers, tables, sources))
    batches = (batch for each in catalogs for batch in _partitions(each))
    partitions = duck.hold_batches(con, PARTITION, batches)
    places = [each.table.location for each in named]
    places += [each.by.location for each in named if each.by.location]
    places += _elsewhere(con, partitions, named)
    whole = len(catalogs) == len(sources) and not any(_hides_tables(each) for each in catalogs)
    objects = _objects(con, partitions, [t.location for each in catalogs for t in each.tables if t.location])
    return PointedTables(
        named, partitions, dict.fromkeys(places, "counted"), "" if whole else UNREAD, objects
    )


def _objects(con: Connection, partitions: Relation, places: Sequence[Location]) -> pa.Table:
    """Return POINTED_OBJECT rows: locations of tables, and of partitions with names like files."""
    of_tables = duck.small(POINTED_OBJECT, list(places))
    sql = f"""
        SELECT DISTINCT bucket, rtrim(key, '/') AS key
        FROM (SELECT bucket, key FROM tables UNION ALL SELECT bucket, key FROM partitions
            WHERE regexp_matches('/' || key, {duck.literal(NAMED_AS_FILE)}))
    """
    rows = duck.query(con, sql, tables=of_tables, partitions=partitions)
    return duck.table(duck.conform(con, rows, POINTED_OBJECT))


def _cataloged_tables(
    pointers: Pointers, tables: Sequence[Table], sources: Mapping[str, MetastoreSource]
) -> Iterator[CatalogedTable]:
    """Match tables by location, else by name."""
    source = sources[pointers.info.id]
    catalog = f"{source.kind} {source.name}"
    by_place = {table.location: table for table in sorted(tables, key=ownership_rank, reverse=True)}
    by_format = {(t.location, manifest.kind): t for t in tables for manifest in t.state_manifests}
    entries = [each for each in pointers.tables if _is_in_scope(source, each)]
    found = [
        (by_format.get((each.location, each.format), by_place[each.location]), each)
        for each in entries
        if each.location in by_place
    ]
    missed = {table.name.lower(): table for table in tables} if found or entries else {}
    for table, _ in found:
        missed.pop(table.name.lower(), None)
    found += [(missed[each.name.lower()], each) for each in entries if each.name.lower() in missed]
    yield from (CatalogedTable(table, each, pointers, catalog) for table, each in found)


def _is_in_scope(source: MetastoreSource, table: CatalogTable) -> bool:
    return source.location is None or (
        table.location is not None and source.location.contains(table.location)
    )


def _partitions(pointers: Pointers) -> Iterator[pa.RecordBatch]:
    if not isinstance(pointers.partitions, tuple):
        yield from pointers.partitions.batches("partitions")


def _hides_tables(pointers: Pointers) -> bool:
    return any(hole.subject.endswith(".*") or not hole.subject for hole in pointers.holes)


def _elsewhere(con: Connection, partitions: Relation, named: Sequence[CatalogedTable]) -> Iterator[Location]:
    """Yield for each table the folder around partitions outside of its location, one per bucket."""
    roots = duck.small(_ROOTS, [(n.by.catalog, n.by.name, *_root(n)) for n in named if n.partitioned])
    sql = """
        SELECT p.bucket, min(key) AS first, max(key) AS last FROM partitions p
        JOIN roots r ON source = catalog_id AND p.table_name = r.table_name
        WHERE NOT (p.bucket = root_bucket AND starts_with(key, root)) GROUP BY source, p.table_name, p.bucket
    """
    for row in duck.rows_of(duck.query(con, sql, partitions=partitions, roots=roots)):
        yield Location(row["bucket"], _around(row["first"], row["last"]))


def _around(first: str, last: str) -> str:
    """Return the longest folder that contains both keys, and so all keys between them."""
    parts = zip(first.split("/")[:-1], last.split("/")[:-1], strict=False)
    same: list[str] = []
    for one, other in parts:
        if one != other:
            break
        same.append(one)
    return "/".join(same)


_ROOTS = pa.schema([(name, pa.string()) for name in ("catalog_id", "table_name", "root_bucket", "root")])


def _root(each: CatalogedTable) -> tuple[str, str]:
    return each.table.location.bucket, each.table.location.prefix


def _row(each: CatalogedTable) -> tuple[object, ...]:
    by, settings, cut = each.by, each.table.settings, each.pointers.info.cut
    edge = plain_time(cut.start - (cut.margin or timedelta(0))) if cut else None
    # for a table with a metadata.json that file is checked, not the folder
    place = (by.bucket, by.key) if by.location and not by.metadata_location else (None, None)
    return (
        each.table.name, *_root(each), each.catalog, by.catalog, by.name, *place, by.format, [*by.partition_keys],
        plain_time(by.updated_at), each.partitioned, each.hive is not None and each.hive.filled is True,
        each.partition_gap is not None, edge, settings.grace, settings.leftover_age,
    )  # fmt: skip
