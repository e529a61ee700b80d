"""The Iceberg reader: what a table's own metadata says of every file that a retained snapshot lists, or has removed.

All Iceberg tables of a lake are read together: metadata is found and read on the driver, lists of manifests in tasks,
manifests in tasks as well, once, and their rows are held. The driver holds a row a snapshot and a manifest, and none
a file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.lineage import Witness
from lakeaudit.evidence.manifest.iceberg import fold
from lakeaudit.evidence.manifest.iceberg.discover import find
from lakeaudit.evidence.manifest.iceberg.found import Found
from lakeaudit.evidence.manifest.iceberg.lineage import state_of, witnesses
from lakeaudit.evidence.manifest.iceberg.lists import place_of
from lakeaudit.evidence.manifest.iceberg.lost_states import lost_content
from lakeaudit.evidence.manifest.iceberg.metadata_gaps import holes, leftovers_kept, warnings, without_current
from lakeaudit.evidence.manifest.iceberg.readings import Reading, TableReading, read_tables
from lakeaudit.evidence.manifest.iceberg.replaced_states import replaced_state
from lakeaudit.evidence.manifest.iceberg.rows import KIND
from lakeaudit.evidence.manifest.iceberg.snapshot_claims import of_snapshots
from lakeaudit.evidence.manifest.table_states import identity_of
from lakeaudit.evidence.protocol import (
    RECENT,
    Claims,
    Clock,
    Context,
    EvidenceGap,
    SnapshotWindow,
    SourceInfo,
    TableState,
    utc_now,
)
from lakeaudit.keys import Aliases, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients
from lakeaudit.schemas import RECENT_COMMIT, plain_time


@dataclass(frozen=True)
class IcebergClaims(Claims):
    """Claims, with the reading that newer states are held against."""

    reading: Reading = field(kw_only=True)


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """The claims of all these tables, in their newest state at `ctx.as_of`, or now when the run is live.

    A table whose metadata cannot be interpreted is refused with one line in its `TableState`; the others go on.
    """
    begun = clock()
    found = find(tables, ctx.clients, None if ctx.live else ctx.as_of, clock)
    reading = read_tables(found, ctx, source_id, clock)
    named = tuple(hole for each in reading.tables for hole in holes(each, source_id))
    constants = duck.small(fold.TABLE, [_table_row(each) for each in reading.tables])
    cut = SnapshotWindow(begun, clock()) if ctx.live else SnapshotWindow(ctx.as_of, ctx.as_of)
    all_found = [*(each.found for each in reading.tables), *reading.refused]
    return IcebergClaims(
        info=_info(source_id, all_found, cut),
        rows=reading.kept,
        fold=partial(fold.claims, constants, source_id),
        states={
            state.table: state
            for state in (*_states(reading, named, ctx.clients.names), *reading.refused_states)
        },
        holes=named,
        warnings=tuple(line for each in reading.tables for line in warnings(each)),
        traces={KIND: partial(fold.traces, constants)},
        recent=duck.small(RECENT_COMMIT, [row for each in reading.tables for row in _recent(each)]),
        witnesses=(
            *witnesses(all_found, ctx.last_states, ctx.clients, live=ctx.live),
            *(one for each in reading.tables for one in of_snapshots(each, ctx.clients)),
        ),
        lost_content=lost_content,
        replaced_state=partial(_replaced_state, {each.name: each for each in reading.tables}),
        reading=reading,
    )


def _replaced_state(
    tables: Mapping[str, TableReading], table: str, place: Location, version: str, clients: Clients
) -> Witness | None:
    return replaced_state(tables[table], place, version, clients) if table in tables else None


def _recent(read: TableReading) -> Iterator[tuple[Any, ...]]:
    known = [each for each in read.metadata.snapshots if 0 <= each.id < 1 << 63]
    for each in sorted(known, key=lambda each: (each.at, each.id))[-RECENT:]:
        operation = each.summary.get("operation", "")[:60] or None
        did = (_files(each.summary, what) for what in ("added", "deleted"))
        yield read.name, "iceberg", each.id, str(each.id), plain_time(each.at), operation, *did


def _files(summary: Mapping[str, str], what: str) -> int | None:
    """Writers leave zeros out of a summary (Iceberg, `SnapshotSummary`), but not the total."""
    told = summary.get(f"{what}-data-files", "0" if "total-data-files" in summary else "")
    return int(told) if told.isascii() and told.isdigit() and len(told) < 19 else None


def _table_row(read: TableReading) -> tuple[Any, ...]:
    location = read.found.table.location
    return read.name, read.number, read.metadata.current, location.bucket, location.prefix


def _states(reading: Reading, named: Iterable[EvidenceGap], aliases: Aliases) -> Iterator[TableState]:
    holed = {hole.table for hole in named}
    for each in reading.tables:
        yield TableState(
            each.name,
            each.found.read_at,
            each.metadata.horizon,
            each.metadata.current,
            complete=each.name not in holed,
            roots=tuple(_roots(each, aliases)),
            leftovers_kept=leftovers_kept(each),
            state=state_of(each.found),
            remark=without_current(each),
        )


_PLACES = ("write.data.path", "write.folder-storage.path", "write.object-storage.path", "write.metadata.path")
"""Properties that name where else files of a table lie."""


def _roots(read: TableReading, aliases: Aliases) -> Iterator[Location]:
    """Where files of the table lie outside of its location, by its properties."""
    for name in _PLACES:
        place = place_of(read.metadata.properties.get(name, ""), aliases)
        root = None if place is None else Location(place.bucket, place.key.rstrip("/"))
        if root is not None and not read.found.table.location.contains(root):
            yield root


def _info(source: str, found: Sequence[Found], cut: SnapshotWindow) -> SourceInfo:
    identity = identity_of(f"{each.table.name}@{each.identity}" for each in found)
    return SourceInfo(source, "manifest", "iceberg", _told(found), identity, cut)


def _told(found: Sequence[Found]) -> str:
    if len(found) == 1:
        return (found[0].file.place if found[0].file else found[0].table.location).uri
    newest = "" if all(each.named for each in found) else ", by their newest metadata.json"
    return f"{len(found)} tables{newest}"
