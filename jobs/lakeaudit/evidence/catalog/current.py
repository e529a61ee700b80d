"""Which state tables are in now by their catalogs: each is asked once for all tables that it is to say it of."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakeaudit.config import CatalogSource, Pointer
from lakeaudit.errors import SourceError
from lakeaudit.evidence import registry
from lakeaudit.evidence.catalog.protocol import CatalogTable, Pointers
from lakeaudit.evidence.catalog.reading import named_tables
from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.runtime.aws import Clients

SINGLE = 8
"""Tables that are looked up one by one; for more of them the catalog's lists are read."""
Said = CatalogTable | SourceError
"""What a catalog says of a table, or why it says nothing."""


def current_tables(pointers: Sequence[Pointer], clients: Clients) -> dict[Pointer, Said]:
    """What catalogs say of these tables now."""
    by_store: dict[str, list[Pointer]] = defaultdict(list)
    for pointer in pointers:
        by_store[pointer.source_id].append(pointer)
    told: dict[Pointer, Said] = {}
    for group in by_store.values():
        store, names = group[0].store, list(dict.fromkeys(each.name for each in group))
        answers = _answers(store, group[0].source_id, names, clients)
        told |= {each: answers[each.name] for each in group}
    return told


def _answers(
    store: CatalogSource, source_id: str, names: Sequence[str], clients: Clients
) -> Mapping[str, Said]:
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
) -> Said:
    """One table, looked up by its name."""
    try:
        found = current(store, clients, name)
    except SourceError as error:
        return error
    return replace(found, catalog=source_id) if found else _missing(store, (), name)


def _of_all(store: CatalogSource, said: Pointers, names: Sequence[str]) -> dict[str, Said]:
    """By the list of all its tables, of a catalog that is not asked for single ones; names may differ in case."""
    tables = {table.name: table for table in said.tables}
    tables |= {name.lower(): table for name, table in tables.items() if name.lower() not in tables}
    return {
        name: tables.get(name) or tables.get(name.lower()) or _missing(store, said.holes, name)
        for name in names
    }


def _missing(store: CatalogSource, holes: Sequence[EvidenceGap], name: str) -> SourceError:
    reasons = (hole.reason for hole in holes if name.startswith(hole.subject.removesuffix("*")))
    return SourceError(store.name, next(reasons, "the catalog names no such table"), "check its name there")
