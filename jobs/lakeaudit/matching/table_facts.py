"""Collects facts about each table as a whole, in one small table: settings, states and evidence gaps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.evidence.protocol import (
    Claims,
    CommittedNames,
    EvidenceGap,
    NeededFile,
    TableState,
    not_all_listed,
)
from lakeaudit.evidence.registry import format_rank
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.schemas import INSTANT, TABLE_FACTS, plain_time


@dataclass(frozen=True)
class TableFacts:
    """One table: its entry in the lake file, its states, and the gaps of its manifests."""

    table: Table
    states: tuple[TableState, ...] = ()
    holes: tuple[EvidenceGap, ...] = ()
    declared: bool = False
    """Whether a manifest records totals of single writes, and the table has no log of its own."""
    doubt: str = ""
    """Why another state than the one that was read may be the current one, so that no file counts as unused."""
    not_all_listed: str = ""
    """Which of its manifests may not list all of its files; empty if none."""
    unseen: bool = False
    """Whether the report that should cover the table names no file of its log, so that it does not cover it."""

    @property
    def log_since(self) -> datetime | None:
        return min((state.log_since for state in self.states if state.log_since), default=None)

    @property
    def refusal(self) -> str | None:
        return next((state.refused for state in self.states if state.refused), None)

    @property
    def remark(self) -> str:
        """Return the remark for the coverage of its content."""
        return "; ".join(state.remark for state in self.states if state.remark)

    @property
    def not_yet(self) -> str | None:
        """Return why no file can be claimed yet."""
        return next((state.not_yet for state in self.states if state.not_yet), None)

    @property
    def has_gap(self) -> bool:
        """Whether the table may list files that are missing in the state that was read."""
        return bool(self.holes) or self.refusal is not None or bool(self.doubt)

    @property
    def version(self) -> int | None:
        return next((state.version for state in self.states if state.version is not None), None)

    @property
    def horizon(self) -> datetime | None:
        """Return the time since which every state can be read: the latest of its manifests' horizons."""
        known = [state.horizon for state in self.states if state.horizon is not None]
        return max(known) if known else None

    @property
    def read_at(self) -> datetime | None:
        return min((state.read_at for state in self.states), default=None)

    @property
    def archived_after(self) -> timedelta | None:
        """Return the age after which a file is archived on purpose, by the lake file or the table's properties."""
        said = [self.table.settings.archived.expected_after, *(state.archived_after for state in self.states)]
        return min((after for after in said if after is not None), default=None)

    @property
    def committed_names(self) -> CommittedNames | None:
        return next((state.committed_names for state in self.states if state.committed_names), None)

    @property
    def needed_log(self) -> Iterator[NeededFile]:
        """Yield files of its logs that readers of the newest state need and that are not claims."""
        for state in self.states:
            if state.needed_log is not None:
                yield from state.needed_log()

    @property
    def stateful(self) -> bool:
        return bool(self.table.state_manifests)


def table_facts(tables: Sequence[Table], claims: Sequence[Claims]) -> list[TableFacts]:
    """Return the facts of every table of the lake, from the claims of the manifest readers."""
    states: dict[str, list[TableState]] = {table.name: [] for table in tables}
    holes: dict[str, list[EvidenceGap]] = {table.name: [] for table in tables}
    reasons = dict[str, str]()
    for read in claims:
        for name, state in read.states.items():
            states[name].append(state)
            if not state.complete:
                reasons[name] = not_all_listed(read.info.kind)
        for hole in read.holes:
            if hole.table is not None:
                holes[hole.table].append(hole)
    return [
        TableFacts(
            table,
            tuple(states[table.name]),
            tuple(holes[table.name]),
            _declared(table, claims),
            not_all_listed=reasons.get(table.name, ""),
        )
        for table in tables
    ]


def _declared(table: Table, claims: Sequence[Claims]) -> bool:
    named = any(read.totals is not None and table.name in read.totals.counts for read in claims)
    return named and not table.state_manifests


def facts_table(facts: Sequence[TableFacts]) -> pa.Table:
    """Return one row per table of the lake, with the columns of TABLE_FACTS."""
    shared = _shared([fact.table for fact in facts])
    return duck.small(TABLE_FACTS, [_row(fact, shared[fact.table.name]) for fact in facts])


def completed_instants(facts: Sequence[TableFacts]) -> pa.Table:
    """Return INSTANT rows of the tables with a Hudi timeline."""
    known = [(fact.table.name, names) for fact in facts if (names := fact.committed_names) is not None]
    return duck.small(INSTANT, [(name, instant) for name, names in known for instant in names.instants])


def roots(tables: Sequence[Table]) -> dict[Location, str]:
    """Map each location to its table; among several tables to the one that owns unlisted files there."""
    return {table.location: table.name for table in sorted(tables, key=ownership_rank, reverse=True)}


def co_owners(tables: Sequence[Table]) -> dict[str, str]:
    """Map each table that shares its location with a table of another format to that table."""
    owners = roots(tables)
    return {table.name: owner for table in tables if (owner := owners[table.location]) != table.name}


def ownership_rank(table: Table) -> tuple[bool, tuple[int, str], str]:
    """Rank tables at one location, the owner lowest: complete manifests first, then by format, then by name."""
    kinds = [manifest.kind for manifest in table.state_manifests]
    return not table.complete, min(map(format_rank, kinds), default=format_rank("")), table.name


def _row(fact: TableFacts, shares: list[str]) -> tuple[object, ...]:
    table, settings = fact.table, fact.table.settings
    retention = next((s.retention for s in fact.states if s.retention is not None), settings.retention)
    names = fact.committed_names
    return (
        table.name,
        len(table.location.prefix),
        settings.grace,
        settings.leftover_age,
        settings.max_upload,
        retention,
        fact.stateful,
        bool(table.manifests),
        table.complete and not fact.refusal,
        bool(table.state_manifests),
        table.read_by_folder,
        plain_time(fact.read_at),
        plain_time(fact.horizon),
        fact.has_gap,
        shares,
        settings.min_duplicate_size,
        fact.archived_after,
        table.moved,
        bool(names and names.indexed and table.read_by_metadata_table),
        None if names is None else names.first,
    )


def _shared(tables: Sequence[Table]) -> Mapping[str, list[str]]:
    """Return the tables that each table shares files with; a declaration of either table holds for both."""
    pairs = {(table.name, other) for table in tables for other in table.shares}
    pairs |= {(other, name) for name, other in pairs}
    return {table.name: sorted(other for name, other in pairs if name == table.name) for table in tables}
