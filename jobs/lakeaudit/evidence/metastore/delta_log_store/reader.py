"""The log store's table, read live or from an export; and whether it can be read."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import DeltaLogStore
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import fetched
from lakeaudit.evidence.metastore.delta_log_store.compared import stores
from lakeaudit.evidence.metastore.delta_log_store.items import TYPES, entered, exported, items_of
from lakeaudit.evidence.metastore.dynamodb_pages import SEGMENTS_PER_CORE, ReadCapacity, only_page, scan_pages
from lakeaudit.evidence.metastore.s3guard.dynamodb_export import find_export, read_export
from lakeaudit.evidence.metastore.s3guard.export_files import DataFile
from lakeaudit.evidence.protocol import (
    Batches,
    Clock,
    Context,
    Cut,
    Hole,
    Kept,
    LogEntries,
    Part,
    Probed,
    SourceInfo,
    note_row,
    utc_now,
)
from lakeaudit.formatting import age, count
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain
from lakeaudit.runtime.duck import Connection, DuckError, Rows
from lakeaudit.runtime.endpoints import dynamodb_endpoint

KIND = "delta_log_store"
_KEYS = ["tablePath", "fileName"]
_OTHER = "its keys are not tablePath and fileName: it is no table of a Delta log store"
_WAY_OUT = "name the table of spark.io.delta.storage.S3DynamoDBLogStore.ddb.tableName"


def read(source: DeltaLogStore, ctx: Context, source_id: str, clock: Clock = utc_now) -> LogEntries:
    """The entries of the store: a live Scan, or the newest fitting export where one is named.

    Raises:
        SourceError: the table or export cannot be read or is of another kind, or a live table is asked for its past.
    """
    if source.export is not None:
        export = read_export(source.export, source.table, ctx, source_id, source.margin)
        parts = [_file_part(source, file, ctx.clients, source_id) for file in export.files if file.items]
        return _entries(
            source, ctx, source_id, ctx.engine.keep(parts), export.cut, export.identity, export.holes
        )
    if not ctx.live:
        raise SourceError(
            source.name, "a live table cannot show its past", "name an export, or leave --as-of out"
        )
    _require_keys(source, ctx.clients)
    start = clock()
    kept = ctx.engine.keep(_segments(source, ctx, source_id))
    cut = Cut(start, clock(), source.margin or timedelta(0))
    return _entries(source, ctx, source_id, kept, cut, f"scan of {source.table}", ())


def _entries(
    source: DeltaLogStore,
    ctx: Context,
    source_id: str,
    kept: Kept,
    cut: Cut,
    identity: str,
    holes: Sequence[Hole],
) -> LogEntries:
    faults = [note for note in kept.notes if note["reason"]]
    if faults and source.export is None:
        raise SourceError(
            f"DynamoDB table {source.table}", str(faults[0]["reason"]), str(faults[0]["data"] or "")
        )
    odd = sum(int(str(note["count"])) for note in kept.notes if not note["reason"])
    rows = kept.counts.get("entered", 0)
    if odd and not rows:
        raise SourceError(source.name, f"none of its {count(odd)} items is of a commit", _WAY_OUT)
    found = [Hole(source_id, str(note["reason"]), str(note["subject"])) for note in faults]
    found += (
        [Hole(source_id, f"{count(odd)} items are none of a commit", source.name, count=odd)] if odd else []
    )
    return LogEntries(
        SourceInfo(source_id, "metastore", KIND, source.name, identity, cut, rows + odd, odd),
        kept,
        partial(stores, source_id, ctx.clients, cut.start - cut.margin, source.ttl),
        (*holes, *found),
    )


def _segments(source: DeltaLogStore, ctx: Context, source_id: str) -> list[Part]:
    units = source.way.read_capacity
    client = ctx.clients.dynamodb(dynamodb_endpoint(source.way))
    small = None if units else only_page(client, source.table or "")
    if small is not None:
        return [Part(source_id, partial(_read_items, source, ctx.clients, source_id, small))]
    total = max(ctx.parallelism, 1) * SEGMENTS_PER_CORE
    share = None if units is None else units / max(ctx.parallelism, 1)
    return [
        Part(source_id, partial(_read_segment, source, ctx.clients, source_id, segment, total, share))
        for segment in range(total)
    ]


def _read_items(
    source: DeltaLogStore, clients: Clients, source_id: str, items: Sequence[dict[str, Any]], con: Connection
) -> Batches:
    """Of a table of one page, which was read already."""
    yield from _rows(source, clients, source_id, source.name, iter([partial(items_of, items)]), con)


def _read_segment(
    source: DeltaLogStore,
    clients: Clients,
    source_id: str,
    segment: int,
    total: int,
    units: float | None,
    con: Connection,
) -> Batches:
    subject, pace = f"segment {segment} of {source.table}", None if units is None else ReadCapacity(units)
    client = clients.dynamodb(dynamodb_endpoint(source.way))
    try:
        pages = scan_pages(client, source.table or "", segment, total, pace)
        yield from _rows(
            source, clients, source_id, subject, (partial(items_of, page) for page in pages), con
        )
    except (ClientError, BotoCoreError) as error:
        what, way_out = explain(error)[:2]
        yield "notes", note_row(source_id, subject, what, data=way_out)


def _file_part(source: DeltaLogStore, file: DataFile, clients: Clients, source_id: str) -> Part:
    return Part(source_id, partial(_read_file, source, file, clients, source_id), file.size)


def _read_file(
    source: DeltaLogStore, file: DataFile, clients: Clients, source_id: str, con: Connection
) -> Batches:
    try:
        with fetched(clients, file.place) as path:
            if path is None:
                yield "notes", note_row(source_id, file.uri, "does not exist")
                return
            items = partial(exported, con, str(path), zipped=file.zipped)
            yield from _rows(source, clients, source_id, file.uri, iter([items]), con)
    except SourceError as error:
        yield "notes", note_row(source_id, file.uri, error.what)
    except (DuckError, OSError) as error:
        yield "notes", note_row(source_id, file.uri, f"cannot be read: {type(error).__name__}")


def _rows(
    source: DeltaLogStore,
    clients: Clients,
    source_id: str,
    subject: str,
    pages: Iterator[Callable[[], Rows]],
    con: Connection,
) -> Batches:
    """The entries, then a NOTE row with the number of items that are none."""
    odd = 0
    for page in pages:
        rows, others = entered(con, page(), source.ttl, source.location, clients.aliases)
        odd += others
        yield "entered", rows
    yield "notes", note_row(source_id, subject, count=odd)


def _require_keys(source: DeltaLogStore, clients: Clients) -> int:
    """The number of items that DynamoDB believes to be there, of a table with the store's keys."""
    try:
        told = clients.dynamodb(dynamodb_endpoint(source.way)).describe_table(TableName=source.table or "")[
            "Table"
        ]
    except (ClientError, BotoCoreError) as error:
        raise SourceError(f"DynamoDB table {source.table}", *explain(error)) from error
    if [each["AttributeName"] for each in told.get("KeySchema", [])] != _KEYS:
        raise SourceError(f"DynamoDB table {source.table}", _OTHER, _WAY_OUT)
    return told.get("ItemCount", 0)


def probe(source: DeltaLogStore, clients: Clients, now: datetime) -> Probed:
    """See `registry.MetastoreKind`."""
    if source.export is not None:
        export, summary = find_export(clients, source.export, source.table, now)
        told = f"export {export.id} of {summary.table}, {count(summary.item_count)} items"
        return Probed(f"{told}, {age(summary.export_time, now)} old")
    items = _require_keys(source, clients)
    clients.dynamodb(dynamodb_endpoint(source.way)).scan(TableName=source.table or "", Limit=1)
    return Probed(f"can be scanned, some {count(items)} items")


def get_entry(source: DeltaLogStore, clients: Clients, bucket: str, key: str) -> dict[str, Any] | None:
    """The item of a commit's file as plain values by attribute name, read now; None: there is none.

    Raises:
        SourceError: the table cannot be read, or the source is an export.
    """
    folder, _, name = key.rpartition("/_delta_log/")
    if source.export is not None:
        raise SourceError(
            source.name, "an export has no point reads", "see the last audit, or name the table"
        )
    client = clients.dynamodb(dynamodb_endpoint(source.way))
    schemes = ("s3a", "s3", "s3n") if bucket else ("file",)
    try:
        for scheme in schemes if folder else ():
            path = f"{scheme}://{bucket}/{folder}" if bucket else f"file:/{folder}"
            asked = {"tablePath": {"S": path}, "fileName": {"S": name}}
            item = client.get_item(TableName=source.table or "", Key=asked, ConsistentRead=True).get("Item")
            if item:
                return {each: next(iter(item[each].values())) for each in TYPES if each in item}
    except (ClientError, BotoCoreError) as error:
        raise SourceError(f"DynamoDB table {source.table}", *explain(error)) from error
    return None
