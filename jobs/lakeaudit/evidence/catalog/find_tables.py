"""Discover the tables that catalogs name: one for each location, even if several catalogs or names point to it."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lakeaudit.config import CatalogDiscovery, CatalogSource, Lake, Pointer, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.names import parts_of
from lakeaudit.evidence.catalog.protocol import CatalogTable
from lakeaudit.evidence.catalog.reading import named_tables
from lakeaudit.evidence.protocol import EvidenceGap, SourceInfo
from lakeaudit.evidence.registry import formats
from lakeaudit.formatting import number
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

NAMED = 10
"""The number of names that a warning lists."""


@dataclass(frozen=True)
class NamedTable:
    """One name of a table in one catalog, and the discovery that selects it."""

    table: CatalogTable
    store: CatalogSource
    by: CatalogDiscovery

    @property
    def name(self) -> str:
        """Its name in the lake: by the template of the discovery, else the name in the catalog."""
        parts, template = parts_of(self.table.name), self.by.name
        wanted = [int(at) for at in re.findall(r"\{([0-9]+)\}", template or "")]
        if template is None or max(wanted) > len(parts):
            return printable(self.table.name)
        return printable(re.sub(r"\{([0-9]+)\}", lambda at: parts[int(at[1]) - 1], template))

    @property
    def full_name(self) -> str:
        """Its name with the name of the catalog, for names that several catalogs share."""
        return printable(f"{self.store.word}.{self.table.name}")


@dataclass
class DiscoveredTables:
    """The tables in catalogs that the lake file does not name.

    `declared` has further names of tables that the lake file names. `gaps` are reasons why tables may have been missed;
    those that are failures to read are `holes` too. `infos` describe the catalogs that were read.
    """

    tables: list[Table] = field(default_factory=list)
    declared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    holes: list[EvidenceGap] = field(default_factory=list)
    infos: dict[str, SourceInfo] = field(default_factory=dict)


def find_tables(lake: Lake, clients: Clients) -> DiscoveredTables:
    """Return the tables of all catalogs in which the lake file discovers tables; a discovery reads a catalog once."""
    found = DiscoveredTables()
    places: dict[Location, list[NamedTable]] = defaultdict(list)
    for by in lake.catalog_discoveries:
        for source_id, store in by.stores:
            for named in _tables_in_catalog(by, source_id, store, clients, found):
                place = named.table.location
                if place is not None and not lake.results.contains(place):
                    places[place].append(named)
    declared: dict[Location, list[Table]] = defaultdict(list)
    for table in lake.tables:
        declared[table.location].append(table)
    for place in places.keys() & declared.keys():
        found.declared |= _names_of(declared[place], places[place])
    _add(lake, {place: names for place, names in places.items() if place not in declared}, found)
    return found


def _names_of(tables: Sequence[Table], names: Sequence[NamedTable]) -> dict[str, tuple[str, ...]]:
    """Return the catalogs' other names by table of one location: the table of that format, else the first table."""
    by_format = {manifest.kind: table.name for table in tables for manifest in table.state_manifests}
    own = {table.name for table in tables}
    called: dict[str, list[str]] = defaultdict(list)
    for each in names:
        called[by_format.get(each.table.format, tables[0].name)] += (
            [each.name] if each.name not in own else []
        )
    return {name: tuple(dict.fromkeys(others)) for name, others in called.items()}


def printable(name: str) -> str:
    """Return a name as one line of printable characters."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in name).strip() or "table"


def _tables_in_catalog(
    by: CatalogDiscovery, source_id: str, store: CatalogSource, clients: Clients, found: DiscoveredTables
) -> Iterator[NamedTable]:
    """Yield the selected tables of one catalog; add to `found` why some may be missed."""
    try:
        pointers = named_tables(store, clients, source_id, by.wants)
    except SourceError as error:
        reason = f"{error.what}; {error.hint}".rstrip("; ")
        found.gaps.append(str(error))
        found.holes.append(EvidenceGap(source_id, reason, store.name, retryable=error.retryable))
        unread = SourceInfo(source_id, "metastore", store.kind, store.name, "unreadable", None)
        found.infos.setdefault(source_id, unread)
        return
    found.infos[source_id] = pointers.info
    found.holes += pointers.holes
    tables = [table for table in pointers.tables if by.wants(table.name)]
    found.gaps += [f"{store.name}: {hole.subject}: {hole.reason}" for hole in pointers.holes]
    found.warnings += [f"{store.name}: {warning}" for warning in pointers.warnings]
    if not tables and not pointers.holes:
        found.gaps.append(
            f"{store.name} names none of the selected tables; the audit may lack the rights to see them"
        )
    without = [table.name for table in tables if table.location is None]
    if without:
        found.warnings.append(f"{store.name} names no place of a store for {_some(without)}")
    yield from (NamedTable(table, store, by) for table in tables if table.location is not None)


def _add(lake: Lake, places: dict[Location, list[NamedTable]], found: DiscoveredTables) -> None:
    audited: dict[Location, list[NamedTable]] = {}
    left: dict[str, list[str]] = defaultdict(list)
    for place in sorted(places):
        names = places[place]
        format_ = _format(names)
        if format_ in names[0].by.formats:
            audited[place] = names
        elif format_ not in _known_formats():
            left[format_] += [names[0].name]
    taken = {name for table in lake.tables for name in (table.name, *table.also)}
    called = _distinct_names(audited, taken, found)
    for place, names in audited.items():
        found.tables.append(_table(lake, called[place], place, names))
    found.warnings += [
        f"{number(len(names), 'table')} of format {format_} left alone: {_some(names)}"
        for format_, names in left.items()
    ]


def _known_formats() -> tuple[str, ...]:
    """Return the formats in the order of precedence; `hive` (plain files in folders) is last."""
    return (*formats(), "hive")


def _format(names: Sequence[NamedTable]) -> str:
    named = {each.table.format for each in names}
    return next((format_ for format_ in _known_formats() if format_ in named), "unknown")


def _distinct_names(
    places: dict[Location, list[NamedTable]], taken: set[str], found: DiscoveredTables
) -> dict[Location, str]:
    """Return a name for each place; places that would share a name get their catalog's name too, or else their URIs."""
    called = {place: names[0].name for place, names in places.items()}
    for longer in (lambda place: places[place][0].full_name, lambda place: place.uri):
        times: dict[str, int] = defaultdict(int)
        for name in called.values():
            times[name] += 1
        shared = {name for name, count in times.items() if count > 1 or name in taken}
        called = {place: longer(place) if name in shared else name for place, name in called.items()}
        if shared:
            found.warnings.append(
                f"several tables would be called {_some(sorted(shared))}: they go by longer names"
            )
    return called


def _table(lake: Lake, name: str, place: Location, names: Sequence[NamedTable]) -> Table:
    """Return the table; all catalogs that name its state must agree."""
    format_ = _format(names)
    of_format = [each for each in names if each.table.format == format_]
    saying = [each for each in of_format if each.table.metadata_location] or of_format
    pointers = (
        Pointer(store=each.store, source_id=each.table.catalog, name=each.table.name) for each in saying
    )
    also = tuple(each for each in _others(names, name) if each != name)
    return lake.catalog_table(
        name, place, names[0].by, format_, tuple(dict.fromkeys(pointers)), also, names[0].table.scheme
    )


def _others(names: Sequence[NamedTable], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.name for each in names if each.name != name))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
