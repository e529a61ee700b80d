"""Read the objects of another place as claims, with the readers of storage, in tasks that rename them by `maps`.

Tables of an unreadable place are refused; an unreadable object or part of it is an evidence gap of the tables.
"""

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import cast

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.file_list.fold import CHANGED
from lakeaudit.evidence.manifest.replica_source import InventoryManifest, ReplicaSourceManifest, originals
from lakeaudit.evidence.manifest.replica_source.originals import KIND, TABLES, Make
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
"""How old a report of a place may be that is no longer written to."""


@dataclass(frozen=True)
class _Report:
    """Configures `storage.inventory` for a report of any age; its claims are as old as the objects."""

    location: Location
    covers: Sequence[Location] | None
    max_age: timedelta | None = _ANY_AGE
    margin: timedelta | None = timedelta(0)


@dataclass(frozen=True)
class _ReplicaSource:
    """Holds one other place as it was read, or why it could not be, and the tables that copy parts of it."""

    manifest: ReplicaSourceManifest
    tables: Sequence[Table]
    stored: Stored | None
    refused: str = ""

    def refusal(self, table: Table, ctx: Context) -> str | None:
        """Return why it has no claims for a table; None if it has."""
        if self.stored is None:
            return self.refused
        places = origins(ctx.clients.maps, table.location)
        missing = [place for place in places if not any(each.contains(place) for each in self.stored.covers)]
        if places and not missing:
            return None
        uncovered = ", ".join(place.uri for place in missing) or "any place that maps bring here"
        return f"{self.manifest.location.uri} does not cover {uncovered}"


def read(kind: str, tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """Return the claims of all tables with a manifest of this kind: each other place is read once."""
    start = clock()
    sources = [
        _read_source(manifest, of, ctx, source_id, clock) for manifest, of in _places(kind, tables).items()
    ]
    read_ones = [each.stored for each in sources if each.stored is not None]
    cuts = [stored.info.cut.start for stored in read_ones if stored.info.cut]
    return Claims(
        info=SourceInfo(
            id=source_id,
            role="manifest",
            kind=kind,
            location=", ".join(each.manifest.location.uri for each in sources),
            identity=", ".join(stored.info.identity for stored in read_ones) or "unreadable",
            cut=SnapshotWindow(min(cuts, default=start), clock()),
        ),
        rows=tuple(stored.rows for stored in read_ones),
        fold=partial(originals.claims, source=source_id),
        states={table.name: _state(table, sources, ctx, start) for table in tables},
        holes=tuple(_evidence_gaps(sources)),
        warnings=tuple(warning for stored in read_ones for warning in stored.warnings),
        traces={KIND: originals.fingerprints},
    )


def changes(claims: Claims, tables: Sequence[Table], ctx: Context) -> Changes:  # noqa: ARG001 - as in every kind
    """Return no changes: the objects are compared as they were read."""
    return Changes(CHANGED.empty_table())


def manifests_of(table: Table, kind: str) -> list[ReplicaSourceManifest]:
    """Return the other places of a kind that a table should copy."""
    return [each for each in table.manifests if isinstance(each, ReplicaSourceManifest) and each.kind == kind]


def _places(kind: str, tables: Sequence[Table]) -> Mapping[ReplicaSourceManifest, list[Table]]:
    places: dict[ReplicaSourceManifest, list[Table]] = defaultdict(list)
    for table in tables:
        for manifest in manifests_of(table, kind):
            # `complete` is set for each table, and does not matter for reading
            places[manifest.model_copy(update={"complete": False})].append(table)
    return places


def _read_source(
    manifest: ReplicaSourceManifest, tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock
) -> _ReplicaSource:
    made_of = partial(_with_projection, _projection(manifest, tables, ctx, source_id))
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
        return _ReplicaSource(manifest, tables, None, str(error))
    return _ReplicaSource(manifest, tables, stored)


def _projection(
    manifest: ReplicaSourceManifest, tables: Sequence[Table], ctx: Context, source_id: str
) -> Project:
    """Return the projection from rows of storage to ORIGINAL rows; other rows of storage are left out."""
    if ctx.owned is None:
        raise ValueError("another place can only be read with the owners of keys")
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


def _with_projection(project: Project, part: Part) -> Part:
    """Return the part with a projection of its rows."""
    return replace(part, read=partial(_read, part, project), identity="")


def _read(part: Part, project: Project, con: Connection) -> Batches:
    """Read a part; if its rows prove to be broken as they are read, the part itself reports the problem."""
    inner = cast("Generator[tuple[str, Rows], None, None]", part.read(con))
    for kind, rows in inner:
        try:
            yield from project(con, kind, rows)
        except (DuckError, OSError) as error:
            yield from project(con, *inner.throw(error))


def _state(table: Table, sources: Sequence[_ReplicaSource], ctx: Context, read_at: datetime) -> TableState:
    mine = [source for source in sources if table in source.tables]
    refused = next((why for source in mine if (why := source.refusal(table, ctx))), None)
    return TableState(table.name, read_at, None, refused=refused)


def _evidence_gaps(sources: Sequence[_ReplicaSource]) -> Iterator[EvidenceGap]:
    """Yield the gaps of each place for every table that copies it."""
    for source in sources:
        for hole in source.stored.holes if source.stored else ():
            yield from (replace(hole, table=table.name) for table in source.tables)


read_listing = partial(read, "listing")
read_inventory = partial(read, "s3_inventory")
