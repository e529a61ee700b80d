"""Means: which storage cut and which metadata store speak for each table."""

from collections.abc import Sequence

from lakeaudit.compare.coverage import Means
from lakeaudit.compare.match import Evidence, deciding_places
from lakeaudit.compare.tables import TableFacts
from lakeaudit.evidence.protocol import Cut
from lakeaudit.keys import Location


def means(evidence: Evidence, tables: Sequence[TableFacts], holed: set[str]) -> Means:
    """What there is to judge these tables with."""
    cuts = {source.info.id: source.info.cut for source in evidence.storage}
    decides = deciding_places(evidence.storage)
    found = {fact.table.name: _cut_for(fact.table.location, decides, cuts) for fact in tables}
    scopes = [store.scope for store in evidence.metastores]
    return Means(
        storage_cuts={name: (cut.start, cut.end) for name, cut in found.items() if cut is not None},
        metastore_tables=frozenset(
            f.table.name for f in tables if any(_meets(f.table.location, s) for s in scopes)
        ),
        holed_sources=tuple(sorted(holed)),
        reasons={} if evidence.storage else {"storage": "no storage source could be read"},
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
