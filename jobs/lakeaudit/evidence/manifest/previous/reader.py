"""Read the claims of the last storage snapshot: tasks read its rows, compare them with storage, and write the next one.

A table without a storage snapshot has nothing to compare with yet: its state reports that, without a fault. A snapshot
that is torn, or of another version, cannot be used, which is a fault. The snapshot of an incomplete run keeps the rows
that the run could not read.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.file_list.fold import CHANGED
from lakeaudit.evidence.manifest.previous import PreviousManifest, compared, snapshot_store
from lakeaudit.evidence.manifest.previous.compared import ACCEPTED, EDGES, TABLES, Comparison
from lakeaudit.evidence.manifest.previous.snapshot_store import (
    FAILED,
    SnapshotFile,
    StorageSnapshot,
    TornError,
)
from lakeaudit.evidence.protocol import (
    Batches,
    BufferedRows,
    Changes,
    Claims,
    Clock,
    Context,
    Part,
    SnapshotComparison,
    SnapshotWindow,
    SourceInfo,
    Stored,
    TableState,
    note_row,
    utc_now,
)
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, plain_time

KIND = "previous"
FIRST = "first storage snapshot: there is nothing to compare with yet, the next audit compares"
_NEW = "new files"
"""The subject of a note about files of a table that the last storage snapshot did not claim."""
_WRITTEN = "picture"
"""The subject of a note about a file of the next storage snapshot."""
PACKED = 3
"""Approximate bytes of rows for each byte of a storage snapshot's file."""


def manifest_of(table: Table) -> PreviousManifest:
    """Return the table's manifest of this kind in the lake file."""
    return next(each for each in table.manifests if isinstance(each, PreviousManifest))


def folder_of(table: Table) -> Location:
    """Return the folder of the lake's storage snapshots."""
    if table.pictures is None:
        raise SourceError(
            table.name, "the folder for storage snapshots of its lake is not set", "see results"
        )
    return table.pictures


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """Return the claims of all tables with such a manifest, and the step that stores a published run's snapshot."""
    folder, start = folder_of(tables[0]), clock()
    rules = rules_of(tables)
    last, kept, torn = _load(ctx, folder, rules, source_id)
    rows: tuple[BufferedRows, ...] = (kept,) if kept else ()
    after, new = None, Counter[str]()
    if (pictures := ctx.pictures) is not None:
        ctx = replace(ctx, storage=tuple(about(ctx.storage, [table.location for table in tables])))
        met = _compare_with_storage(ctx, pictures, rules, rows, folder, source_id)
        after = partial(_keep, ctx, folder, tables, last, tuple(met.notes)) if pictures.writes else None
        rows, new = ((met,), _new_files(met.notes)) if last else ((), new)
    cut = SnapshotWindow(last.at, last.at) if last else None
    identity = last.identity if last else "no picture"
    counted = snapshot_store.rows_in(last.files) if last else 0
    return Claims(
        SourceInfo(source_id, "manifest", KIND, folder.uri, identity, cut, counted, None),
        rows=rows,
        fold=partial(_claims, source_id),
        states={table.name: _state(table, start, ctx, last, torn, new) for table in tables},
        warnings=(f"{folder.uri}: {torn}; this audit starts without a storage snapshot",) if torn else (),
        after_publishing=after,
    )


def changes(claims: Claims, tables: Sequence[Table], ctx: Context) -> Changes:  # noqa: ARG001 - as in every kind
    """Return no changes: a storage snapshot does not change."""
    return Changes(CHANGED.empty_table())


def about(storage: Sequence[Stored], places: Sequence[Location]) -> list[Stored]:
    """Return the sources that may name an object at any of these places: the others need not be read."""
    return [
        source
        for source in storage
        if any(cover.contains(place) or place.contains(cover) for cover in source.covers for place in places)
    ]


def rules_of(tables: Sequence[Table]) -> pa.Table:
    """Return TABLES rows: the settings of these tables in the lake file."""
    return duck.small(TABLES, [_rule(table, manifest_of(table)) for table in tables])


def _rule(table: Table, manifest: PreviousManifest) -> tuple[object, ...]:
    append_only = table.settings.append_only
    settled = timedelta(0) if append_only else manifest.settled
    return table.name, table.location.bucket, table.location.prefix, append_only, settled, manifest.keep


def _load(
    ctx: Context, folder: Location, rules: pa.Table, source_id: str
) -> tuple[StorageSnapshot | None, BufferedRows | None, str | None]:
    """Return the last storage snapshot with its rows, and why it cannot be used."""
    try:
        last = snapshot_store.load(ctx.clients, folder)
    except TornError as error:
        return None, None, str(error)
    if last is None:
        return None, None, None
    kind = "claims" if ctx.pictures is None else "pictured"
    kept = ctx.engine.keep(
        [
            Part(
                source_id,
                partial(_read, ctx.clients, folder, file, rules, last.whole, kind, source_id),
                file.bytes * PACKED,
            )
            for file in last.files
        ]
    )
    torn = next((str(note["reason"]) for note in kept.notes if note["reason"]), None)
    return (None, None, torn) if torn else (last, kept, None)


def _read(
    clients: Clients,
    folder: Location,
    file: SnapshotFile,
    rules: pa.Table,
    whole: bool,
    kind: str,
    source_id: str,
    con: Connection,
) -> Batches:
    try:
        rows = snapshot_store.read_rows(clients, folder, file)
    except (TornError, pa.ArrowException, *FAILED) as error:
        yield "notes", note_row(source_id, folder.join(file.name).uri, str(error))
        return
    files = compared.lasting_files(con, rows, rules, whole=whole)
    yield kind, compared.claims(con, files, source_id) if kind == "claims" else files


def _compare_with_storage(
    ctx: Context,
    pictures: SnapshotComparison,
    rules: pa.Table,
    last: Sequence[BufferedRows],
    folder: Location,
    source_id: str,
) -> BufferedRows:
    """Compare the last storage snapshot with storage, and write the files of the next one."""
    files = pictures.accepted.column("key").is_valid() if pictures.accepted.num_rows else []
    accepted = pictures.accepted.filter(files) if pictures.accepted.num_rows else ACCEPTED.empty_table()
    groups = [row for row in pictures.accepted.to_pylist() if row["key"] is None]
    comparison = Comparison(
        tables=rules,
        edges=duck.small(EDGES, [(stored.info.id, plain_time(_cutoff(stored))) for stored in ctx.storage]),
        accepted=accepted.select(ACCEPTED.names),
        accepted_groups=tuple((row["table_name"], row["partition_path"] or None) for row in groups),
        owned=pictures.owned,
        source=source_id,
        as_of=ctx.as_of,
    )
    target = folder if pictures.writes else None
    stage = partial(_compare, comparison, ctx.clients, target, source_id)
    return ctx.engine.meet([*last, *ctx.stored_rows()], partial(_project, comparison), stage)


def _cutoff(stored: Stored) -> datetime | None:
    cut = stored.info.cut
    return cut.start - cut.margin if cut else None


def _project(comparison: Comparison, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    return comparison.project(con, kind, rows)


def _compare(
    comparison: Comparison,
    clients: Clients,
    folder: Location | None,
    source_id: str,
    con: Connection,
    rows: Mapping[str, Rows],
) -> Iterator[tuple[str, Rows]]:
    """Yield in a task the claims of a share; its share of the next snapshot becomes a file, which a note names."""
    claimed, following, new = comparison.compare(con, rows)
    yield "claims", claimed
    if found := duck.rows_of(new):
        yield "notes", note_row(source_id, _NEW, data=json.dumps(found))
    if folder is None:
        return
    try:
        file = snapshot_store.write_rows(clients, folder, following)
    except FAILED as error:
        yield "notes", note_row(source_id, _WRITTEN, str(error))
    else:
        yield "notes", note_row(source_id, _WRITTEN, count=file.rows, data=json.dumps(asdict(file)))


def _claims(source_id: str, con: Connection, rows: Mapping[str, Rows]) -> Relation:
    """Return the claims of this manifest as they are, without those of others."""
    mine = f"SELECT * FROM input WHERE source = {duck.literal(source_id)}"
    return duck.query(con, mine, input=rows.get("claims", CLAIM.empty_table()))


def _new_files(notes: Sequence[Mapping[str, object]]) -> Counter[str]:
    """Return by table the number of new files, and by the table's name with a NUL their bytes."""
    found: Counter[str] = Counter()
    for note in notes:
        for row in json.loads(str(note["data"])) if note["subject"] == _NEW else ():
            found[row["table_name"]] += row["files"]
            found[f"{row['table_name']}\0"] += row["bytes"]
    return found


def _state(
    table: Table,
    read_at: datetime,
    ctx: Context,
    last: StorageSnapshot | None,
    torn: str | None,
    new: Counter[str],
) -> TableState:
    refused = not_yet = None
    if torn:
        refused = f"the last storage snapshot cannot be read: {torn}"
    elif last is None or last.tables.get(table.name) != table.location.uri:
        not_yet = FIRST
    elif last.at > ctx.as_of:
        refused = (
            f"the last storage snapshot is of {last.at:%Y-%m-%dT%H:%M:%SZ}, younger than the requested time"
        )
    return TableState(
        table.name,
        read_at,
        None,
        refused=refused,
        complete=False,
        not_yet=not_yet,
        new_files=0 if refused or not_yet else new[table.name],
        new_bytes=0 if refused or not_yet else new[f"{table.name}\0"],
    )


def _keep(
    ctx: Context,
    folder: Location,
    tables: Sequence[Table],
    last: StorageSnapshot | None,
    notes: Sequence[Mapping[str, object]],
    run_id: str,
    whole: bool,
) -> tuple[str, ...]:
    """Make this run's storage snapshot the last one; return the errors."""
    mine = [note for note in notes if note["subject"] == _WRITTEN]
    faults = [str(note["reason"]) for note in mine if note["reason"]]
    if faults:
        return (
            f"{folder.uri}: the storage snapshot of this audit could not be stored, the last one stays: {faults[0]}",
        )
    files = tuple(SnapshotFile(**json.loads(str(note["data"]))) for note in mine)
    covers = [cover for stored in ctx.storage for cover in stored.covers]
    shown = {
        table.name: table.location.uri
        for table in tables
        if any(cover.contains(table.location) for cover in covers)
        or (last and last.tables.get(table.name) == table.location.uri)
    }
    try:
        snapshot_store.publish(ctx.clients, folder, StorageSnapshot(run_id, ctx.as_of, whole, shown, files))
    except SourceError as error:
        return (f"the storage snapshot of this audit could not be stored, the last one stays: {error}",)
    return ()
