"""Read Hadoop's S3Guard: the metadata store of S3A in DynamoDB (Hadoop 3.0 to 3.3), live or as an export.

`items` parses its items, `layout` recognises its tables.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.aliases import whole_buckets
from lakeaudit.evidence.metastore.dynamodb.export import read_export
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.metastore.s3guard.export_rows import read_file
from lakeaudit.evidence.metastore.s3guard.items import entry_rules
from lakeaudit.evidence.metastore.s3guard.layout import (
    ITEMS,
    LAYOUT,
    MARKER,
    fault_of,
    layout_error,
    layout_fault,
    name_of,
)
from lakeaudit.evidence.metastore.s3guard.scan import scan
from lakeaudit.evidence.protocol import (
    Clock,
    Context,
    Entries,
    Part,
    SnapshotWindow,
    SourceInfo,
    identity_of,
    utc_now,
)
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import code_of, explain
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint


def read(source: S3Guard, ctx: Context, source_id: str, clock: Clock = utc_now) -> Entries:
    """Return the entries below the source's location: by a live Scan, or from the newest fitting export.

    The layout of a large export is known only once its parts were read, see `layout.layout_fault`.

    Raises:
        SourceError: the table or export cannot be read, has another layout, or a live table is read for a past time.
    """
    if source.export is not None:
        return _exported(source, source.export, ctx, source_id)
    return _live(source, ctx, source_id, clock)


def get_entry(source: S3Guard, clients: Clients, bucket: str, key: str) -> dict[str, Any] | None:
    """Return the item of one key as plain values by attribute name, by a consistent read; None: there is none.

    Raises:
        SourceError: the table cannot be read, or the source is an export, which has no point reads.
    """
    if source.export is not None or source.table is None:
        raise SourceError(
            name_of(source), "an export has no point reads", "see the last audit, or name the table"
        )
    names = [bucket, *(name for name, true in whole_buckets(clients.aliases).items() if true == bucket)]
    paths = (f"/{name}/{key.rstrip('/')}".rpartition("/") for name in names)
    found = (_get(source, clients, parent, child) for parent, _, child in paths)
    item = next((item for item in found if item is not None), None)
    return None if item is None else {name: next(iter(value.values())) for name, value in item.items()}


def _exported(source: S3Guard, place: Location, ctx: Context, source_id: str) -> Entries:
    export = read_export(place, source.table, ctx, source_id, source.margin, ITEMS)
    fault = fault_of(export.tally, complete=export.tallied_whole and not export.holes)
    if fault is not None:
        raise layout_error(source, fault)
    rules = entry_rules(source, source_id, export.cut.start, ctx.clients.aliases)
    read = partial(read_file, clients=ctx.clients, rules=rules)
    parts = tuple(
        # the MD5 is that of the content: `read_export` has compared them
        Part(
            source_id,
            partial(read, file=file),
            file.size,
            identity_of("s3guard export", file, rules),
            slow=True,
        )
        for file in export.files
        if file.items
    )
    info = _info(source, source_id, export.identity, export.cut, sum(file.items for file in export.files))
    check = partial(layout_fault, has_holes=bool(export.holes))
    return Entries(info, parts, _scope(source), source.ttl, export.holes, check=check)


def _live(source: S3Guard, ctx: Context, source_id: str, clock: Clock) -> Entries:
    if not ctx.live:
        raise SourceError(
            name_of(source), "a live table cannot show its past", "name an export, or leave --as-of out"
        )
    _check_marker(_get(source, ctx.clients, MARKER, MARKER), source, ctx.clients)
    start = clock()
    table, rules = source.table or "", entry_rules(source, source_id, start, ctx.clients.aliases)
    kept, count = scan(table, dynamodb_endpoint(source.way), rules, ctx, source.way.read_capacity)
    cut = SnapshotWindow(start, clock(), source.margin or timedelta(0))
    info = _info(source, source_id, f"scan of {table}: {count} items", cut, count)
    return Entries(info, kept, _scope(source), source.ttl)


def _info(source: S3Guard, source_id: str, identity: str, cut: SnapshotWindow, items: int) -> SourceInfo:
    return SourceInfo(source_id, "metastore", source.kind, name_of(source), identity, cut, items)


def _scope(source: S3Guard) -> tuple[Location, ...]:
    return () if source.location is None else (source.location,)


def _check_marker(item: Mapping[str, Any] | None, source: S3Guard, clients: Clients) -> None:
    """Raise SourceError for a table without the marker that is not empty, or of another version, as Hadoop does."""
    if item is None:
        if _call(source, clients, "scan", Limit=1).get("Items") != []:
            raise layout_error(source, f"it has no {MARKER} item")
        return
    version = item.get("table_version", {}).get("N")
    if version != LAYOUT:
        raise layout_error(source, f"its version is {version}, not {LAYOUT}")


def _get(source: S3Guard, clients: Clients, parent: str, child: str) -> dict[str, Any] | None:
    keys = {"parent": {"S": parent}, "child": {"S": child}}
    answer = _call(source, clients, "get_item", Key=keys, ConsistentRead=True)
    item: dict[str, Any] | None = answer.get("Item")
    return item


def _call(source: S3Guard, clients: Clients, operation: str, **request: Any) -> dict[str, Any]:
    client = clients.dynamodb(dynamodb_endpoint(source.way))
    try:
        answer: dict[str, Any] = getattr(client, operation)(TableName=source.table, **request)
    except ClientError as error:
        if code_of(error) == "ValidationException":
            raise layout_error(source, "its keys are not parent and child") from error
        raise SourceError(name_of(source), *explain(error)) from error
    except BotoCoreError as error:
        raise SourceError(name_of(source), *explain(error)) from error
    return answer
