"""Reads every source of the lake file. A source that cannot be read becomes an evidence gap, not an error.

Storage and metadata stores are read before the tables' own states, so that a state is never older than the storage
snapshot with which it is compared. Sources of one side are read in parallel: most of the time is waiting.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from lakeaudit.collect.listings import Listings
from lakeaudit.collect.source_facts import Sources
from lakeaudit.config import CatalogSource, Lake, MetastoreSource, Table, metastore_id
from lakeaudit.config.sources import StorageSource
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.protocol import Pointers
from lakeaudit.evidence.manifest.file_list.fold import CHANGED
from lakeaudit.evidence.protocol import (
    BufferedRows,
    Changes,
    Claims,
    Context,
    Entries,
    Events,
    EvidenceGap,
    LogEntries,
    Part,
    SourceInfo,
    Stored,
    TableState,
    pieces,
)
from lakeaudit.evidence.registry import EVENTS, MANIFESTS, METASTORES, STORAGE
from lakeaudit.evidence.storage.listing import reader as listing
from lakeaudit.evidence.storage.united import united
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.table_facts import roots
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.runtime.failures import damage_of
from lakeaudit.runtime.threads import beside
from lakeaudit.schemas import CLAIM

AT_ONCE = 4
"""Sources that are read in parallel."""
_UNREADABLE = "unreadable"
"""The identity of a source that could not be read."""

Read = TypeVar("Read", Stored, Entries | LogEntries, Claims, Events, Pointers)
Reads = list[tuple[SourceInfo, Callable[[], Read]]]
StartedReads = list[tuple[SourceInfo, Future[Read]]]


@dataclass(frozen=True)
class Observed:
    """The sources of a run, and the facts about them that are known before their rows are read.

    `listed`: places were listed now, and the lake file's storage sources were left alone.
    """

    sources: Sources
    infos: tuple[SourceInfo, ...]
    holes: tuple[EvidenceGap, ...]
    warnings: tuple[str, ...]
    listed: bool = False
    events: tuple[Events, ...] = ()
    """Read only to explain findings."""
    log_entries: tuple[LogEntries, ...] = ()
    """Entries of stores that record the commits of tables' logs."""
    catalogs: tuple[Pointers, ...] = ()
    """Entries of catalogs; read after storage, like the tables' own states."""

    def beside(self, infos: Sequence[SourceInfo], holes: Sequence[EvidenceGap]) -> "Observed":
        """Add sources that were read to discover tables."""
        known = {info.id for info in self.infos}
        more = [info for info in infos if info.id not in known]
        return replace(self, infos=(*self.infos, *more), holes=tuple(dict.fromkeys([*self.holes, *holes])))

    def rows(self) -> Iterator[Part | BufferedRows]:
        """Yield everything that the engine has to join."""
        for stored in self.sources.storage:
            yield from pieces(stored.rows)
        for entries in self.sources.metastores:
            yield from pieces(entries.rows)
        for read in self.sources.claims:
            yield from pieces(*read.rows)


@dataclass
class _Reading:
    """Collects the results of readers in order."""

    infos: list[SourceInfo] = field(default_factory=list)
    holes: list[EvidenceGap] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lost: dict[SourceInfo, str] = field(default_factory=dict)
    """Sources that could not be read at all, and why."""

    def collect_all(self, begun: StartedReads[Read]) -> list[Read]:
        """Return the sources that could be read, in the lake file's order; the others become gaps."""
        return [self.collect(got) for got in self.answers(begun)]

    def answers(self, begun: StartedReads[Read]) -> list[Read]:
        """Return the sources that could be read, and collect only the gaps of the others."""
        return [got for about, reading in begun if (got := self._one(about, reading)) is not None]

    def collect(self, got: Read) -> Read:
        """Add a source's information, gaps and warnings."""
        self.infos.append(got.info)
        self.holes.extend(got.holes)
        self.warnings.extend(got.warnings)
        return got

    def _one(self, about: SourceInfo, reading: Future[Read]) -> Read | None:
        try:
            return reading.result()
        except SourceError as error:
            reason = f"{error.what}; {error.hint}".rstrip("; ")
            self._lose(about, reason, error.retryable)
        except Exception as error:  # noqa: BLE001 - damage of one source must not end the audit of the others
            self._lose(about, damage_of(error))
        return None

    def _lose(self, about: SourceInfo, reason: str, retryable: bool = False) -> None:
        self.infos.append(replace(about, identity=_UNREADABLE))
        self.holes.append(EvidenceGap(about.id, reason, about.location, retryable=retryable))
        self.lost[about] = reason


def read_sources(
    lake: Lake, context: Context, live: Sequence[Location], listings: Listings | None = None
) -> Observed:
    """Read all evidence; `live` places are listed now instead of reading inventories.

    `listings` has the places that this audit has listed before; by default none.
    """
    reading = _Reading()
    with beside(AT_ONCE) as pool:
        storage = _start_reads(pool, _storage(lake, context, live, listings or Listings(live)))
        metastores = _start_reads(pool, _metastores(lake, context))
        stored = [reading.collect(source) for source in united(reading.answers(storage))]
        of_stores = reading.collect_all(metastores)
        entries = [read for read in of_stores if isinstance(read, Entries)]
        snapshots: list[Stored | Entries] = [*stored, *entries]
        context.engine.prepare(list(pieces(*(read.rows for read in snapshots))))
        cuts = [read.info.cut.start for read in snapshots if read.info.cut]
        after = replace(context, oldest_cut=min(cuts, default=None), storage=tuple(stored))
        recorded = _start_reads(pool, _events(lake, context))
        pointed = _start_reads(pool, _catalogs(lake, after))
        claims = _claims(reading, pool, lake, after)
        catalogs = tuple(reading.collect_all(pointed))
        events = tuple(reading.collect_all(recorded))
    configured = {metastore_id(number): source for number, source in enumerate(lake.metastores)}
    sources = Sources(claims, stored, entries, {read.info.id: configured[read.info.id] for read in entries})
    infos, holes, warnings = (
        tuple(reading.infos),
        tuple(reading.holes),
        tuple(dict.fromkeys(reading.warnings)),
    )
    log_entries = tuple(read for read in of_stores if isinstance(read, LogEntries))
    observed = Observed(sources, infos, holes, warnings, bool(live), events, log_entries, catalogs)
    context.engine.prepare(list(observed.rows()))
    return observed


def read_manifests(
    lake: Lake, context: Context, kinds: Collection[str] | None = None
) -> tuple[list[Claims], list[EvidenceGap]]:
    """Read manifests of these kinds (None: all) without storage and metadata stores; also return the gaps."""
    reading = _Reading()
    with beside(AT_ONCE) as pool:
        claims = _claims(reading, pool, lake, context, kinds)
    return claims, reading.holes


def _claims(
    reading: _Reading,
    pool: ThreadPoolExecutor,
    lake: Lake,
    context: Context,
    kinds: Collection[str] | None = None,
) -> list[Claims]:
    """Read manifests kind by kind. If a whole kind cannot be read, its tables are not judged."""
    unserved = _unserved(lake, context)
    served = lake.model_copy(update={"tables": tuple(t for t in lake.tables if t.name not in unserved)})
    wanted = [each for each in _manifests(served, context) if kinds is None or each[0].kind in kinds]
    claims = reading.collect_all(_start_reads(pool, wanted))
    lost = [(info, reason) for info, reason in reading.lost.items() if info.role == "manifest"]
    refused = [_refusal(info, reason, served, context) for info, reason in lost]
    return [*claims, *refused, *_of_unserved(lake, context, unserved, kinds)]


def _unserved(lake: Lake, context: Context) -> dict[str, str]:
    """Return tables in stores without a client, by their catalogs, with the reason.

    Tables whose state is found through a catalog are left to their readers.
    """
    named = (table for table in lake.tables if table.scheme)
    of_folders = (t for t in named if not any(each.catalog_pointers for each in t.manifests))
    whys = {t.name: context.clients.why_unserved(t.catalog_uri, t.location.bucket) for t in of_folders}
    return {name: why for name, why in whys.items() if why}


def _of_unserved(
    lake: Lake, context: Context, unserved: Mapping[str, str], kinds: Collection[str] | None
) -> Iterator[Claims]:
    for table in lake.tables if unserved else ():
        for kind in {each.kind for each in table.manifests} if table.name in unserved else ():
            if kinds is None or kind in kinds:
                alone = lake.model_copy(update={"tables": (table,)})
                info = SourceInfo(f"manifest:{kind}", "manifest", kind, lake.name, _UNREADABLE, None)
                yield _refusal(info, unserved[table.name], alone, context)


def _read_as_named(
    read_tables: Callable[..., Claims], tables: Sequence[Table], context: Context, source_id: str
) -> Claims:
    """Read the claims; reasons name locations of tables as their catalogs do."""
    read = read_tables(tables, context, source_id)
    named = {table.name: table for table in tables if table.scheme}
    if not named:
        return read
    states = {
        name: replace(state, refused=named[name].as_named(state.refused))
        if name in named and state.refused
        else state
        for name, state in read.states.items()
    }
    holes = tuple(
        replace(
            hole,
            reason=named[hole.table].as_named(hole.reason),
            subject=named[hole.table].as_named(hole.subject),
        )
        if hole.table in named
        else hole
        for hole in read.holes
    )
    return replace(read, states=states, holes=holes)


def _refusal(info: SourceInfo, reason: str, lake: Lake, context: Context) -> Claims:
    names = [table.name for table in _with_manifest(lake, info.kind)]
    states = {name: TableState(name, context.now, None, refused=reason, complete=False) for name in names}
    return Claims(replace(info, identity=_UNREADABLE), (), no_claims, states)


def no_claims(con: Connection, rows: Mapping[str, Rows]) -> Relation:  # noqa: ARG001
    """Return no claims, for manifests that could not be read; see `evidence.protocol.Fold`."""
    return duck.relation(con, CLAIM.empty_table())


def read_storage(lake: Lake, context: Context) -> list[Stored]:
    """Read the storage sources of the lake file without other evidence; a source that cannot be read is left out."""
    reading = _Reading()
    with beside(AT_ONCE) as pool:
        return [*united(reading.answers(_start_reads(pool, _storage(lake, context, (), Listings(())))))]


def read_events(lake: Lake, context: Context) -> tuple[list[Events], list[EvidenceGap]]:
    """Read event records without other evidence; also return the gaps."""
    reading = _Reading()
    with beside(AT_ONCE) as pool:
        events = reading.collect_all(_start_reads(pool, _events(lake, context)))
    return events, reading.holes


def changes(observed: Observed, lake: Lake, context: Context) -> list[Changes]:
    """Return the changes of the tables since they were read, with the same storage snapshot.

    If a kind of manifest cannot be read again, all its tables are uncertain.
    """
    again = replace(context, storage=tuple(observed.sources.storage))
    return [_changes(read, _with_manifest(lake, read.info.kind), again) for read in observed.sources.claims]


def _changes(read: Claims, tables: Sequence[Table], context: Context) -> Changes:
    if read.info.identity == _UNREADABLE:
        return Changes(
            CHANGED.empty_table(), {name: state.refused or "" for name, state in read.states.items()}
        )
    try:
        return MANIFESTS[read.info.kind].changes(read, tables, context)
    except SourceError as error:
        return Changes(CHANGED.empty_table(), dict.fromkeys(read.states, str(error)))


def _start_reads(pool: ThreadPoolExecutor, wanted: Reads[Read]) -> StartedReads[Read]:
    return [(about, pool.submit(read)) for about, read in wanted]


def _storage(lake: Lake, context: Context, live: Sequence[Location], listings: Listings) -> Reads[Stored]:
    if live:
        return [_listing(lake, context, number, place, listings) for number, place in listings.numbered(live)]
    wanted: Reads[Stored] = []
    for number, written in enumerate(lake.inventories):
        source = _with_margin(written, lake)
        about = _about("storage", number, source.kind, source.location.uri)
        pinned = context.for_source(source.kind, source.location.uri)
        wanted.append((about, partial(STORAGE[source.kind].read, source, pinned, about.id)))
    return wanted


def _listing(
    lake: Lake, context: Context, number: int, place: Location, listings: Listings
) -> tuple[SourceInfo, Callable[[], Stored]]:
    """Return the read of a location that is listed now."""
    info = _about("storage", number, "listing", place.uri)
    margin = lake.listing_margin(place.bucket)
    list_place = partial(listing.read_place, place, context, info.id, margin=margin)
    return info, partial(listings.read, number, list_place)


def _with_margin(source: StorageSource, lake: Lake) -> StorageSource:
    """Set the margin of a listing of a weakly consistent bucket, unless it has its own."""
    if not source.is_listing or source.margin is not None:
        return source
    return source.model_copy(update={"margin": lake.listing_margin(source.location.bucket)})


def _about(role: str, number: int, kind: str, location: str) -> SourceInfo:
    return SourceInfo(f"{role}:{number}", role, kind, location, "", None)


def _metastores(lake: Lake, context: Context) -> Reads[Entries | LogEntries]:
    """Return the reads of stores that contain files or commits of logs."""
    return [
        (about, partial(METASTORES[source.kind].read, source, _for_store(context, source), about.id))
        for about, source in _stores(lake)
        if not source.knows_tables
    ]


def _for_store(context: Context, source: MetastoreSource) -> Context:
    return context.for_source(source.kind, source.name, *(place.uri for place in source.places))


def _catalogs(lake: Lake, context: Context) -> Reads[Pointers]:
    """Return the reads of catalogs, with the partitions of tables without a state of their own."""
    places = frozenset(table.location for table in lake.tables if not table.state_manifests)
    with_places = replace(context, places=places)
    return [
        (about, partial(METASTORES[source.kind].read, source, with_places, about.id))
        for about, source in _stores(lake)
        if isinstance(source, CatalogSource) and source.knows_partitions
    ]


def _stores(lake: Lake) -> Iterator[tuple[SourceInfo, MetastoreSource]]:
    for number, source in enumerate(lake.metastores):
        yield SourceInfo(metastore_id(number), "metastore", source.kind, source.name, "", None), source


def _events(lake: Lake, context: Context) -> Reads[Events]:
    wanted: Reads[Events] = []
    for number, source in enumerate(lake.events):
        about = _about("events", number, source.kind, source.location.uri)
        wanted.append((about, partial(EVENTS[source.kind].read, source, context, about.id)))
    return wanted


def _manifests(lake: Lake, context: Context) -> Reads[Claims]:
    owned = partial(attach_label, places=roots(lake.tables), column="table_name")
    context = replace(context, owned=owned)
    wanted: Reads[Claims] = []
    for kind, manifest in MANIFESTS.items():
        tables = _with_manifest(lake, kind)
        if tables:
            about = SourceInfo(f"manifest:{kind}", "manifest", kind, lake.name, "", None)
            wanted.append((about, partial(_read_as_named, manifest.read, tables, context, about.id)))
    return wanted


def _with_manifest(lake: Lake, kind: str) -> list[Table]:
    return [table for table in lake.tables if any(manifest.kind == kind for manifest in table.manifests)]
