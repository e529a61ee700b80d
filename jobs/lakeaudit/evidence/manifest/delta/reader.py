"""Read Delta tables: the claims of a table's own log about every file that it listed, lists, or removed.

All Delta tables of a lake are read together: logs are listed on the driver, commits are read at once and buffered,
large checkpoints are read in the tasks that group them. Only protocol, metadata and vacuum records (a few rows a table)
come to the driver. The reader knows nothing of storage: other code decides whether to assume an unlogged VACUUM.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.delta.log import paths
from lakeaudit.evidence.manifest.delta.log.layout import SIDECARS, needed_files
from lakeaudit.evidence.manifest.delta.log.listing import list_logs
from lakeaudit.evidence.manifest.delta.log.metadata import (
    NO_ACTION,
    Meta,
    NotReadable,
    check_protocol,
    understand,
    vacuum_retention,
)
from lakeaudit.evidence.manifest.delta.state import replay
from lakeaudit.evidence.manifest.delta.state.log_gaps import (
    ALL_KNOWN,
    evidence_gaps,
    last_unknown_version,
    nothing_left,
    warnings,
)
from lakeaudit.evidence.manifest.delta.state.notes import gap_of
from lakeaudit.evidence.manifest.delta.state.readings import Reading, before, read_commits, read_logs
from lakeaudit.evidence.manifest.delta.state.troubles import Vacuum
from lakeaudit.evidence.manifest.delta.witnesses.checkpoint_check import CheckpointComparison, expected_files
from lakeaudit.evidence.manifest.delta.witnesses.commits import commit_logs
from lakeaudit.evidence.manifest.delta.witnesses.contradictions import contradictions, known_tables
from lakeaudit.evidence.manifest.delta.witnesses.lineage import missing_of, state_of, witnesses
from lakeaudit.evidence.manifest.delta.witnesses.respelled import RespelledFiles
from lakeaudit.evidence.manifest.table_states import identity_of
from lakeaudit.evidence.protocol import (
    Changes,
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
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import RECENT_COMMIT, plain_time


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """Return the claims of all these tables, in their newest state at `ctx.as_of`, or now if the run is live.

    A table whose log cannot be interpreted is refused with one line in its `TableState`; the others continue.
    """
    begun = clock()
    promised = {
        table.name: max(table.settings.retention, table.settings.leftover_age, table.settings.max_upload)
        for table in tables
    }
    readings = read_logs(list_logs(tables, ctx, clock), ctx, source_id, clock, promised)
    metas, refusals = _metas(readings.tables)
    rows = [_table_row(r, metas[r.listed.name]) for r in readings.tables if r.listed.name in metas]
    states = {r.listed.name: _state(r, metas.get(r.listed.name), refusals) for r in readings.tables}
    constants = duck.small(replay.TABLE, rows)
    whole = known_tables(constants, frozenset(name for name, state in states.items() if state.complete))
    checkpoints = CheckpointComparison(readings, ctx, source_id)
    graces = {table.name: table.settings.grace for table in tables} if ctx.live else None
    return Claims(
        info=_info(
            source_id,
            tables,
            readings.tables,
            SnapshotWindow(begun, clock()) if ctx.live else SnapshotWindow(ctx.as_of, ctx.as_of),
        ),
        rows=(*readings.kept, readings.late),
        fold=partial(replay.claims, constants, source_id),
        states=states,
        holes=tuple(hole for reading in readings.tables for hole in _evidence_gaps(reading, source_id, ctx)),
        warnings=tuple(line for reading in readings.tables for line in warnings(reading)),
        traces={paths.KIND: partial(replay.fingerprints, constants.select(replay.FINGERPRINT_COLUMNS))},
        gap_of=gap_of,
        commits=commit_logs(readings.tables),
        contradictions=partial(contradictions, whole),
        respelled=RespelledFiles(readings, ctx, constants, whole).idle_removals,
        rows_of=readings.rows_of,
        expected_files=expected_files(readings.tables),
        recount=checkpoints.witness,
        repeated_entries=checkpoints.mixed,
        witnesses=(
            *witnesses(readings.tables, ctx.last_states, ctx.clients, graces),
            *checkpoints.witnesses(),
        ),
        recent=duck.small(RECENT_COMMIT, [row for reading in readings.tables for row in _recent(reading)]),
    )


def _recent(reading: Reading) -> Iterator[tuple[Any, ...]]:
    for each in reading.recent:
        named = (each.version, str(each.version), plain_time(each.at), each.operation)
        yield reading.listed.name, "delta", *named, each.added, each.removed


def changes(claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now) -> Changes:
    """Return the changes by commits after the judged state; uncertain if a table's newer commits cannot all be read."""
    judged = {name: state.version for name, state in claims.states.items() if state.version is not None}
    listed = list_logs([table for table in tables if table.name in judged], ctx, clock, judged)
    readings, steps = read_commits([(one, judged[one.name]) for one in listed], ctx, claims.info.id)
    uncertain = {
        r.listed.name: why for r in readings if (why := _why_uncertain(r, judged[r.listed.name])) is not None
    }
    sure = [reading for reading in readings if reading.listed.name not in uncertain]
    metas = {name: Meta(state.retention or timedelta(0)) for name, state in claims.states.items()}
    known = duck.small(replay.TABLE, [_table_row(r, metas[r.listed.name]) for r in sure])
    with task_connection() as con:
        return Changes(replay.newest(con, steps, known), uncertain)


def _why_uncertain(reading: Reading, judged: int) -> str | None:
    if reading.refused is not None or reading.listed.log is None:
        return reading.refused or "its log cannot be listed"
    newest, newer = reading.log.newest, [*reading.plan.commits.runs()] if reading.plan else []
    if newest is None or newest < judged:
        return f"its newest version is {newest} now, and was {judged}"
    if newer != ([(judged + 1, newest)] if newest > judged else []):
        return f"some commits from {judged + 1} to {newest} are missing"
    if reading.torn or reading.undecodable:
        return "a commit since then cannot be understood"
    try:
        check_protocol(reading.state.get("protocol", '{"minReaderVersion": 1}'))
    except NotReadable as error:
        return str(error)
    except NO_ACTION:
        return "its protocol cannot be understood"
    return None


def _metas(readings: Iterable[Reading]) -> tuple[dict[str, Meta], dict[str, str]]:
    """Interpret each table's newest metadata, and collect the tables whose metadata this reader must refuse."""
    metas, refused = {}, {}
    for reading in readings:
        name = reading.listed.name
        if reading.refused is not None or reading.plan is None:
            continue
        try:
            metas[name] = understand(reading.state.get("protocol"), reading.state.get("metaData"))
        except (NotReadable, *NO_ACTION) as error:
            why = (
                str(error)
                if isinstance(error, NotReadable)
                else "its protocol and metaData cannot be understood"
            )
            refused[name] = f"{reading.listed.location.uri}: {why}"
    return metas, refused


def _table_row(reading: Reading, meta: Meta) -> tuple[Any, ...]:
    listed, plan = reading.listed, reading.plan
    if plan is None:
        raise ValueError(f"{listed.name} has no state")
    return (
        *(listed.name, reading.number, plan.newest, plan.base_version, last_unknown_version(reading)),
        *(
            plain_time(_horizon(reading)),
            plain_time(before(listed.read_at, meta.retention)),
            meta.in_commit_times_from,
        ),
        [{"physical": physical, "logical": logical} for physical, logical in meta.columns],
        [{"version": run.version, "cutoff": plain_time(_cutoff(run, meta))} for run in reading.vacuums],
        *(listed.location.bucket, listed.location.prefix),
    )


def _cutoff(run: Vacuum, meta: Meta) -> datetime:
    """Return until when the files that a vacuum deleted were removed, by its file's time, not by its writer's clock."""
    at, retention = (
        run.time + timedelta(seconds=1),
        meta.retention,
    )  # stores give times in whole seconds: earlier
    with suppress(*NO_ACTION):
        retention = vacuum_retention(run.text, meta.retention)
    return before(at, retention)


def _horizon(reading: Reading) -> datetime | None:
    plan = reading.plan
    whole = plan is not None and (plan.base is not None or 0 in reading.log.commits)
    return reading.log.time_of(plan.base) if whole and plan else None


def _state(reading: Reading, meta: Meta | None, refusals: Mapping[str, str]) -> TableState:
    name, read_at = reading.listed.name, reading.listed.read_at
    if meta is None or reading.plan is None:
        no_state = f"{reading.log.folder.uri}: no state can be rebuilt from what is left of the log"
        refused = reading.refused or refusals.get(name) or no_state
        missing = missing_of(reading, refused)
        return TableState(
            name, read_at, None, refused=refused, complete=False, roots=reading.roots, missing=missing
        )
    whole = last_unknown_version(reading) == ALL_KNOWN and not reading.undecodable
    return TableState(
        name,
        read_at,
        _horizon(reading),
        reading.plan.newest,
        meta.retention,
        complete=whole,
        roots=reading.roots,
        log_since=reading.log.since,
        archived_after=meta.archived_after,
        state=state_of(reading),
        needed_log=partial(_needed_log, reading),
    )


def _needed_log(reading: Reading) -> Iterator[NeededFile]:
    """Yield the files that readers of the newest state need, with the sidecars of its checkpoint if they are known."""
    yield from needed_files(reading.log, frozenset(reading.broken))
    content = reading.newest_checkpoint or reading.base_content
    files = content.files if content else [each.file for each in reading.checkpoint]
    folder = reading.log.folder.join(SIDECARS)
    yield from (
        NeededFile(each.place, each.size, each.modified_at) for each in files if folder.holds(*each.place)
    )


def _evidence_gaps(reading: Reading, source: str, ctx: Context) -> list[EvidenceGap]:
    if reading.refused is not None or reading.listed.log is None:
        return []
    if reading.plan is None:
        return nothing_left(reading, source, ctx.clients)
    return evidence_gaps(reading, source)


def _info(
    source: str, tables: Sequence[Table], readings: Iterable[Reading], cut: SnapshotWindow
) -> SourceInfo:
    plans = ((reading.listed.name, reading.plan) for reading in readings)
    identity = identity_of(
        f"{name}@{plan.newest} {plan.digest()}" if plan else f"{name}@None" for name, plan in plans
    )
    location = tables[0].location.uri if len(tables) == 1 else f"{len(tables)} tables"
    return SourceInfo(source, "manifest", "delta", location, identity, cut)
