"""The claims of a kind of records: found here, read in tasks at once, and folded as those of `file_list` are.

A record that cannot be understood is a hole of its table. A kind of records is a `RecordKind`; `reading` gives what the
registry needs of it.
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
from lakeaudit.evidence.manifest.file_list import fold
from lakeaudit.evidence.manifest.file_list.fold import EVENT
from lakeaudit.evidence.manifest.file_list.point_lookup import Answer, fold_one
from lakeaudit.evidence.manifest.file_list.reader import changes_between
from lakeaudit.evidence.manifest.records.find import LISTERS
from lakeaudit.evidence.manifest.records.read_records import events_of, parts
from lakeaudit.evidence.manifest.records.record import Declared, Found, Record, Search, Understand
from lakeaudit.evidence.manifest.records.totals import totals
from lakeaudit.evidence.protocol import (
    Changes,
    Claims,
    Clock,
    Context,
    Cut,
    Hole,
    Kept,
    SourceInfo,
    TableState,
    utc_now,
)
from lakeaudit.keys import Location, identify
from lakeaudit.runtime.aws import Clients
from lakeaudit.schemas import plain_time

RECORDS = "records"
_HIDES = "files that it names"


@dataclass(frozen=True)
class RecordKind:
    """A kind of records.

    Attributes:
        model: what the lake file says of it; its `kind` is the kind's name.
        find: the records of tables; `storage` of the context may name them.
        find_near: the records that could name one key of a table, without the rows of storage.
        understand: what a record says.
        has_totals: records say how much a job wrote in all.
        by_storage: records are found among the rows of storage, so that new ones show in a new picture of it alone.
    """

    kind: str
    model: type[ManifestSource]
    find: Callable[[Sequence[Table], Context], Search]
    find_near: Callable[[Table, Clients, str, str], Found]
    understand: Understand
    by_storage: bool = False
    has_totals: bool = False


def read(
    kind: RecordKind, tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now
) -> Claims:
    """The claims of all tables that have such records. Where the run is not live, later ones are left out."""
    start = clock()
    search = kind.find(tables, ctx)
    found = search.found
    records = [record for each in found for record in each.records]
    until = None if ctx.live else plain_time(ctx.as_of)
    kept = ctx.engine.keep(parts(records, kind.understand, ctx.clients, source_id, until))
    summaries = [json.loads(str(note["data"])) for note in kept.notes]
    cut = Cut(start, clock()) if ctx.live else Cut(ctx.as_of, ctx.as_of)
    rows = sum(each["rows"] for each in summaries)
    unread = list(_unread(summaries, records, source_id))
    doubts = {hole.table: hole.reason for hole in unread if hole.table}
    named = [each.table.name for each in found]
    identity = pinned((record.file for record in records), RECORDS)
    info = SourceInfo(source_id, "manifest", kind.kind, _place(found), identity, cut, rows, None)
    return Claims(
        info,
        rows=(kept,),
        fold=partial(fold.claims, source=source_id, kind=kind.kind, alone=kind.model.is_state),
        states=_states(kind, found, summaries, records, cut.start),
        holes=(*(hole for each in found for hole in _with_source(each.holes, source_id)),
               *unread),
        warnings=tuple(warning for each in found for warning in each.warnings),
        totals=totals(ctx, kind.kind, kept, search.tagged, named, doubts) if kind.has_totals else None,
    )  # fmt: skip


def changes(
    kind: RecordKind, claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now
) -> Changes:
    """What the records say now that they did not say when `claims` were read; none differs: nothing."""
    if _as_read(kind, claims, tables, ctx):
        return Changes(fold.CHANGED.empty_table())
    return changes_between(claims, read(kind, tables, replace(ctx, live=True), claims.info.id, clock))


def _as_read(kind: RecordKind, claims: Claims, tables: Sequence[Table], ctx: Context) -> bool:
    if not kind.by_storage:
        found = kind.find(tables, ctx).found
        files = [record.file for each in found for record in each.records]
        return pinned(files, RECORDS) == claims.info.identity
    (kept,) = claims.rows
    subjects = [str(note["subject"]) for note in cast("Kept", kept).notes]
    places = [Location(*named) for subject in subjects if (named := identify(subject)) is not None]
    with ThreadPoolExecutor(LISTERS) as pool:
        there = [file for file in pool.map(partial(stat, ctx.clients), places) if file is not None]
    return pinned(there, RECORDS) == claims.info.identity


def look_up(kind: RecordKind, table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """(answer, history, reason) as `point.Told` has them."""
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


def _with_source(holes: Sequence[Hole], source_id: str) -> Iterator[Hole]:
    return (replace(hole, source=source_id) for hole in holes)


def _unread(
    summaries: Sequence[Mapping[str, Any]], records: Sequence[Record], source_id: str
) -> Iterator[Hole]:
    for each in summaries:
        if each["faults"]:
            record, (_, fault) = records[each["list_no"]], each["first"]
            for table in (record.table, *(name for _, name in record.homes)):
                if table:
                    yield Hole(source_id, fault, record.file.place.uri, table=table, hides=_HIDES)


def _states(
    kind: RecordKind,
    found: Sequence[Found],
    summaries: Sequence[Mapping[str, Any]],
    records: Sequence[Record],
    read_at: datetime,
) -> dict[str, TableState]:
    oldest: dict[str, datetime] = {}
    for each in summaries:
        if each["oldest"] is not None and records[each["list_no"]].table:
            name = records[each["list_no"]].table
            at = datetime.fromisoformat(each["oldest"]).replace(tzinfo=UTC)
            oldest[name] = min(at, oldest.get(name, at))
    return {
        each.table.name: TableState(
            each.table.name,
            read_at,
            oldest.get(each.table.name),
            refused=each.refused,
            complete=all(m.complete for m in each.table.manifests if m.kind == kind.kind),
        )
        for each in found
    }


def _place(found: Sequence[Found]) -> str:
    return found[0].table.location.uri if len(found) == 1 else f"{len(found)} tables"
