"""Read the claims of a kind of records: located here, read in tasks at once, and folded as those of `file_list` are.

A record that cannot be understood is an evidence gap of its table. A kind of records is a `RecordKind`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from lakeaudit.config import ManifestSource, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import pinned, stat
from lakeaudit.evidence.lineage import ABSENT, ARCHIVED, TORN, LastStates, MissingState
from lakeaudit.evidence.manifest import list_lineage
from lakeaudit.evidence.manifest.file_list import fold
from lakeaudit.evidence.manifest.file_list.fold import EVENT
from lakeaudit.evidence.manifest.file_list.point_lookup import Answer, fold_one
from lakeaudit.evidence.manifest.file_list.reader import changes_between
from lakeaudit.evidence.manifest.list_lineage import ListedTable
from lakeaudit.evidence.manifest.records.find import LISTERS
from lakeaudit.evidence.manifest.records.read_records import events_of, parts
from lakeaudit.evidence.manifest.records.record import TORN as TORN_WORDS
from lakeaudit.evidence.manifest.records.record import Declared, Record, RecordSet, Search, Understand
from lakeaudit.evidence.manifest.records.totals import totals
from lakeaudit.evidence.protocol import (
    BufferedRows,
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
from lakeaudit.keys import Location, identify
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import ARCHIVED as ARCHIVED_WORDS
from lakeaudit.schemas import plain_time

RECORDS = "records"
_HIDES = "files that it names"


@dataclass(frozen=True)
class RecordKind:
    """Defines a kind of records.

    Attributes:
        model: its settings in the lake file; its `kind` is the kind's name.
        find: locates the records of tables; `storage` of the context may name them.
        find_near: locates the records that could name one key of a table, without the rows of storage.
        understand: parses a record.
        has_totals: records count all files that a job wrote.
        number_of: the number of a record by its name, if readers need all records from the oldest to the newest.
        proves_loss: the newest record is lost if it is missing; else it may have been cleaned up on purpose.
        by_storage: records are found among the rows of storage, so that new ones only show in new rows.
    """

    kind: str
    model: type[ManifestSource]
    find: Callable[[Sequence[Table], Context], Search]
    find_near: Callable[[Table, Clients, str, str], RecordSet]
    understand: Understand
    by_storage: bool = False
    has_totals: bool = False
    number_of: Callable[[str], int | None] | None = None
    proves_loss: bool = False

    def read(self, tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
        """Return the claims of all tables that have such records, as `ManifestKind.read`."""
        return read(self, tables, ctx, source_id, clock)

    def changes(
        self, claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now
    ) -> Changes:
        """Return the changes since they were read, as `ManifestKind.changes`."""
        return changes(self, claims, tables, ctx, clock)

    def look_up(self, table: Table, clients: Clients, bucket: str, key: str) -> Answer:
        """Look up one key in the records, as `ManifestKind.look_up`."""
        return look_up(self, table, clients, bucket, key)


def read(
    kind: RecordKind, tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now
) -> Claims:
    """Return the claims of all tables that have such records. If the run is not live, later ones are left out."""
    start = clock()
    search = kind.find(tables, ctx)
    found = search.found
    records = [record for each in found for record in each.records]
    until = None if ctx.live else plain_time(ctx.as_of)
    kept = ctx.engine.keep(parts(records, kind.understand, ctx.clients, source_id, until))
    summaries = [json.loads(str(note["data"])) for note in kept.notes]
    cut = SnapshotWindow(start, clock()) if ctx.live else SnapshotWindow(ctx.as_of, ctx.as_of)
    rows = sum(each["rows"] for each in summaries)
    named = [each.table.name for each in found]
    identity = pinned((record.file for record in records), RECORDS)
    listed = _listed_tables(kind, found, _oldest(summaries, records))
    lost, unlisted = list_lineage.compare_lists(kind.kind, listed, ctx)
    missing = _missing_states(kind, found, summaries, records, ctx.last_states)
    unread = [each for each in _unread(summaries, records, source_id) if each.table not in missing]
    doubts = {hole.table: hole.reason for hole in unread if hole.table}
    states = _states(kind, found, listed, missing, cut.start)
    info = SourceInfo(source_id, "manifest", kind.kind, _place(found), identity, cut, rows, None)
    return Claims(
        info,
        rows=(kept,),
        fold=partial(
            fold.claims,
            source=source_id,
            left_out=tuple(sorted(name for name, state in states.items() if state.missing)),
            kind=kind.kind,
            alone=kind.model.is_state,
        ),
        states=states,
        holes=(*(hole for each in found for hole in _with_source(each.holes, source_id)),
               *unread),
        warnings=tuple(warning for each in found for warning in each.warnings),
        totals=totals(ctx, kind.kind, kept, search.tagged, named, doubts) if kind.has_totals else None,
        witnesses=lost,
        unlisted=unlisted,
    )  # fmt: skip


def changes(
    kind: RecordKind, claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now
) -> Changes:
    """Return the changes in the records since `claims` were read; none if the records are the same."""
    if _as_read(kind, claims, tables, ctx):
        return Changes(fold.CHANGED.empty_table())
    return changes_between(claims, read(kind, tables, replace(ctx, live=True), claims.info.id, clock))


def _as_read(kind: RecordKind, claims: Claims, tables: Sequence[Table], ctx: Context) -> bool:
    if not kind.by_storage:
        found = kind.find(tables, ctx).found
        files = [record.file for each in found for record in each.records]
        return pinned(files, RECORDS) == claims.info.identity
    (kept,) = claims.rows
    subjects = [str(note["subject"]) for note in cast("BufferedRows", kept).notes]
    places = [Location(*named) for subject in subjects if (named := identify(subject)) is not None]
    with ThreadPoolExecutor(LISTERS) as pool:
        there = [file for file in pool.map(partial(stat, ctx.clients), places) if file is not None]
    return pinned(there, RECORDS) == claims.info.identity


def look_up(kind: RecordKind, table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """Return (answer, history, reason) as `point.LookupResult` holds them."""
    try:
        found = kind.find_near(table, clients, bucket, key)
    except SourceError as error:
        return "unknown", [], str(error)
    if found.refused:
        return "unknown", [], found.refused
    return fold_one(_rows(kind, found.records, clients), bucket, key)


def _rows(kind: RecordKind, records: Sequence[Record], clients: Clients) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(records):
        for each in events_of(record, number, kind.understand, clients):
            if not isinstance(each, Declared):
                yield dict(zip(EVENT, each, strict=True)) | {"list": record.file.place.uri}


def _with_source(holes: Sequence[EvidenceGap], source_id: str) -> Iterator[EvidenceGap]:
    return (replace(hole, source=source_id) for hole in holes)


def _unread(
    summaries: Sequence[Mapping[str, Any]], records: Sequence[Record], source_id: str
) -> Iterator[EvidenceGap]:
    for each in summaries:
        if each["faults"]:
            record, (_, fault) = records[each["list_no"]], each["first"]
            for table in (record.table, *(name for _, name in record.homes)):
                if table:
                    yield EvidenceGap(source_id, fault, record.file.place.uri, table=table, hides=_HIDES)


def _oldest(summaries: Sequence[Mapping[str, Any]], records: Sequence[Record]) -> dict[str, datetime]:
    """Return by table the earliest time in its records."""
    oldest: dict[str, datetime] = {}
    for each in summaries:
        if each["oldest"] is not None and records[each["list_no"]].table:
            name = records[each["list_no"]].table
            at = datetime.fromisoformat(each["oldest"]).replace(tzinfo=UTC)
            oldest[name] = min(at, oldest.get(name, at))
    return oldest


def _listed_tables(
    kind: RecordKind, found: Sequence[RecordSet], oldest: Mapping[str, datetime]
) -> list[ListedTable]:
    """Return the tables as later audits compare them."""
    return [
        ListedTable(
            each.table,
            tuple(record.file for record in each.records),
            max(
                (number for record in each.records if (number := _number(kind, record)) is not None),
                default=None,
            ),
            oldest.get(each.table.name),
            complete=_is_complete(kind, each.table),
            proves=kind.proves_loss,
        )
        for each in found
    ]


def _number(kind: RecordKind, record: Record) -> int | None:
    return None if kind.number_of is None else kind.number_of(record.file.name)


def _is_complete(kind: RecordKind, table: Table) -> bool:
    return all(manifest.complete for manifest in table.manifests if manifest.kind == kind.kind)


def _missing_states(
    kind: RecordKind,
    found: Sequence[RecordSet],
    summaries: Sequence[Mapping[str, Any]],
    records: Sequence[Record],
    last: LastStates,
) -> dict[str, tuple[MissingState, str]]:
    """Return why tables cannot be read by anybody, each with a sentence as the reason.

    A folder without any record proves that only if an audit has read the table before: the lake file may name
    another one, or nothing may be written yet.
    """
    gone = {
        each.table.name: (MissingState(ABSENT, known.state.name or each.empty.uri), each.refused or "")
        for each in found
        if each.empty is not None
        and (known := last.get((kind.kind, each.table.name))) is not None
        and _is_complete(kind, each.table)
    }
    return gone | (_broken_tables(summaries, records) if kind.number_of is not None else {})


def _broken_tables(
    summaries: Sequence[Mapping[str, Any]], records: Sequence[Record]
) -> dict[str, tuple[MissingState, str]]:
    """Return the tables with a record that nobody can read: all records are needed."""
    broken: dict[str, tuple[MissingState, str]] = {}
    for each in summaries:
        record, (_, fault) = records[each["list_no"]], each["first"] or (0, "")
        cause = ARCHIVED if ARCHIVED_WORDS in fault else TORN if fault.startswith(TORN_WORDS) else ""
        if cause:
            uri = record.file.place.uri
            broken[record.table] = (
                MissingState(cause, uri),
                f"{uri} {fault}; query engines need every batch of the log",
            )
    return broken


def _states(
    kind: RecordKind,
    found: Sequence[RecordSet],
    listed: Sequence[ListedTable],
    missing: Mapping[str, tuple[MissingState, str]],
    read_at: datetime,
) -> dict[str, TableState]:
    return {
        each.table.name: _state(kind, each, of, missing.get(each.table.name), read_at)
        for each, of in zip(found, listed, strict=True)
    }


def _state(
    kind: RecordKind,
    found: RecordSet,
    listed: ListedTable,
    missing: tuple[MissingState, str] | None,
    read_at: datetime,
) -> TableState:
    state = TableState(
        found.table.name,
        read_at,
        listed.oldest,
        refused=found.refused,
        complete=_is_complete(kind, found.table),
        state=None if found.refused else listed.state,
        changed_at=listed.changed_at,
        needed_log=partial(_required_files, found.records) if kind.model.is_state else None,
    )
    if missing is None:
        return state
    detail, why = missing
    return replace(state, refused=why, complete=False, state=None, missing=detail.cause, missing_state=detail)


def _required_files(records: Sequence[Record]) -> Iterator[NeededFile]:
    """Return all records of a kind that readers use."""
    return (NeededFile(each.file.place, each.file.size, each.file.modified_at) for each in records)


def _place(found: Sequence[RecordSet]) -> str:
    return found[0].table.location.uri if len(found) == 1 else f"{len(found)} tables"
