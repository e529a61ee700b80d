"""Means: which storage cut and which metadata store speak for each table."""

from collections.abc import Sequence

from lakeaudit.compare.coverage import Means
from lakeaudit.compare.match import Evidence, deciding_places
from lakeaudit.compare.table_facts import TableFacts
from lakeaudit.config import S3Guard
from lakeaudit.evidence.protocol import Cut
from lakeaudit.keys import Location


def means(
    evidence: Evidence, tables: Sequence[TableFacts], metastores: Sequence[S3Guard], holed: set[str]
) -> Means:
    """What there is to judge these tables with; `metastores` are those of the lake file, readable or not."""
    cuts = {source.info.id: source.info.cut for source in evidence.storage}
    decides = deciding_places(evidence.storage)
    places = {fact.table.name: fact.table.location for fact in tables}
    of_storage = {name: _cut_for(place, decides, cuts) for name, place in places.items()}
    configured = [[store.location] if store.location else [] for store in metastores]
    return Means(
        storage_cuts={name: cut for name, cut in of_storage.items() if cut is not None},
        metastore_cuts={
            name: cuts_of for name, place in places.items() if (cuts_of := _metastore_cuts(place, evidence))
        },
        metastores_wanted=frozenset(
            name for name, place in places.items() if any(_meets(place, scope) for scope in configured)
        ),
        holed_sources=tuple(sorted(holed)),
        reasons={} if evidence.storage else {"storage": "no storage source could be read"},
    )


def _metastore_cuts(place: Location, evidence: Evidence) -> tuple[Cut, ...]:
    """Of the stores that could be read and speak for the place."""
    return tuple(
        store.info.cut for store in evidence.metastores if store.info.cut and _meets(place, store.scope)
    )


def _cut_for(place: Location, decides: dict[Location, str], cuts: dict[str, Cut | None]) -> Cut | None:
    """The cut of the longest covered place around the table, else of one inside it."""
    around = [cover for cover in decides if cover == place or cover.holds(place.bucket, place.key)]
    inside = [cover for cover in decides if place.holds(cover.bucket, cover.key)]
    chosen = max(around, key=lambda cover: cover.depth, default=next(iter(inside), None))
    return cuts[decides[chosen]] if chosen is not None else None


def _meets(place: Location, scope: Sequence[Location]) -> bool:
    if not scope:
        return True
    return any(s == place or s.holds(place.bucket, place.key) or place.holds(s.bucket, s.key) for s in scope)
