"""Yield witnesses from catalogs: tables whose metadata.json is missing, and tables with two lines of metadata."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.pointed_tables import CatalogedTable
from lakeaudit.errors import SourceError
from lakeaudit.evidence import registry
from lakeaudit.evidence.catalog.metadata_pointers import Aim
from lakeaudit.evidence.lineage import CATALOG, MISSING_TABLE, TWO_LINES, Witness
from lakeaudit.evidence.manifest.iceberg.current.folder import state_before
from lakeaudit.evidence.manifest.iceberg.current.two_lines import words_of_two_lines


def catalog_witnesses(evidence: Evidence) -> Iterator[Witness]:
    """Yield witnesses from the metadata.json files of the tables in scope; none for an audit of partitions."""
    if evidence.partitions:
        return
    reported = {
        name for read in evidence.observed.sources.claims for name, s in read.states.items() if s.missing
    }
    for named, aim in evidence.metadata_aims:
        if aim.there is False and named.table.name not in reported and not _has_moved(evidence, named):
            yield _missing(evidence, named, aim)
    yield from _two_lines(evidence)


def _missing(evidence: Evidence, named: CatalogedTable, aim: Aim) -> Witness:
    before = state_before(evidence.context.clients, aim.place) or named.by.previous_location
    restore = f"; the metadata.json before it is {before}" if before else ""
    words = f"{named.catalog} has {named.by.name} at {aim.place.uri}, but this file does not exist{restore}"
    return Witness(named.table.name, MISSING_TABLE, (CATALOG,), aim.place.uri, words)


def _has_moved(evidence: Evidence, named: CatalogedTable) -> bool:
    """Return whether the catalog no longer has the table, or points at another state of it."""
    source = evidence.catalog_sources[named.by.catalog]
    ask = registry.catalog(source.kind).current
    try:
        now = None if ask is None else ask(source, evidence.context.clients, named.by.name)
    except SourceError:
        return False
    return ask is not None and (now is None or now.metadata_location != named.by.metadata_location)


def _two_lines(evidence: Evidence) -> Iterator[Witness]:
    by_table: dict[str, list[tuple[CatalogedTable, Aim]]] = defaultdict(list)
    for named, aim in evidence.metadata_aims:
        by_table[named.table.name].append((named, aim))
    for table, aims in by_table.items():
        for (one, first), (other, second) in combinations(aims, 2):
            if first.metadata is None or second.metadata is None:
                continue
            words = words_of_two_lines(
                (f"{one.catalog} {one.by.name}", first.place, first.metadata),
                (f"{other.catalog} {other.by.name}", second.place, second.metadata),
                evidence.context.clients,
            )
            if words:
                yield Witness(table, TWO_LINES, (CATALOG,), first.place.uri, words)
