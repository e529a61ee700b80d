"""Find unused files that something else lists: a log of another format at the root, or other tables of a catalog there.

Only the unused files of tables that have some are looked up: a lake without a second format costs nothing.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakeaudit.checks.lineage.newer_states import newer_states_of_others
from lakeaudit.collect.claim_lookups import claims_of
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.read_sources import read_manifests
from lakeaudit.config import CatalogSource, Table
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.lineage import CUT_HISTORY, LOSSES, RIVAL_LINE
from lakeaudit.evidence.other_listers import OWN_CLEANER, by_log, by_tables
from lakeaudit.evidence.protocol import Claims, EvidenceGap, not_all_listed
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation

_LISTED = pa.schema([("bucket", pa.string()), ("key", pa.string())])
MAY_LIST_MORE = frozenset({*LOSSES, RIVAL_LINE, CUT_HISTORY})
"""Claims of witnesses by which another state may list the unused files, unless an operation explains them."""
MarkedStates = Sequence[Mapping[str, Any]]
"""MARKED_STATE rows."""
OwnLogs = Collection[tuple[str, str]]
"""(table, format) of logs at tables' roots, as storage has them."""


@dataclass(frozen=True)
class ListerChecks:
    """Files that tables other than those of the lake file list.

    `unknown` has by table the reason why not all of these files are known; `doubtful` has the reason why another table
    may need files that it does not list, although it was read whole.
    """

    listed: pa.Table = field(default_factory=_LISTED.empty_table)
    unknown: Mapping[str, str] = field(default_factory=dict)
    doubtful: Mapping[str, str] = field(default_factory=dict)

    @property
    def undecided(self) -> set[str]:
        """Return the tables of which no file is called unused."""
        return {*self.unknown, *self.doubtful}


def lister_checks(
    evidence: Evidence, engine: AuditEngine, leftovers: Relation, logs: OwnLogs, marked: MarkedStates = ()
) -> ListerChecks:
    """Look up which unused files others list; `marked` has the states of all formats that delete markers hide."""
    listers = dict(_listers(evidence, logs))
    if not listers:
        return ListerChecks()
    names = duck.literals(sorted(listers))
    sql = f"SELECT DISTINCT judged_table, bucket, key FROM input WHERE judged_table IN ({names})"
    unused = duck.table(duck.made_of(evidence.con, sql, leftovers))
    left = set(unused["judged_table"].unique().to_pylist())
    of = {each.name: name for name in left for each in listers[name]}
    tables = [each for name in left for each in listers[name]]
    if not tables:
        return ListerChecks()
    return _listed_files(evidence, engine, tables, of, unused.select(_LISTED.names), marked)


def _listers(evidence: Evidence, logs: OwnLogs) -> Iterator[tuple[str, list[Table]]]:
    """Yield each table in scope with the tables that may list its files."""
    for table in evidence.scope:
        listers = [by_log(table, kind) for name, kind in sorted(logs) if name == table.name]
        for catalog in evidence.observed.catalogs:
            store = evidence.catalog_sources[catalog.info.id]
            if isinstance(store, CatalogSource):
                listers += by_tables(table, catalog.tables, evidence.lake.tables, store)
        if listers:
            yield table.name, listers


def _listed_files(
    evidence: Evidence,
    engine: AuditEngine,
    listers: Sequence[Table],
    of: Mapping[str, str],
    keys: pa.Table,
    marked: MarkedStates,
) -> ListerChecks:
    beside = evidence.lake.model_copy(update={"tables": tuple(listers)})
    claims, gaps = read_manifests(beside, evidence.context)
    listed, unknown, doubtful = [_LISTED.empty_table()], dict[str, str](), dict[str, str]()
    for read in claims:
        rows, notes = claims_of(engine, read, [*read.states], keys)
        listed += [duck.table(duck.query(evidence.con, _NEEDED, input=batch)) for batch in rows]
        lost = [gap for note in notes if read.gap_of and (gap := read.gap_of(note))]
        unknown |= {of[name]: f"{name}: {why}" for name, why in _unread(read, [*gaps, *lost])}
        own_cleaner = OWN_CLEANER if MANIFESTS[read.info.kind].model.has_own_cleaner else None
        whys = ((name, state.leftovers_kept or own_cleaner) for name, state in read.states.items())
        doubtful |= {of[name]: f"{name}: {why}" for name, why in whys if why}
        unknown |= {
            of[name]: f"{name}: {why}" for name, why in _other_states(evidence, read, listers, marked)
        }
    unread = of.keys() - {name for read in claims for name in read.states}
    why = next((gap.reason for gap in gaps), "it cannot be read")
    unknown |= {of[name]: f"{name}: {why}" for name in unread}
    return ListerChecks(pa.concat_tables(listed), unknown, doubtful)


def _other_states(
    evidence: Evidence, read: Claims, listers: Sequence[Table], marked: MarkedStates
) -> Iterator[tuple[str, str]]:
    """Yield tables with another state that may list more files than the one that was read: lost, replaced or rival."""
    places = {table.name: table.location for table in listers}
    newer = newer_states_of_others(read, places, marked, evidence.context.clients, live=evidence.context.live)
    for one in (*read.witnesses, *newer):
        if one.table in places and one.claim in MAY_LIST_MORE and not (one.recreated or one.explained):
            yield one.table, one.words


_NEEDED = "SELECT DISTINCT bucket, key FROM input WHERE state IN ('live', 'history')"


def _unread(read: Claims, gaps: Sequence[EvidenceGap]) -> Iterator[tuple[str, str]]:
    """Yield tables whose listed files are not all known, and why."""
    for gap in (*read.holes, *gaps):
        if gap.source == read.info.id:
            yield from ((name, gap.reason) for name in read.states if gap.table in (None, name))
    for name, state in read.states.items():
        if state.refused or not state.complete:
            yield name, state.refused or not_all_listed(read.info.kind)
