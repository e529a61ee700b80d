"""Look up the current state of tables in their catalogs: each catalog is queried once for all of its tables."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakeaudit.config import CatalogSource, Pointer
from lakeaudit.errors import SourceError
from lakeaudit.evidence import registry
from lakeaudit.evidence.catalog.protocol import CatalogTable, Pointers
from lakeaudit.evidence.catalog.reading import named_tables
from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.runtime.connections.aws import Clients

SINGLE = 8
"""The most tables that are looked up one by one; for more of them the catalog's lists are read."""
Lookup = CatalogTable | SourceError
"""A table as its catalog has it, or why it cannot be looked up."""


def current_tables(pointers: Sequence[Pointer], clients: Clients) -> dict[Pointer, Lookup]:
    """Return these tables as their catalogs have them now."""
    by_store: dict[str, list[Pointer]] = defaultdict(list)
    for pointer in pointers:
        by_store[pointer.source_id].append(pointer)
    found: dict[Pointer, Lookup] = {}
    for group in by_store.values():
        store, names = group[0].store, list(dict.fromkeys(each.name for each in group))
        answers = _answers(store, group[0].source_id, names, clients)
        found |= {each: answers[each.name] for each in group}
    return found


def _answers(
    store: CatalogSource, source_id: str, names: Sequence[str], clients: Clients
) -> Mapping[str, Lookup]:
    try:
        kind = registry.catalog(store.kind)
        if kind.current_tables is not None:
            return kind.current_tables(store, clients, source_id, names)
        if kind.current is not None and len(names) <= SINGLE:
            return {name: _single(kind.current, store, clients, source_id, name) for name in names}
        return _of_all(store, named_tables(store, clients, source_id, names.__contains__), names)
    except SourceError as error:
        return dict.fromkeys(names, error)


def _single(
    current: Callable[..., CatalogTable | None],
    store: CatalogSource,
    clients: Clients,
    source_id: str,
    name: str,
) -> Lookup:
    """Look up one table by its name."""
    try:
        found = current(store, clients, name)
    except SourceError as error:
        return error
    return replace(found, catalog=source_id) if found else _missing(store, (), name)


def _of_all(store: CatalogSource, pointers: Pointers, names: Sequence[str]) -> dict[str, Lookup]:
    """Look up tables in the list of all tables of a catalog; names may differ in case."""
    tables = {table.name: table for table in pointers.tables}
    tables |= {name.lower(): table for name, table in tables.items() if name.lower() not in tables}
    return {
        name: tables.get(name) or tables.get(name.lower()) or _missing(store, pointers.holes, name)
        for name in names
    }


def _missing(store: CatalogSource, holes: Sequence[EvidenceGap], name: str) -> SourceError:
    reasons = (hole.reason for hole in holes if name.startswith(hole.subject.removesuffix("*")))
    return SourceError(store.name, next(reasons, "the catalog names no such table"), "check its name there")
