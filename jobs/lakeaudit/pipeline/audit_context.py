"""What every step of judging one run needs."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import pyarrow as pa

from lakeaudit.compare import verdicts
from lakeaudit.compare.evidence_for_tables import source_facts
from lakeaudit.compare.findings import Stamp
from lakeaudit.compare.fresh import FreshLook
from lakeaudit.compare.kernel import Kernel
from lakeaudit.compare.lineage import JudgedWitness
from lakeaudit.compare.match import SourceFacts
from lakeaudit.compare.pointer_folders import FolderCount
from lakeaudit.compare.table_facts import TableFacts, table_facts
from lakeaudit.compare.watched import Watch
from lakeaudit.config import CatalogSource, Lake, MetastoreSource, Table, metastore_id
from lakeaudit.evidence.protocol import Context, Hole
from lakeaudit.ledger.load_open import Memory
from lakeaudit.pipeline.ask_storage import look, look_twice
from lakeaudit.pipeline.lifecycles import Lifecycles
from lakeaudit.pipeline.metadata_aims import KnownAim, read_aims
from lakeaudit.pipeline.partitions import Partitions, uris
from lakeaudit.pipeline.pointed_tables import PointedTables, pointed_tables
from lakeaudit.pipeline.read_sources import Observed
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import POINTED_OBJECT, plain_time


@dataclass
class AuditContext:
    """The lake, what was read of it, and the driver's connection, on which suspects are judged again."""

    lake: Lake
    scope: Sequence[Table]
    partitions: Partitions
    observed: Observed
    context: Context
    stamp: Stamp
    memory: Memory
    con: Connection
    named: Collection[str] = ()
    """Tables that the lake file itself names."""
    pause: Callable[[float], None] = time.sleep
    all_found: bool = False
    """Whether no table that the lake file describes can have been missed."""
    facts: list[TableFacts] = field(init=False)
    lifecycles: Lifecycles = field(init=False)
    lineage: tuple[JudgedWitness, ...] = ()
    """What is known of other states of the tables than those that were read."""

    def __post_init__(self) -> None:
        self.lifecycles = Lifecycles(self.context.clients, live=self.context.live)
        self.facts = table_facts(self.lake.tables, self.observed.evidence.claims)

    def lose(self, holes: Sequence[Hole]) -> None:
        """Take holes into account that were found while rows were read: what was made of the logs is stale."""
        self.observed = replace(self.observed, holes=(*self.observed.holes, *holes))
        of_table = {fact.table.name: [h for h in holes if h.table == fact.table.name] for fact in self.facts}
        self._know([replace(fact, holes=(*fact.holes, *of_table[fact.table.name])) for fact in self.facts])

    def doubt(self, reasons: Mapping[str, str]) -> None:
        """Record by table why another state than the one that was read may be the current one."""
        if reasons:
            self._know([replace(f, doubt=reasons.get(f.table.name, f.doubt)) for f in self.facts])

    def miss(self, names: Collection[str]) -> None:
        """Take into account that reports do not cover these tables, as was found while rows were read."""
        if names:
            self._know([replace(f, unseen=f.unseen or f.table.name in names) for f in self.facts])

    def _know(self, facts: list[TableFacts]) -> None:
        """Other facts of the tables: what was made of the old ones is made anew."""
        self.facts = facts
        for name in ("sources", "kernel"):
            self.__dict__.pop(name, None)

    @cached_property
    def sources(self) -> SourceFacts:
        return source_facts(self.observed.evidence, self.lake.tables, self.facts)

    @cached_property
    def words(self) -> verdicts.Words:
        return verdicts.words(self.scope, self.lake.ignores, self.stamp.as_of.date())

    @cached_property
    def kernel(self) -> Kernel:
        trees = any(store.tree for store in self.observed.evidence.metastores)
        return Kernel(
            self.sources, self.words, uris(self.partitions), trees, self._fresh_look(), self._watch()
        )

    @cached_property
    def watched(self) -> Sequence[Table]:
        """The places that are watched by this run: none where it was asked of less than the whole lake."""
        whole = len(self.scope) == len(self.lake.tables) and not self.partitions and not self.observed.listed
        return self.lake.watched if whole else ()

    @cached_property
    def watch_words(self) -> verdicts.Words:
        """What the lake file says of findings in watched places."""
        return verdicts.words(self.watched, self.lake.ignores, self.stamp.as_of.date())

    def _watch(self) -> Watch | None:
        if not self.watched:
            return None
        places = {place.location: place.name for place in self.watched}
        objects = self.pointed.objects if self.pointed else POINTED_OBJECT.empty_table()
        return Watch(places, self.watched[0].settings.leftover_age, self.watch_words.ignored, objects)

    def _fresh_look(self) -> FreshLook | None:
        """How many files may be looked at that the evidence cannot speak of; None: none."""
        may_look = {t.name: t.settings.confirm.fresh for t in self.scope if self.confirms(t)}
        limits = {name: fresh for name, fresh in may_look.items() if fresh}
        if not limits:
            return None
        now, most = plain_time(self.context.now), self.lake.settings.confirm.fresh
        return FreshLook(now, limits, most, outside=self.observed.listed)

    @cached_property
    def catalog_sources(self) -> Mapping[str, MetastoreSource]:
        """The catalogs of the lake file by the ids of their sources."""
        named = {metastore_id(number): source for number, source in enumerate(self.lake.metastores)}
        return {
            id_: source
            for id_, source in named.items()
            if isinstance(source, CatalogSource) and source.knows_partitions
        }

    @cached_property
    def pointed(self) -> PointedTables | None:
        """What catalogs say of the tables in scope; None: there are no catalogs."""
        if not self.catalog_sources:
            return None
        return pointed_tables(self.con, self.scope, self.observed.catalogs, self.catalog_sources)

    @cached_property
    def metadata_aims(self) -> Sequence[KnownAim]:
        """The metadata.json files that catalogs point at, as they are now; none of parts of tables."""
        if self.pointed is None or self.partitions:
            return ()
        return read_aims(self.context.clients, self.pointed.named)

    @property
    def folder_count(self) -> FolderCount | None:
        """What is counted while storage is read, for what catalogs point at; None: nothing."""
        if self.pointed is None or not self.pointed.places or self.partitions:
            return None
        return FolderCount(self.pointed.places, self.sources.deciding, self.pointed.objects)

    @property
    def facts_in_scope(self) -> list[TableFacts]:
        names = {table.name for table in self.scope}
        return [fact for fact in self.facts if fact.table.name in names]

    def judge_again(self, suspects: Rows) -> Relation:
        return verdicts.judge_again(self.con, suspects, self.words)

    def confirms(self, table: Table) -> bool:
        """Whether storage may be asked about this table's files now."""
        return self.context.live and table.settings.confirm.mode != "none"

    def look(self, keys: pa.Table) -> pa.Table:
        """LIVE rows: what storage says of (bucket, key) rows now."""
        asking = partial(look, clients=self.context.clients, rate=self.lake.settings.confirm.rate)
        return look_twice(keys, asking, self.lake.is_weak, self.pause)

    def limits(self, *, without: Sequence[str] = ()) -> Mapping[str, int]:
        """By table how many of its files may be looked at, for those that may."""
        return {
            table.name: table.settings.confirm.limit
            for table in self.scope
            if self.confirms(table) and table.name not in without
        }
