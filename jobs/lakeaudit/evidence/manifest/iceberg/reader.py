"""Read Iceberg tables: the claims of a table's own metadata about files that a retained snapshot lists, or removed.

All Iceberg tables of a lake are read together: metadata is located and read on the driver, lists of manifests and
manifests in tasks, once, and their rows are buffered. The driver holds a row for each snapshot and manifest, and none
for files.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.lineage import Witness
from lakeaudit.evidence.manifest.iceberg.current.discover import find
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import LocatedMetadata
from lakeaudit.evidence.manifest.iceberg.state import fold
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of
from lakeaudit.evidence.manifest.iceberg.state.metadata_gaps import (
    evidence_gaps,
    leftovers_kept,
    warnings,
    without_current,
)
from lakeaudit.evidence.manifest.iceberg.state.readings import Reading, TableReading, read_tables
from lakeaudit.evidence.manifest.iceberg.state.rows import KIND
from lakeaudit.evidence.manifest.iceberg.witnesses.lineage import state_of, witnesses
from lakeaudit.evidence.manifest.iceberg.witnesses.lost_states import lost_content
from lakeaudit.evidence.manifest.iceberg.witnesses.replaced_states import replaced_state
from lakeaudit.evidence.manifest.iceberg.witnesses.snapshot_claims import of_snapshots
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
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import RECENT_COMMIT, plain_time


@dataclass(frozen=True)
class IcebergClaims(Claims):
    """Claims, with the reading to compare with newer states."""

    reading: Reading = field(kw_only=True)


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """Return the claims of all these tables, in their newest state at `ctx.as_of`, or now if the run is live.

    A table whose metadata cannot be interpreted is refused with one line in its `TableState`; the others continue.
    """
    begun = clock()
    found = find(tables, ctx.clients, None if ctx.live else ctx.as_of, clock)
    reading = read_tables(found, ctx, source_id, clock)
    gaps = tuple(gap for each in reading.tables for gap in evidence_gaps(each, source_id))
    constants = duck.small(fold.TABLE, [_table_row(each) for each in reading.tables])
    cut = SnapshotWindow(begun, clock()) if ctx.live else SnapshotWindow(ctx.as_of, ctx.as_of)
    all_found = [*(each.found for each in reading.tables), *reading.refused]
    return IcebergClaims(
        info=_info(source_id, all_found, cut),
        rows=reading.kept,
        fold=partial(fold.claims, constants, source_id),
        states={
            state.table: state
            for state in (*_states(reading, gaps, ctx.clients.names), *reading.refused_states)
        },
        holes=gaps,
        warnings=tuple(line for each in reading.tables for line in warnings(each)),
        traces={KIND: partial(fold.fingerprints, constants)},
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
        counts = (_files(each.summary, what) for what in ("added", "deleted"))
        yield read.name, "iceberg", each.id, str(each.id), plain_time(each.at), operation, *counts


def _files(summary: Mapping[str, str], what: str) -> int | None:
    """Return a count of a summary: writers leave zeros out (Iceberg, `SnapshotSummary`), but not the total."""
    count = summary.get(f"{what}-data-files", "0" if "total-data-files" in summary else "")
    return int(count) if count.isascii() and count.isdigit() and len(count) < 19 else None


def _table_row(read: TableReading) -> tuple[Any, ...]:
    location = read.found.table.location
    return read.name, read.number, read.metadata.current, location.bucket, location.prefix


def _states(reading: Reading, gaps: Iterable[EvidenceGap], aliases: Aliases) -> Iterator[TableState]:
    with_gaps = {gap.table for gap in gaps}
    for each in reading.tables:
        yield TableState(
            each.name,
            each.found.read_at,
            each.metadata.horizon,
            each.metadata.current,
            complete=each.name not in with_gaps,
            roots=tuple(_roots(each, aliases)),
            leftovers_kept=leftovers_kept(each),
            state=state_of(each.found),
            remark=without_current(each),
        )


_PLACES = ("write.data.path", "write.folder-storage.path", "write.object-storage.path", "write.metadata.path")
"""Properties that name other places of a table's files."""


def _roots(read: TableReading, aliases: Aliases) -> Iterator[Location]:
    """Yield the places of the table's files outside its location, by its properties."""
    for name in _PLACES:
        place = place_of(read.metadata.properties.get(name, ""), aliases)
        root = None if place is None else Location(place.bucket, place.key.rstrip("/"))
        if root is not None and not read.found.table.location.contains(root):
            yield root


def _info(source: str, found: Sequence[LocatedMetadata], cut: SnapshotWindow) -> SourceInfo:
    identity = identity_of(f"{each.table.name}@{each.identity}" for each in found)
    return SourceInfo(source, "manifest", "iceberg", _location_text(found), identity, cut)


def _location_text(found: Sequence[LocatedMetadata]) -> str:
    if len(found) == 1:
        return (found[0].file.place if found[0].file else found[0].table.location).uri
    newest = "" if all(each.named for each in found) else ", by their newest metadata.json"
    return f"{len(found)} tables{newest}"
