"""Read the journal table of S3 Metadata: the Iceberg table itself, or exports of it as Parquet or JSON Lines files.

Columns are found by their names, in any order. A row is a change of an object: CREATE, UPDATE_METADATA or DELETE. A
deletion of one version has few columns besides its version; a delete marker is a DELETE of its own (Amazon S3 User
Guide, "S3 Metadata journal tables schema").
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.errors import SourceError, one_line
from lakeaudit.evidence.aliases import true_columns
from lakeaudit.evidence.events import event_files
from lakeaudit.evidence.events.event_files import EventFile, Window, blocks, events_of, grouped
from lakeaudit.evidence.events.journal import S3Journal
from lakeaudit.evidence.files import File, copied, folders, list_files
from lakeaudit.evidence.manifest.iceberg.current.discover import FOLDER
from lakeaudit.evidence.manifest.iceberg.state.metadata import NAME as NAME_OF_METADATA
from lakeaudit.evidence.protocol import (
    Batches,
    Context,
    Engine,
    Events,
    Part,
    Probed,
    SnapshotWindow,
    SourceInfo,
    note_row,
)
from lakeaudit.evidence.storage.live_table import data_files, find_state
from lakeaudit.keys import Aliases, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import REQUEST, plain_time

NAME = re.compile(r"\.(parquet|jsonl|json)(\.gz)?\Z")
NEEDED = ("bucket", "key", "record_type", "record_timestamp")
WANTED = (
    *NEEDED,
    "version_id",
    "is_delete_marker",
    "requester",
    "request_id",
    "sequence_number",
    "size",
    "e_tag",
)
"""The columns that `follow` reads."""
ALSO = ("version_id", "is_delete_marker", "is_multipart", "requester", "request_id")
LIFECYCLE = ("s3.amazonaws.com", "lifecycle.s3.amazonaws.com")
"""The names of S3 itself in the journal, for actions of lifecycle rules."""
MULTIPART = "CREATE in parts"
SAMPLE = 200
GONE = "does not exist any more"


def read(source: S3Journal, ctx: Context, source_id: str) -> Events:
    """Return the exports that were written since the start of the window, or the table's state at `ctx.as_of`."""
    if _is_table(ctx.clients, source.location):
        return _of_table(source, ctx, source_id)
    return events_of(source, ctx, source_id, NAME, partial(_read, clients=ctx.clients, source_id=source_id))


def probe(source: S3Journal, clients: Clients, now: datetime) -> Probed:
    """See `registry.EventsKind`."""
    if _is_table(clients, source.location):
        state = find_state(clients, source.location, now)
        return Probed(f"journal table, its state of {state.snapshot.at:%Y-%m-%dT%H:%MZ}")
    return event_files.probe(source, clients, now, NAME)


def _is_table(clients: Clients, location: Location) -> bool:
    return NAME_OF_METADATA.fullmatch(location.key.rpartition("/")[2]) is not None or FOLDER in folders(
        clients, location
    )


def _of_table(source: S3Journal, ctx: Context, source_id: str) -> Events:
    """Return the changes of the window in one state of the table, from all its data files."""
    state = find_state(ctx.clients, source.location, ctx.as_of)
    listed = data_files(ctx.clients, state, ctx.engine)
    files = [EventFile(File(each.place, each.size, state.snapshot.at), state.snapshot.at) for each in listed]
    since = ctx.as_of - source.window

    def parts(wanted: datetime, reads: bool) -> tuple[Part, ...]:
        window = plain_time(max(since, wanted)), plain_time(ctx.as_of)
        read = partial(_read, clients=ctx.clients, source_id=source_id, window=window, reads=reads)
        return tuple(
            Part(source_id, partial(read, files=group), sum(file.size for file in group))
            for group in grouped(files)
        )

    place, cut = source.location.uri, SnapshotWindow(since, state.snapshot.at)
    info = SourceInfo(source_id, "events", source.kind, place, state.identity, cut)
    return Events(info, since, parts)


def _read(
    con: Connection,
    *,
    clients: Clients,
    source_id: str,
    files: Sequence[File],
    window: Window,
    reads: bool,  # noqa: ARG001 - a journal has none
) -> Batches:
    for file in files:
        try:
            for rows in _tables(clients, file):
                found = requests(con, rows, source_id, clients.aliases)
                times = " AND ".join(map(duck.literal, window))
                within = f'SELECT * FROM input WHERE reject IS NOT NULL OR "at" BETWEEN {times}'
                yield "requests", duck.table(duck.query(con, within, input=found))
        except SourceError as error:
            yield "notes", note_row(source_id, file.place.uri, error.what, count=1)
        except (pa.ArrowException, ValueError, OSError, RecursionError) as error:
            reason = f"is not an export of a journal: {one_line(str(error), 200) or 'damaged'}"
            yield "notes", note_row(source_id, file.place.uri, reason, count=1)


@dataclass(frozen=True)
class JournalState:
    """The data files of a journal's newest state, its time, and its name; exports have the time of the newest file."""

    files: Sequence[File]
    at: datetime
    identity: str = ""


def newest_files(
    clients: Clients, location: Location, now: datetime, engine: Engine, known: str = ""
) -> JournalState | None:
    """Return the files of the newest state of a table, or of a folder of exports; None: its identity is `known`.

    Raises:
        SourceError: the table cannot be read.
    """
    if _is_table(clients, location):
        state = find_state(clients, location, now)
        if state.identity == known:
            return None
        at = state.snapshot.at
        listed = [File(each.place, each.size, at) for each in data_files(clients, state, engine)]
        return JournalState(listed, at, state.identity)
    files = [file for file in list_files(clients, location) if NAME.search(file.name)]
    return JournalState(files, max((file.modified_at for file in files), default=now))


def _tables(clients: Clients, file: File) -> Iterator[pa.Table]:
    """Yield the needed columns of a file in batches."""
    yield from tables_of(clients, file, (*NEEDED, *ALSO))


def tables_of(clients: Clients, file: File, wanted: Sequence[str] = WANTED) -> Iterator[pa.Table]:
    """Yield these columns of a file in batches.

    Raises:
        SourceError: it cannot be read to its end.
        ValueError: it is invalid, or lacks a needed column.
    """
    if not file.name.endswith(".parquet"):
        yield from _of_lines(clients, file, wanted)
        return
    with copied(clients, file.place) as copy:
        if copy is None:
            raise SourceError(file.place.uri, GONE, "")
        parquet = pq.ParquetFile(copy)
        names = [name for name in wanted if name in parquet.schema_arrow.names]
        _require(names)
        for batch in parquet.iter_batches(duck.BATCH_ROWS, columns=names):
            batch.validate(full=True)  # text that is not UTF-8 would fail wherever it is used
            yield pa.Table.from_batches([batch])


def _of_lines(clients: Clients, file: File, wanted: Sequence[str]) -> Iterator[pa.Table]:
    for content in blocks(clients, file):
        rows = [_row(line) for line in content.text.split("\n") if line.strip()]
        if rows:
            _require({name for row in rows for name in row})
            columns = {name: [_text(row.get(name)) for row in rows] for name in wanted}
            yield pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns]))
        if content.lacks:
            raise SourceError(file.place.uri, content.lacks, "")


def _row(line: str) -> Mapping[str, Any]:
    """Return a line's row; an invalid line gives a row with its start as the key, which is then rejected."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    return row if isinstance(row, dict) else {"key": line[:SAMPLE]}


def _text(value: object) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _require(names: Sequence[str] | set[str]) -> None:
    if lacking := [name for name in NEEDED if name not in names]:
        raise ValueError(f"it has no column {', '.join(lacking)}")


def requests(con: Connection, rows: Rows, source_id: str, aliases: Aliases) -> Relation:
    """Return the REQUEST rows of a journal, without changes of metadata alone."""
    types = duck.relation(con, rows).types
    lacking = "".join(f", NULL::VARCHAR AS {name}" for name in ALSO if name not in types)
    bucket, key = true_columns(aliases, "bucket", "key")
    marker = "coalesce(TRY_CAST(is_delete_marker AS BOOLEAN), false)"
    by_rule = f"requester IN ({duck.literals(LIFECYCLE)})"
    parts = "coalesce(TRY_CAST(is_multipart AS BOOLEAN), false)"
    given = {
        "source": duck.literal(source_id),
        "bucket": bucket,
        "key": key,
        "at": "recorded_at",
        "took": "NULL",
        "job": "NULL",
        "status": "NULL",
        "succeeded": "true",
        "action": f"CASE WHEN record_type = 'CREATE' THEN 'put' WHEN {by_rule} THEN 'expire' ELSE 'delete' END",
        "operation": f"CASE WHEN record_type = 'CREATE' AND {parts} THEN '{MULTIPART}' ELSE record_type END",
        "version_id": f"CASE WHEN record_type = 'DELETE' AND NOT {marker} THEN nullif(version_id, '') END",
        "principal": "nullif(requester, '')",
        "request_id": "nullif(request_id, '')",
        "reject": "NULL",
    }
    sql = f"""
        SELECT *, {_time("record_timestamp", types["record_timestamp"])} AS recorded_at{lacking} FROM input
        WHERE record_type IS DISTINCT FROM 'UPDATE_METADATA'
    """
    dated = duck.query(con, sql, input=rows)
    sound = (
        "record_type IN ('CREATE', 'DELETE') AND NOT (bucket IS NULL OR key IS NULL OR recorded_at IS NULL)"
    )
    right = duck.query(con, f"SELECT * FROM input WHERE coalesce({sound}, false)", input=dated)
    wrong = f"""
        SELECT 'no row of a journal: ' || coalesce(record_type, '?') || ' ' || coalesce(left(key, 200), '?') AS reject
        FROM input WHERE NOT coalesce({sound}, false)
    """
    nothing = dict.fromkeys(REQUEST.names, "NULL") | {"source": given["source"], "reject": "reject"}
    rejected = duck.conform(con, duck.query(con, wrong, input=dated), REQUEST, nothing)
    return duck.union(con, [duck.conform(con, right, REQUEST, given), rejected])


def _time(name: str, kind: str) -> str:
    """Return SQL of a time in UTC without a zone, from a column of any type that exports use."""
    if "TIME ZONE" in kind:
        return f"{name} AT TIME ZONE 'UTC'"
    if kind.startswith("TIMESTAMP"):
        return f"CAST({name} AS TIMESTAMP)"
    return f"TRY_CAST(regexp_replace(CAST({name} AS VARCHAR), '( UTC|Z|[+]00:?00)$', '') AS TIMESTAMP)"
