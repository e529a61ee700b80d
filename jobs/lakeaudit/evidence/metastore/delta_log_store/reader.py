"""Read and probe the log store's table, live or from an export."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore.delta_log_store import DeltaLogStore
from lakeaudit.evidence.metastore.delta_log_store.compared import stores
from lakeaudit.evidence.metastore.delta_log_store.items import ITEM, TYPES, entry_rows
from lakeaudit.evidence.metastore.dynamodb.export import find_export, read_export
from lakeaudit.evidence.metastore.dynamodb.parts import ItemRows, export_part, failures, table_parts
from lakeaudit.evidence.metastore.dynamodb.tally import tally_of
from lakeaudit.evidence.protocol import (
    BufferedRows,
    Clock,
    Context,
    EvidenceGap,
    LogEntries,
    Probed,
    SnapshotWindow,
    SourceInfo,
    utc_now,
)
from lakeaudit.formatting import age, count
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint

KIND = "delta_log_store"
_KEYS = ["tablePath", "fileName"]
_OTHER = "its keys are not tablePath and fileName: it is not a table of a Delta log store"
_HINT = "name the table of spark.io.delta.storage.S3DynamoDBLogStore.ddb.tableName"


def read(source: DeltaLogStore, ctx: Context, source_id: str, clock: Clock = utc_now) -> LogEntries:
    """Return the entries of the store: by a live Scan, or from the newest fitting export where one is named.

    Raises:
        SourceError: the table or export cannot be read or is of another kind, or a live table is read for a past time.
    """
    if source.export is not None:
        export = read_export(source.export, source.table, ctx, source_id, source.margin)
        rows = _rows_of(source, ctx, source_id)
        parts = [export_part(file, ctx.clients, rows) for file in export.files if file.items]
        return _entries(
            source, ctx, source_id, ctx.engine.keep(parts), export.cut, export.identity, export.holes
        )
    if not ctx.live:
        raise SourceError(
            source.name, "a live table cannot show its past", "name an export, or leave --as-of out"
        )
    _require_keys(source, ctx.clients)
    start = clock()
    kept = ctx.engine.keep(table_parts(source, ctx, _rows_of(source, ctx, source_id)))
    cut = SnapshotWindow(start, clock(), source.margin or timedelta(0))
    return _entries(source, ctx, source_id, kept, cut, f"scan of {source.table}", ())


def _entries(
    source: DeltaLogStore,
    ctx: Context,
    source_id: str,
    kept: BufferedRows,
    cut: SnapshotWindow,
    identity: str,
    holes: Sequence[EvidenceGap],
) -> LogEntries:
    faults = list(failures(kept.notes))
    if faults and source.export is None:
        raise SourceError(
            f"DynamoDB table {source.table}", str(faults[0]["reason"]), str(faults[0]["data"] or "")
        )
    tally = tally_of(kept.notes)
    odd = tally.items - tally.paths
    rows = kept.counts.get("entered", 0)
    if odd and not rows:
        raise SourceError(source.name, f"none of its {count(odd)} items describes a commit", _HINT)
    found = [EvidenceGap(source_id, str(note["reason"]), str(note["subject"])) for note in faults]
    found += (
        [EvidenceGap(source_id, f"{count(odd)} items do not describe a commit", source.name, count=odd)]
        if odd
        else []
    )
    return LogEntries(
        SourceInfo(source_id, "metastore", KIND, source.name, identity, cut, rows + odd, odd),
        kept,
        partial(stores, source_id, ctx.clients, cut.start - cut.margin, source.ttl),
        (*holes, *found),
    )


def _rows_of(source: DeltaLogStore, ctx: Context, source_id: str) -> ItemRows:
    rows = partial(entry_rows, ttl=source.ttl, scope=source.location, aliases=ctx.clients.aliases)
    return ItemRows(source_id, "entered", ITEM, rows)


def _require_keys(source: DeltaLogStore, clients: Clients) -> int:
    """Check the keys of the table; return DynamoDB's estimate of its number of items."""
    try:
        client = clients.dynamodb(dynamodb_endpoint(source.way))
        table: Mapping[str, Any] = required(client.describe_table(TableName=source.table or ""), "Table")
    except (ClientError, BotoCoreError) as error:
        raise SourceError(f"DynamoDB table {source.table}", *explain(error)) from error
    if [each["AttributeName"] for each in table.get("KeySchema", [])] != _KEYS:
        raise SourceError(f"DynamoDB table {source.table}", _OTHER, _HINT)
    return int(table.get("ItemCount", 0))


def probe(source: DeltaLogStore, clients: Clients, now: datetime) -> Probed:
    """See `registry.MetastoreKind`."""
    if source.export is not None:
        export, summary = find_export(clients, source.export, source.table, now)
        found = f"export {export.id} of {summary.table}, {count(summary.item_count)} items"
        return Probed(f"{found}, {age(summary.export_time, now)} old")
    items = _require_keys(source, clients)
    clients.dynamodb(dynamodb_endpoint(source.way)).scan(TableName=source.table or "", Limit=1)
    return Probed(f"can be scanned, about {count(items)} items")


def get_entry(source: DeltaLogStore, clients: Clients, bucket: str, key: str) -> dict[str, Any] | None:
    """Return the item of a commit's file as plain values by attribute name, read now; None: there is none.

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
            item_key = {"tablePath": {"S": path}, "fileName": {"S": name}}
            item = client.get_item(TableName=source.table or "", Key=item_key, ConsistentRead=True).get(
                "Item"
            )
            if item:
                return {each: next(iter(item[each].values())) for each in TYPES if each in item}
    except (ClientError, BotoCoreError) as error:
        raise SourceError(f"DynamoDB table {source.table}", *explain(error)) from error
    return None
