"""Decides which source counts for each place and table: storage, metadata store, and their cutoffs. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow as pa

from lakeaudit.config import MetastoreSource, Table
from lakeaudit.evidence.protocol import Claims, Entries, SnapshotWindow, SourceInfo, Stored
from lakeaudit.evidence.registry import formats, state_kinds
from lakeaudit.evidence.storage.versions import one_row_per_key
from lakeaudit.findings.coverage import Availability
from lakeaudit.formatting import duration, second
from lakeaudit.judged import OUTDATED
from lakeaudit.keys import Location
from lakeaudit.matching.pairs import NOBODY, SourceFacts
from lakeaudit.matching.prefix_match import Places, label_around
from lakeaudit.matching.table_facts import TableFacts, co_owners, completed_instants, facts_table, roots
from lakeaudit.runtime import duck
from lakeaudit.schemas import CUT, READ_STATE, plain_time


@dataclass(frozen=True)
class Sources:
    """The sources that a run has read; `metastore_sources` are the entries of `metastores` in the lake file, by id."""

    claims: Sequence[Claims]
    storage: Sequence[Stored]
    metastores: Sequence[Entries]
    metastore_sources: Mapping[str, MetastoreSource]


def source_facts(sources: Sources, tables: Sequence[Table], facts: Sequence[TableFacts]) -> SourceFacts:
    """Return facts about the sources of a run as wholes."""
    repeats = tuple(source.info.id for source in sources.storage if source.repeats)
    older_alone = tuple(source.info.id for source in sources.storage if source.older_alone)
    authoritative = {id_: source.trusted for id_, source in sources.metastore_sources.items()}
    return SourceFacts(
        tables=facts_table(facts),
        instants=completed_instants(facts),
        roots=roots(tables),
        folds=tuple(read.fold for read in sources.claims),
        # counted by kind, because the reader of an unreadable log returns nothing
        event_kinds=sum(read.info.kind not in state_kinds() for read in sources.claims),
        deciding=_but_unseen(deciding_places(sources.storage), facts),
        storage_cuts=_cut_table(source.info for source in sources.storage),
        objects=partial(one_row_per_key, repeats=repeats, older_alone=older_alone),
        scopes={place: store.info.id for store in sources.metastores for place in store.scope},
        everywhere=next((store.info.id for store in sources.metastores if not store.scope), None),
        metastore_cuts=_cut_table(store.info for store in sources.metastores),
        trusted_stores=tuple(id_ for id_, trust in authoritative.items() if trust == "all"),
        trusted={
            place: "trusted"
            for trust in authoritative.values()
            if not isinstance(trust, str)
            for place in trust
        },
        ttls={store.info.id: store.ttl for store in sources.metastores if store.ttl is not None},
        holed=_places_with_gaps(facts),
        contradictions=tuple(read.contradictions for read in sources.claims if read.contradictions),
        flat_stores=tuple(store.info.id for store in sources.metastores if not store.tree),
        co_owners=co_owners(tables),
        read_states=read_states(sources.claims, tables),
    )


def read_states(claims: Sequence[Claims], tables: Sequence[Table]) -> pa.Table:
    """Return READ_STATE rows: the lowest state that was read at each root; no number for formats without a manifest."""
    places = {table.name: table.location for table in tables}
    declared = {(each.kind, table.location) for table in tables for each in table.manifests}
    lowest: dict[tuple[str, Location], int] = {}
    for read in claims:
        for name, state in read.states.items():
            if name in places and state.state is not None and state.state.number is not None:
                at = read.info.kind, places[name]
                lowest[at] = min(state.state.number, lowest.get(at, state.state.number))
    others = ((kind, place) for kind in formats() for place in {*places.values()})
    found = {**dict.fromkeys(at for at in others if at not in declared), **lowest}
    return duck.small(
        READ_STATE, [(kind, at.bucket, at.prefix, number) for (kind, at), number in found.items()]
    )


def _places_with_gaps(facts: Sequence[TableFacts]) -> Places:
    """Return the places where a table with a gap in its log could list files.

    These are its location, tables that share files with it, and the source of a clone whose log was read in part.
    """
    lost = {fact.table.name for fact in facts if fact.has_gap}
    shared = {name for fact in facts if fact.has_gap for name in fact.table.shares}
    holed = [f for f in facts if f.has_gap or f.table.name in shared or lost & set(f.table.shares)]
    places = [fact.table.location for fact in holed]
    places += [_whole(root, facts) for fact in holed for state in fact.states for root in state.roots]
    return dict.fromkeys(places, "holed")


def _whole(root: Location, facts: Sequence[TableFacts]) -> Location:
    """Return the location of the table around a folder, or the folder itself."""
    around = [fact.table.location for fact in facts if fact.table.location.contains(root)]
    return max(around, key=lambda place: place.depth, default=root)


def _cut_table(infos: Iterable[SourceInfo]) -> pa.Table:
    cuts = [(info.id, info.cut) for info in infos if info.cut]
    rows = [(id_, plain_time(cut.start), plain_time(cut.end), cut.margin) for id_, cut in cuts]
    return duck.small(CUT, rows)


def availability(
    sources: Sources,
    tables: Sequence[TableFacts],
    metastores: Sequence[MetastoreSource],
    holed: Collection[str],
    as_of: datetime,
) -> Availability:
    """Return the evidence for these tables; `metastores` are those of the lake file, readable or not.

    `as_of` is the time to which the ages of storage snapshots are measured.
    """
    cuts = storage_cuts(sources.storage)
    decides = deciding_places(sources.storage)
    places = {fact.table.name: fact.table.location for fact in tables}
    of_storage = {name: _cut_for(place, decides, cuts) for name, place in places.items()}
    stores_of = {
        name: [s for s in metastores if _meets(place, [s.location] if s.location else [])]
        for name, place in places.items()
    }
    return Availability(
        storage_cuts={name: cut for name, cut in of_storage.items() if cut is not None},
        metastore_cuts={
            name: cuts_of for name, place in places.items() if (cuts_of := _metastore_cuts(place, sources))
        },
        metastores_wanted=frozenset(name for name, stores in stores_of.items() if stores),
        treeless=frozenset(
            n for n, stores in stores_of.items() if stores and not any(s.has_tree for s in stores)
        ),
        gaps=_gaps_by_table(places, sources, holed),
        reasons={} if sources.storage else {"storage": "no storage source could be read"},
        outdated=_outdated(places, decides, sources.storage, as_of),
        covered=[place.uri for place in sorted(decides)],
    )


def deciding_places(storage: Sequence[Stored]) -> dict[Location, str]:
    """Return for every covered place the source that decides presence: the one with the youngest snapshot."""
    covered = sorted({place for source in storage for place in source.covers})
    return {place: _youngest(place, storage).info.id for place in covered}


def _but_unseen(decides: Mapping[Location, str], facts: Sequence[TableFacts]) -> dict[Location, str]:
    """Leave tables without a deciding source if the reports do not cover their logs, except tables inside of them."""
    unseen = {fact.table.location: NOBODY for fact in facts if fact.unseen}
    others = {fact.table.location for fact in facts if not fact.unseen}
    inside = [place for place in others if any(outer.contains(place) for outer in unseen)]
    kept = {place: label for place in inside if (label := label_around(decides, place)) is not None}
    return {**decides, **unseen, **kept}


def _youngest(place: Location, storage: Sequence[Stored]) -> Stored:
    covering = [s for s in storage if any(cover.contains(place) for cover in s.covers)]
    return max(covering, key=lambda source: cut_of(source).start)


def storage_cuts(storage: Iterable[Stored]) -> dict[str, SnapshotWindow]:
    """Return the snapshot windows of storage sources by id."""
    return {source.info.id: cut_of(source) for source in storage}


def cut_of(source: Stored) -> SnapshotWindow:
    """Return the snapshot window of a storage source, which always has one."""
    if source.info.cut is None:
        raise ValueError(f"a storage source without a cut: {source.info.id}")
    return source.info.cut


def _metastore_cuts(place: Location, sources: Sources) -> tuple[SnapshotWindow, ...]:
    """Return the snapshot windows of readable stores whose scope meets the place."""
    return tuple(
        store.info.cut for store in sources.metastores if store.info.cut and _meets(place, store.scope)
    )


def _gaps_by_table(
    places: Mapping[str, Location], sources: Sources, with_gaps: Collection[str]
) -> dict[tuple[str, str], list[str]]:
    """Return by table and role the sources about it that were not read completely: their kinds and locations."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    each_of = [
        *(("storage", source.info, source.covers) for source in sources.storage),
        *(("metastore", store.info, store.scope) for store in sources.metastores),
    ]
    # a live audit has as many sources as tables, and nearly all have no gap
    for role, info, scope in (each for each in each_of if each[1].id in with_gaps):
        for name in (name for name, place in places.items() if _meets(place, scope)):
            found[name, role].append(f"{info.kind} {info.location}")
    return dict(found)


def _cut_for(
    place: Location, decides: Mapping[Location, str], cuts: Mapping[str, SnapshotWindow]
) -> SnapshotWindow | None:
    """Return the window of the longest covered place around the table, else the oldest of those inside."""
    return min(
        (cuts[source] for source in _deciding_for(place, decides)), key=lambda cut: cut.start, default=None
    )


def _deciding_for(place: Location, decides: Mapping[Location, str]) -> list[str]:
    """Return the source of the longest covered place around the table, else those of the places inside."""
    around = label_around(decides, place)
    if around is not None:
        return [around]
    return [source for cover, source in decides.items() if place.holds(cover.bucket, cover.key)]


def _outdated(
    places: Mapping[str, Location],
    decides: Mapping[Location, str],
    storage: Iterable[Stored],
    as_of: datetime,
) -> dict[str, str]:
    """Return by table why its storage snapshot is too old; one of several places is enough."""
    old = {source.info.id: why for source in storage if (why := _too_old(source.info, as_of))}
    if not old:
        return {}
    found = {name: [old[each] for each in _deciding_for(place, decides) if each in old]
             for name, place in places.items()}  # fmt: skip
    return {name: reasons[0] for name, reasons in found.items() if reasons}


def _too_old(source: SourceInfo, as_of: datetime) -> str:
    """Return in words that a snapshot is older than its source allows; empty: it is not. The text names no age."""
    if source.cut is None or source.max_age is None or as_of - source.cut.start <= source.max_age:
        return ""
    limit = duration(source.max_age)
    return (
        f"{OUTDATED}: {source.location} has no snapshot after {second(source.cut.start)} (max_age: {limit})"
    )


def _meets(place: Location, scope: Sequence[Location]) -> bool:
    if not scope:
        return True
    return any(each.contains(place) or place.contains(each) for each in scope)
