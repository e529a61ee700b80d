"""The claims of what another place holds: it is read by the readers of storage, in tasks, and renamed there by `maps`.

A place that cannot be read refuses its tables; an object or a part of it that cannot is a hole of theirs.
"""

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import cast

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.another_place import ElsewhereManifest, InventoryManifest, originals
from lakeaudit.evidence.manifest.another_place.originals import KIND, TABLES, Make
from lakeaudit.evidence.manifest.file_list.fold import CHANGED
from lakeaudit.evidence.protocol import (
    Batches,
    Changes,
    Claims,
    Clock,
    Context,
    EvidenceGap,
    Part,
    Project,
    SnapshotWindow,
    SourceInfo,
    Stored,
    TableState,
    utc_now,
)
from lakeaudit.evidence.storage.inventory import reader as inventory
from lakeaudit.evidence.storage.listing import reader as listing
from lakeaudit.keys import Location, origins
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, DuckError, Rows
from lakeaudit.schemas import plain_time

_ANY_AGE = timedelta(days=36500)
"""How old the picture of a place may be that nobody writes to any more."""


@dataclass(frozen=True)
class _Report:
    """An inventory of any age, as `storage.inventory` is told of it; what it claims is as old as the objects."""

    location: Location
    covers: Sequence[Location] | None
    max_age: timedelta | None = _ANY_AGE
    margin: timedelta | None = timedelta(0)


@dataclass(frozen=True)
class _Picture:
    """One other place as it was read, or why it could not be; and the tables that are copies of parts of it."""

    manifest: ElsewhereManifest
    tables: Sequence[Table]
    stored: Stored | None
    refused: str = ""

    def refusal(self, table: Table, ctx: Context) -> str | None:
        """Why it says nothing of a table; None: it does."""
        if self.stored is None:
            return self.refused
        places = origins(ctx.clients.maps, table.location)
        missing = [place for place in places if not any(each.contains(place) for each in self.stored.covers)]
        if places and not missing:
            return None
        told = ", ".join(place.uri for place in missing) or "any place that maps bring here"
        return f"{self.manifest.location.uri} does not cover {told}"


def read(kind: str, tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """The claims of all tables with a manifest of this kind: each other place is read once."""
    start = clock()
    pictures = [
        _picture(manifest, of, ctx, source_id, clock) for manifest, of in _places(kind, tables).items()
    ]
    read_ones = [each.stored for each in pictures if each.stored is not None]
    cuts = [stored.info.cut.start for stored in read_ones if stored.info.cut]
    return Claims(
        info=SourceInfo(
            id=source_id,
            role="manifest",
            kind=kind,
            location=", ".join(each.manifest.location.uri for each in pictures),
            identity=", ".join(stored.info.identity for stored in read_ones) or "unreadable",
            cut=SnapshotWindow(min(cuts, default=start), clock()),
        ),
        rows=tuple(stored.rows for stored in read_ones),
        fold=partial(originals.claims, source=source_id),
        states={table.name: _state(table, pictures, ctx, start) for table in tables},
        holes=tuple(_holes(pictures)),
        warnings=tuple(warning for stored in read_ones for warning in stored.warnings),
        traces={KIND: originals.traces},
    )


def changes(claims: Claims, tables: Sequence[Table], ctx: Context) -> Changes:  # noqa: ARG001 - as every kind's
    """Nothing: what was pictured does not change."""
    return Changes(CHANGED.empty_table())


def manifests_of(table: Table, kind: str) -> list[ElsewhereManifest]:
    """The other places of a kind that a table should be a copy of."""
    return [each for each in table.manifests if isinstance(each, ElsewhereManifest) and each.kind == kind]


def _places(kind: str, tables: Sequence[Table]) -> Mapping[ElsewhereManifest, list[Table]]:
    places: dict[ElsewhereManifest, list[Table]] = defaultdict(list)
    for table in tables:
        for manifest in manifests_of(table, kind):
            # whether a table's claims are whole is its own word, and no matter of reading
            places[manifest.model_copy(update={"complete": False})].append(table)
    return places


def _picture(
    manifest: ElsewhereManifest, tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock
) -> _Picture:
    made_of = partial(_renamed, _renaming(manifest, tables, ctx, source_id))
    try:
        if not isinstance(manifest, InventoryManifest):
            place = manifest.location
            stored = listing.read_place(place, ctx, source_id, clock=clock, made_of=made_of)
        else:
            report = _Report(manifest.location, manifest.covers)
            stored = inventory.read(report, ctx, source_id)
            rows = stored.rows if isinstance(stored.rows, tuple) else ()
            stored = replace(stored, rows=tuple(map(made_of, rows)))
    except SourceError as error:
        return _Picture(manifest, tables, None, str(error))
    return _Picture(manifest, tables, stored)


def _renaming(manifest: ElsewhereManifest, tables: Sequence[Table], ctx: Context, source_id: str) -> Project:
    """What makes ORIGINAL rows of rows of storage; other rows of it tell nothing of a table."""
    if ctx.owned is None:
        raise ValueError("another place is read by who knows which table holds a key")
    homes = duck.small(TABLES, [(table.name, table.location.prefix) for table in tables])
    return partial(
        _originals,
        partial(
            originals.originals,
            maps=ctx.clients.maps,
            owned=ctx.owned,
            tables=homes,
            source=source_id,
            kind=manifest.kind,
            as_of=plain_time(ctx.as_of),
            keep=manifest.keep,
        ),
    )


def _originals(make: Make, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if kind == "versions":
        yield KIND, make(con, rows)
    elif kind == "notes":
        yield kind, rows


def _renamed(project: Project, part: Part) -> Part:
    """The part with what is made of its rows in their place."""
    return replace(part, read=partial(_read, part, project), identity="")


def _read(part: Part, project: Project, con: Connection) -> Batches:
    """Where rows prove to be broken as they are taken, the part itself says what that means."""
    inner = cast("Generator[tuple[str, Rows], None, None]", part.read(con))
    for kind, rows in inner:
        try:
            yield from project(con, kind, rows)
        except (DuckError, OSError) as error:
            yield from project(con, *inner.throw(error))


def _state(table: Table, pictures: Sequence[_Picture], ctx: Context, read_at: datetime) -> TableState:
    mine = [picture for picture in pictures if table in picture.tables]
    refused = next((why for picture in mine if (why := picture.refusal(table, ctx))), None)
    return TableState(table.name, read_at, None, refused=refused)


def _holes(pictures: Sequence[_Picture]) -> Iterator[EvidenceGap]:
    """What of a place could not be read is unknown of every table that it should be copied to."""
    for picture in pictures:
        for hole in picture.stored.holes if picture.stored else ():
            yield from (replace(hole, table=table.name) for table in picture.tables)


read_listing = partial(read, "listing")
read_inventory = partial(read, "s3_inventory")
