"""Read Hudi tables: the claims of a table's timeline about every file that it wrote, replaced or removed.

All Hudi tables of a lake are read together: timelines are listed on the driver, instants and archives are read in
tasks, which group the changes by file group. The driver holds a row for each instant, and none for files.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import stat
from lakeaudit.evidence.lineage import Witness
from lakeaudit.evidence.manifest.hudi.state import fold
from lakeaudit.evidence.manifest.hudi.state.gaps import (
    archived_state,
    evidence_gaps,
    leftovers_kept,
    removals_known,
    warnings,
)
from lakeaudit.evidence.manifest.hudi.state.readings import Reading, TableReading, read_tables
from lakeaudit.evidence.manifest.hudi.state.rows import FILES
from lakeaudit.evidence.manifest.hudi.timeline.instants import (
    COMPLETED,
    FOLDER,
    PROPERTIES,
    LocatedTimeline,
    find,
)
from lakeaudit.evidence.manifest.hudi.witnesses.contradictions import rival_overwrites
from lakeaudit.evidence.manifest.hudi.witnesses.lineage import (
    lost_content,
    of_data_files,
    replaced_state,
    state_of,
    witnesses,
)
from lakeaudit.evidence.manifest.hudi.witnesses.listed_slices import listed_slices
from lakeaudit.evidence.manifest.hudi.witnesses.remaining_files import with_remaining_files
from lakeaudit.evidence.manifest.hudi.witnesses.repeated_appends import repeated_appends
from lakeaudit.evidence.manifest.table_states import identity_of
from lakeaudit.evidence.protocol import (
    RECENT,
    Claims,
    Clock,
    Context,
    EvidenceGap,
    NeededFile,
    SnapshotWindow,
    SourceInfo,
    TableState,
    utc_now,
)
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import RECENT_COMMIT, plain_time


@dataclass(frozen=True)
class HudiClaims(Claims):
    """Claims, with the reading to compare with newer states."""

    reading: Reading = field(kw_only=True)


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """Return the claims of all these tables, in their newest state at `ctx.as_of`, or now if the run is live.

    A table whose timeline cannot be interpreted is refused with one line in its `TableState`; the others continue.
    """
    begun = clock()
    found = find(tables, ctx.clients, None if ctx.live else ctx.as_of, clock)
    reading = read_tables(found, ctx, source_id, clock)
    gaps = tuple(gap for each in reading.tables for gap in evidence_gaps(each, source_id))
    constants = duck.small(fold.TABLE, [_table_row(each) for each in reading.tables])
    cut = SnapshotWindow(begun, clock()) if ctx.live else SnapshotWindow(ctx.as_of, ctx.as_of)
    return HudiClaims(
        info=_info(source_id, [*(each.found for each in reading.tables), *reading.refused], cut),
        rows=reading.kept,
        fold=partial(fold.claims, constants, source_id),
        states={
            state.table: state for state in (*_states(reading, gaps, ctx.clients), *reading.refused_states)
        },
        holes=gaps,
        warnings=tuple(line for each in reading.tables for line in warnings(each)),
        traces={FILES: partial(fold.fingerprints, constants)},
        recent=duck.small(RECENT_COMMIT, [row for each in reading.tables for row in _recent(each)]),
        witnesses=(
            *with_remaining_files(reading, ctx, _of_timelines(reading, ctx)),
            *repeated_appends(reading, ctx),
            *rival_overwrites(reading, ctx),
            *(one for each in reading.tables for one in each.broken),
        ),
        lost_content=lost_content,
        replaced_state=replaced_state,
        listed_slices=partial(listed_slices, reading, ctx.engine),
        unlisted=partial(of_data_files, reading.tables) if ctx.live else None,
        reading=reading,
    )


def _of_timelines(reading: Reading, ctx: Context) -> tuple[Witness, ...]:
    return witnesses(reading.tables, ctx.last_states, ctx.clients, live=ctx.live)


def _recent(read: TableReading) -> Iterator[tuple[Any, ...]]:
    """Yield the newest completed instants, without archived ones."""
    done = [each for each in read.found.instants if each.state == COMPLETED and each.begin.isdigit()]
    for each in sorted(done, key=lambda each: each.begin)[-RECENT:]:
        named = (int(each.begin), each.begin, plain_time(each.at), each.action)
        yield read.name, "hudi", *named, *read.did.get(each.begin, (None, None))


def _table_row(read: TableReading) -> tuple[Any, ...]:
    return read.name, read.number, read.found.newest, read.config.encoded, removals_known(read)


def _states(reading: Reading, gaps: Iterable[EvidenceGap], clients: Clients) -> Iterator[TableState]:
    with_gaps = {gap.table for gap in gaps}
    for each in reading.tables:
        missing = archived_state(each)
        yield TableState(
            each.name,
            each.found.read_at,
            each.since,
            each.found.newest,
            complete=each.name not in with_gaps,
            began_at=each.found.began_at,
            leftovers_kept=leftovers_kept(each),
            needed_log=partial(_needed_files, each.found, clients),
            state=None if missing else state_of(each),
            missing=missing.cause if missing else "",
            missing_state=missing,
            changed_at=max((one.file.modified_at for one in each.found.instants), default=None),
            committed_names=each.found.committed_names,
            taken_back=frozenset(int(instant) for instant in each.fate.taken_back),
        )


def _needed_files(found: LocatedTimeline, clients: Clients) -> Iterator[NeededFile]:
    """Yield the newest completed instant and the properties, without which no reader opens the table.

    Older instants may be archived, which moves them out of the timeline. The properties cost a request, only if a
    lifecycle rule covers the table; if the store refuses it, they are left out.
    """
    try:
        properties = stat(clients, found.table.location.join(FOLDER, PROPERTIES[0]))
    except SourceError:
        properties = None
    if properties is not None:
        yield NeededFile(properties.place, properties.size, properties.modified_at)
    done = [each for each in found.instants if each.state == COMPLETED]
    for each in sorted(done, key=lambda each: each.begin)[-1:]:
        yield NeededFile(each.file.place, each.file.size, each.file.modified_at)


def _info(source: str, found: Sequence[LocatedTimeline], cut: SnapshotWindow) -> SourceInfo:
    alone = found[0].table.location.join(FOLDER).uri if len(found) == 1 else f"{len(found)} tables"
    identity = identity_of(f"{each.table.name}@{each.identity}" for each in found)
    return SourceInfo(source, "manifest", "hudi", alone, identity, cut)
