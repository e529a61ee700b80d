"""Defines the evidence of a run as one immutable value. A step returns a new value with its results."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import pyarrow as pa

from lakeaudit.collect.lifecycles import Lifecycles
from lakeaudit.collect.metadata_aims import KnownAim
from lakeaudit.collect.partitions import Partitions
from lakeaudit.collect.pointed_tables import PointedTables, catalog_sources
from lakeaudit.collect.read_sources import Observed
from lakeaudit.collect.source_facts import source_facts
from lakeaudit.collect.storage_lookups import look, look_twice
from lakeaudit.config import Lake, MetastoreSource, Table
from lakeaudit.evidence.protocol import Context, EvidenceGap
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.findings.lineage import JudgedWitness
from lakeaudit.ledger.load_open import OpenDiscrepancies
from lakeaudit.matching import verdicts
from lakeaudit.matching.pairs import SourceFacts
from lakeaudit.matching.pointer_folders import FolderCount
from lakeaudit.matching.recent_files import RecentFileLimits
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.matching.watched_folders import Watch
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import OWNER, POINTED_OBJECT, plain_time

Gap = EvidenceGap | tuple[str, str]
"""Evidence that is missing: a gap of a source, or (table, reason)."""
UNCOVERED = "the storage reports do not cover this table"


@dataclass(frozen=True, eq=False)
class Evidence:
    """The lake, what was read of it, and the driver's connection, on which suspects are confirmed.

    Attributes:
        scope: the tables that this run audits.
        facts: the facts of every table of the lake, from its manifests.
        policy: the scope, severities and ignores of the lake file.
        lifecycles: the lifecycle rules of buckets; each bucket is read once, when a check needs it.
        pointed: the tables in scope as catalogs name them; None: there are no catalogs.
        metadata_aims: the metadata.json files that catalogs point at.
        lineage: judged witnesses of other states than those that were read.
        named: names of tables in the lake file.
        all_found: whether discovery cannot have missed a table that the lake file describes.
    """

    lake: Lake
    scope: Sequence[Table]
    partitions: Partitions
    observed: Observed
    context: Context
    stamp: RunStamp
    memory: OpenDiscrepancies
    con: Connection
    facts: tuple[TableFacts, ...]
    policy: verdicts.FindingPolicy
    lifecycles: Lifecycles
    pointed: PointedTables | None = None
    metadata_aims: Sequence[KnownAim] = ()
    lineage: tuple[JudgedWitness, ...] = ()
    named: Collection[str] = ()
    all_found: bool = False
    pause: Callable[[float], None] = time.sleep

    def with_gaps(self, holes: Sequence[EvidenceGap]) -> "Evidence":
        """Add gaps that were detected while rows were read."""
        if not holes:
            return self
        observed = replace(self.observed, holes=(*self.observed.holes, *holes))
        of_table = {fact.table.name: [h for h in holes if h.table == fact.table.name] for fact in self.facts}
        facts = [replace(fact, holes=(*fact.holes, *of_table[fact.table.name])) for fact in self.facts]
        return replace(self, observed=observed, facts=tuple(facts))

    def with_doubts(self, reasons: Mapping[str, str]) -> "Evidence":
        """Add by table the reason why another state may be the current one."""
        if not reasons:
            return self
        facts = [replace(fact, doubt=reasons.get(fact.table.name, fact.doubt)) for fact in self.facts]
        return replace(self, facts=tuple(facts))

    def with_uncovered(self, names: Collection[str]) -> "Evidence":
        """Add tables that the storage reports do not cover, as a check has shown."""
        if not names:
            return self
        facts = [replace(fact, unseen=fact.unseen or fact.table.name in names) for fact in self.facts]
        return replace(self, facts=tuple(facts))

    @cached_property
    def gaps(self) -> frozenset[Gap]:
        """Return all known gaps; a run repeats the reading only if they have changed."""
        doubts = ((fact.table.name, fact.doubt) for fact in self.facts if fact.doubt)
        uncovered = ((fact.table.name, UNCOVERED) for fact in self.facts if fact.unseen)
        return frozenset((*self.observed.holes, *doubts, *uncovered))

    @cached_property
    def source_facts(self) -> SourceFacts:
        return source_facts(self.observed.sources, self.lake.tables, self.facts)

    @cached_property
    def watched(self) -> Sequence[Table]:
        """Return the places that this run watches; none unless it audits the whole lake."""
        whole = len(self.scope) == len(self.lake.tables) and not self.partitions and not self.observed.listed
        return self.lake.watched if whole else ()

    @cached_property
    def watch_policy(self) -> verdicts.FindingPolicy:
        """Return the policy for findings in watched places."""
        return verdicts.finding_policy(self.watched, self.lake.ignores, self.stamp.as_of.date())

    @cached_property
    def watch(self) -> Watch | None:
        if not self.watched:
            return None
        places = {place.location: place.name for place in self.watched}
        objects = self.pointed.objects if self.pointed else POINTED_OBJECT.empty_table()
        return Watch(places, self.watched[0].settings.leftover_age, self.watch_policy.ignored, objects)

    @cached_property
    def recent_file_limits(self) -> RecentFileLimits | None:
        """Return the limits for live checks of files that are newer than the evidence; None: no checks."""
        by_table = {t.name: t.settings.confirm.fresh for t in self.scope if self.confirms(t)}
        limits = {name: fresh for name, fresh in by_table.items() if fresh}
        if not limits:
            return None
        now, most = plain_time(self.context.now), self.lake.settings.confirm.fresh
        return RecentFileLimits(now, limits, most, outside=self.observed.listed)

    @cached_property
    def owners(self) -> pa.Table:
        """Return the owner of each table and watched place in the lake file, as rows of OWNER."""
        return duck.small(
            OWNER, [(each.name, each.owner) for each in (*self.lake.tables, *self.lake.watched)]
        )

    @property
    def catalog_sources(self) -> Mapping[str, MetastoreSource]:
        """Return the catalogs of the lake file by the ids of their sources."""
        return catalog_sources(self.lake)

    @property
    def folder_count(self) -> FolderCount | None:
        """Return the places of catalogs whose files are counted by folder while storage is read, or None."""
        if self.pointed is None or not self.pointed.places or self.partitions:
            return None
        return FolderCount(self.pointed.places, self.source_facts.deciding, self.pointed.objects)

    @property
    def facts_in_scope(self) -> list[TableFacts]:
        names = {table.name for table in self.scope}
        return [fact for fact in self.facts if fact.table.name in names]

    def judge_again(self, suspects: Rows) -> Relation:
        return verdicts.judge_again(self.con, suspects, self.policy)

    def confirms(self, table: Table) -> bool:
        """Whether live requests for this table's files are allowed."""
        return self.context.live and table.settings.confirm.mode != "none"

    def look(self, keys: pa.Table) -> pa.Table:
        """Request (bucket, key) rows from storage now, and return LIVE rows."""
        request = partial(look, clients=self.context.clients, rate=self.lake.settings.confirm.rate)
        return look_twice(keys, request, self.lake.is_weak, self.pause)

    def limits(self, *, without: Sequence[str] = ()) -> Mapping[str, int]:
        """Return by table how many files may be checked live, for tables with live checks."""
        return {
            table.name: table.settings.confirm.limit
            for table in self.scope
            if self.confirms(table) and table.name not in without
        }
