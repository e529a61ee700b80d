"""The claims of the last picture: its rows are read in tasks, meet what storage holds now, and the next one is written.

A table of which there is no picture yet has nothing to be compared with, which is said and is no fault. A picture that
is torn, or of another version, is as good as none, which is a fault. The picture of an incomplete reading carries on
what it could not see.
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
from lakeaudit.evidence.manifest.previous import PreviousManifest, compared, kept_picture
from lakeaudit.evidence.manifest.previous.compared import ACCEPTED, EDGES, TABLES, Comparison
from lakeaudit.evidence.manifest.previous.kept_picture import FAILED, Picture, PictureFile, TornError
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
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, plain_time

KIND = "previous"
FIRST = "first picture: there is nothing to compare with yet, the next audit compares"
_NEW = "new files"
"""The subject of a note of the files of a table that the last snapshot did not claim."""
_WRITTEN = "picture"
"""The subject of a note of a file of the next picture."""
PACKED = 3
"""About how many bytes of rows are in a byte of a picture's file."""


def manifest_of(table: Table) -> PreviousManifest:
    """What the lake file says of the table's pictures."""
    return next(each for each in table.manifests if isinstance(each, PreviousManifest))


def folder_of(table: Table) -> Location:
    """Where the lake's pictures lie."""
    if table.pictures is None:
        raise SourceError(table.name, "nobody says where the pictures of its lake lie", "see results")
    return table.pictures


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """The claims of all tables with such a manifest, and what a published run does to keep its own picture."""
    folder, start = folder_of(tables[0]), clock()
    rules = rules_of(tables)
    last, kept, torn = _loaded(ctx, folder, rules, source_id)
    rows: tuple[BufferedRows, ...] = (kept,) if kept else ()
    after, new = None, Counter[str]()
    if (pictures := ctx.pictures) is not None:
        ctx = replace(ctx, storage=tuple(about(ctx.storage, [table.location for table in tables])))
        met = _met(ctx, pictures, rules, rows, folder, source_id)
        after = partial(_keep, ctx, folder, tables, last, tuple(met.notes)) if pictures.writes else None
        rows, new = ((met,), _new_files(met.notes)) if last else ((), new)
    cut = SnapshotWindow(last.at, last.at) if last else None
    identity = last.identity if last else "no picture"
    counted = kept_picture.rows_in(last.files) if last else 0
    return Claims(
        SourceInfo(source_id, "manifest", KIND, folder.uri, identity, cut, counted, None),
        rows=rows,
        fold=partial(_claims, source_id),
        states={table.name: _state(table, start, ctx, last, torn, new) for table in tables},
        warnings=(f"{folder.uri}: {torn}; this audit begins anew",) if torn else (),
        after_publishing=after,
    )


def changes(claims: Claims, tables: Sequence[Table], ctx: Context) -> Changes:  # noqa: ARG001 - as every kind's
    """Nothing: what was once pictured does not change."""
    return Changes(CHANGED.empty_table())


def about(storage: Sequence[Stored], places: Sequence[Location]) -> list[Stored]:
    """The sources that may name an object at any of these places: the others need not be read for them."""
    return [
        source
        for source in storage
        if any(cover.contains(place) or place.contains(cover) for cover in source.covers for place in places)
    ]


def rules_of(tables: Sequence[Table]) -> pa.Table:
    """TABLES rows: what the lake file says of these tables."""
    return duck.small(TABLES, [_rule(table, manifest_of(table)) for table in tables])


def _rule(table: Table, manifest: PreviousManifest) -> tuple[object, ...]:
    append_only = table.settings.append_only
    settled = timedelta(0) if append_only else manifest.settled
    return table.name, table.location.bucket, table.location.prefix, append_only, settled, manifest.keep


def _loaded(
    ctx: Context, folder: Location, rules: pa.Table, source_id: str
) -> tuple[Picture | None, BufferedRows | None, str | None]:
    """The last picture with its rows, and why it cannot be used."""
    try:
        last = kept_picture.load(ctx.clients, folder)
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
    file: PictureFile,
    rules: pa.Table,
    whole: bool,
    kind: str,
    source_id: str,
    con: Connection,
) -> Batches:
    try:
        rows = kept_picture.read_rows(clients, folder, file)
    except (TornError, pa.ArrowException, *FAILED) as error:
        yield "notes", note_row(source_id, folder.join(file.name).uri, str(error))
        return
    files = compared.pictured(con, rows, rules, whole=whole)
    yield kind, compared.claims(con, files, source_id) if kind == "claims" else files


def _met(
    ctx: Context,
    pictures: SnapshotComparison,
    rules: pa.Table,
    last: Sequence[BufferedRows],
    folder: Location,
    source_id: str,
) -> BufferedRows:
    """The last picture and storage brought together, and the files of the next one written."""
    files = pictures.accepted.column("key").is_valid() if pictures.accepted.num_rows else []
    accepted = pictures.accepted.filter(files) if pictures.accepted.num_rows else ACCEPTED.empty_table()
    groups = [row for row in pictures.accepted.to_pylist() if row["key"] is None]
    comparison = Comparison(
        tables=rules,
        edges=duck.small(EDGES, [(stored.info.id, plain_time(_edge(stored))) for stored in ctx.storage]),
        accepted=accepted.select(ACCEPTED.names),
        accepted_groups=tuple((row["table_name"], row["partition_path"] or None) for row in groups),
        owned=pictures.owned,
        source=source_id,
        as_of=ctx.as_of,
    )
    target = folder if pictures.writes else None
    stage = partial(_compare, comparison, ctx.clients, target, source_id)
    return ctx.engine.meet([*last, *ctx.stored_rows()], partial(_project, comparison), stage)


def _edge(stored: Stored) -> datetime | None:
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
    """In a task: the claims of a share; its share of the next picture goes into a file, of which a note tells."""
    claimed, following, new = comparison.compare(con, rows)
    yield "claims", claimed
    if found := duck.rows_of(new):
        yield "notes", note_row(source_id, _NEW, data=json.dumps(found))
    if folder is None:
        return
    try:
        file = kept_picture.write_rows(clients, folder, following)
    except FAILED as error:
        yield "notes", note_row(source_id, _WRITTEN, str(error))
    else:
        yield "notes", note_row(source_id, _WRITTEN, count=file.rows, data=json.dumps(asdict(file)))


def _claims(source_id: str, con: Connection, rows: Mapping[str, Rows]) -> Relation:
    """Claims as they are; those of other manifests are left out."""
    mine = f"SELECT * FROM input WHERE source = {duck.literal(source_id)}"
    return duck.query(con, mine, input=rows.get("claims", CLAIM.empty_table()))


def _new_files(notes: Sequence[Mapping[str, object]]) -> Counter[str]:
    """By table the number of new files, and by the table's name with a NUL their bytes."""
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
    last: Picture | None,
    torn: str | None,
    new: Counter[str],
) -> TableState:
    refused = not_yet = None
    if torn:
        refused = f"the last picture cannot be read: {torn}"
    elif last is None or last.tables.get(table.name) != table.location.uri:
        not_yet = FIRST
    elif last.at > ctx.as_of:
        refused = f"the last picture is of {last.at:%Y-%m-%dT%H:%M:%SZ}, younger than what is asked for"
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
    last: Picture | None,
    notes: Sequence[Mapping[str, object]],
    run_id: str,
    whole: bool,
) -> tuple[str, ...]:
    """Make this run's picture the last one; what hindered it."""
    mine = [note for note in notes if note["subject"] == _WRITTEN]
    faults = [str(note["reason"]) for note in mine if note["reason"]]
    if faults:
        return (
            f"{folder.uri}: the picture of this audit could not be kept, the last one stands: {faults[0]}",
        )
    files = tuple(PictureFile(**json.loads(str(note["data"]))) for note in mine)
    covers = [cover for stored in ctx.storage for cover in stored.covers]
    shown = {
        table.name: table.location.uri
        for table in tables
        if any(cover.contains(table.location) for cover in covers)
        or (last and last.tables.get(table.name) == table.location.uri)
    }
    try:
        kept_picture.publish(ctx.clients, folder, Picture(run_id, ctx.as_of, whole, shown, files))
    except SourceError as error:
        return (f"the picture of this audit could not be kept, the last one stands: {error}",)
    return ()
