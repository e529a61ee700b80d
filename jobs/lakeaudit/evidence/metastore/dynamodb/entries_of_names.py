"""Read, look up and probe stores of file names in a DynamoDB table, live or from an export.

Such a store has the names of files and their times, without size and ETag. Each kind defines the layout of its items.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.aliases import whole_buckets
from lakeaudit.evidence.metastore.dynamodb import DynamoTable, NameStore
from lakeaudit.evidence.metastore.dynamodb.export import find_export, read_export
from lakeaudit.evidence.metastore.dynamodb.parts import ItemRows, export_part, failures, table_parts
from lakeaudit.evidence.metastore.dynamodb.places import with_places
from lakeaudit.evidence.metastore.dynamodb.tally import Tally, tally_of
from lakeaudit.evidence.protocol import (
    Clock,
    Context,
    Entries,
    Probed,
    SnapshotWindow,
    SourceInfo,
    identity_of,
    utc_now,
)
from lakeaudit.formatting import age, count
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint
from lakeaudit.runtime.duck import Connection, Rows, literal
from lakeaudit.schemas import ENTRY


@dataclass(frozen=True)
class NameLayout:
    """The layout of the items of a kind: plain data.

    `path` and `name` are SQL of a file's `/bucket/folder` and of its name; `keys` the table's keys; `types` the type of
    each attribute. `others` is SQL that selects items that are not entries but valid. `given` has SQL for columns of
    schemas.ENTRY, from the items' attributes and {at}, the time of the snapshot; `faults` has by SQL the reason why an
    item is invalid. `path_of` returns the keys that an item of (bucket, folder) may have. `writer` is the program that
    writes such tables.
    """

    keys: tuple[str, str]
    types: Mapping[str, str]
    path: str
    name: str
    others: str
    given: Mapping[str, str]
    faults: Mapping[str, str]
    path_of: Callable[[str, str], Iterable[str]]
    writer: str

    @property
    def items(self) -> pa.Schema:
        """Columns of a relation of items: null where the item lacks the attribute."""
        return pa.schema([(name, pa.struct([(kind, pa.string())])) for name, kind in self.types.items()])

    @property
    def hint(self) -> str:
        """The hint for a table of another kind."""
        return f"name a table that {self.writer} wrote"

    def read(self, source: NameStore, ctx: Context, source_id: str, clock: Clock = utc_now) -> Entries:
        """Return the entries of such a table, as `MetastoreKind.read`."""
        return read(self, source, ctx, source_id, clock)

    def probe(self, source: NameStore, clients: Clients, now: datetime) -> Probed:
        """Check that such a table can be read, as `MetastoreKind.probe`."""
        return probe(self, source, clients, now)

    def get_entry(self, source: NameStore, clients: Clients, bucket: str, key: str) -> dict[str, Any] | None:
        """Return the item of one key, as `MetastoreKind.get`."""
        return get_entry(self, source, clients, bucket, key)


@dataclass(frozen=True)
class NameRules:
    """The rules by which the items of a source are read. `buckets`: the true names of buckets by other names."""

    layout: NameLayout
    source: str
    at: datetime
    location: Location | None
    buckets: Mapping[str, str] = field(default_factory=dict)


def entry_rows(con: Connection, items: Rows, *, rules: NameRules) -> tuple[pa.Table, Tally]:
    """Return rows of schemas.ENTRY below the source's location, with rejected ones, and the tally of all items."""
    layout = rules.layout
    held = duck.hold(con, items)
    named = f"""
        SELECT * EXCLUDE ({", ".join(layout.keys)}), {layout.path} AS path, {layout.name} AS name
        FROM input
        WHERE NOT coalesce({layout.others}, false)
    """
    found = duck.hold(con, with_places(con, duck.query(con, named, input=held), rules.buckets))
    misfits = duck.query(con, "SELECT 1 FROM input WHERE NOT (in_bucket AND is_name)", input=found)
    read = duck.count_of(held)
    tally = Tally(read, read - duck.count_of(misfits))
    faults = {
        "NOT in_bucket": f"{layout.keys[0]} is not a path below a bucket",
        "NOT is_name": f"{layout.keys[1]} is not a name",
    }
    reasons = " ".join(
        f"WHEN {fails} THEN {literal(why)}" for fails, why in {**faults, **layout.faults}.items()
    )
    item = "' in the item of ' || coalesce(path, '?') || '/' || coalesce(name, '?')"
    at = literal(rules.at.astimezone(UTC))
    given = {
        **dict.fromkeys(("is_dir", "tombstone", "expired", "honoured", "authoritative", "opaque"), "false"),
        **dict.fromkeys(("size", "etag", "version_id", "mod_time"), "NULL"),
        **{name: value.format(at=at) for name, value in layout.given.items()},
        "source": literal(rules.source),
        "bare": "true",
        "reject": f"(CASE {reasons} END) || {item}",
    }
    inside = duck.query(con, f"SELECT * FROM input WHERE {_inside(rules.location)}", input=found)
    return duck.table(duck.conform(con, inside, ENTRY, given)), tally


def _inside(location: Location | None) -> str:
    """Return SQL of the rows of the location, and of rows whose place cannot be parsed."""
    if location is None:
        return "true"
    below = f"bucket = {literal(location.bucket)} AND starts_with(key, {literal(location.prefix)})"
    return f"NOT in_bucket OR NOT is_name OR coalesce({below}, false)"


def read(
    layout: NameLayout,
    source: NameStore,
    ctx: Context,
    source_id: str,
    clock: Clock = utc_now,
) -> Entries:
    """Return the entries below the source's location: by a live Scan, or from the newest fitting export.

    `source.keep` is the least time for which the store keeps its items; None: for ever.

    Raises:
        SourceError: the table or export cannot be read or is of another kind, or a live table is read for a past time.
    """
    if source.export is not None:
        return _exported(layout, source, source.export, ctx, source_id)
    if not ctx.live:
        raise SourceError(
            name_of(source), "a live table cannot show its past", "name an export, or leave --as-of out"
        )
    require_keys(layout, source, ctx.clients)
    start = clock()
    kept = ctx.engine.keep(table_parts(source, ctx, _item_rows(layout, source, ctx, source_id, start)))
    if faults := [(str(note["reason"]), str(note["data"])) for note in failures(kept.notes)]:
        raise SourceError(name_of(source), *max(faults))
    if fault := layout_fault(kept.notes, layout=layout):
        raise SourceError(name_of(source), fault, layout.hint)
    cut = SnapshotWindow(start, clock(), source.margin or timedelta(0))
    items = tally_of(kept.notes).items
    info = _info(source, source_id, f"scan of {source.table}: {count(items)} items", cut, items)
    return Entries(info, kept, _scope(source), source.keep, tree=False)


def _exported(
    layout: NameLayout,
    source: NameStore,
    place: Location,
    ctx: Context,
    source_id: str,
) -> Entries:
    export = read_export(place, source.table, ctx, source_id, source.margin)
    rows = _item_rows(layout, source, ctx, source_id, export.cut.start)
    known = (source.location, export.cut.start, whole_buckets(ctx.clients.aliases))
    parts = tuple(
        export_part(file, ctx.clients, rows, identity_of(f"{source.kind} export", source_id, file, known))
        for file in export.files
        if file.items
    )
    info = _info(source, source_id, export.identity, export.cut, sum(file.items for file in export.files))
    check = partial(layout_fault, layout=layout)
    return Entries(info, parts, _scope(source), source.keep, export.holes, check=check, tree=False)


def _item_rows(
    layout: NameLayout, source: DynamoTable, ctx: Context, source_id: str, at: datetime
) -> ItemRows:
    rules = NameRules(layout, source_id, at, source.location, whole_buckets(ctx.clients.aliases))
    return ItemRows(source_id, "entries", layout.items, partial(entry_rows, rules=rules))


def layout_fault(notes: Sequence[Mapping[str, Any]], *, layout: NameLayout) -> str | None:
    """Return why a table is of another kind, by the NOTE rows of all its parts; None: it is not."""
    tally = tally_of(notes)
    if not tally.items or tally.paths:
        return None
    return f"is not a table of {layout.writer}: none of its {count(tally.items)} items names a file below a bucket"


def require_keys(layout: NameLayout, source: DynamoTable, clients: Clients) -> int:
    """Check the keys of a table; return DynamoDB's estimate of its number of items.

    Raises:
        SourceError: it cannot be described, or has other keys.
    """
    try:
        client = clients.dynamodb(dynamodb_endpoint(source.way))
        table: Mapping[str, Any] = required(client.describe_table(TableName=source.table or ""), "Table")
    except (ClientError, BotoCoreError) as error:
        raise SourceError(name_of(source), *explain(error)) from error
    keys = tuple(each["AttributeName"] for each in table.get("KeySchema", []))
    if keys != layout.keys:
        raise SourceError(name_of(source), f"its keys are {', '.join(keys)}", layout.hint)
    return int(table.get("ItemCount", 0))


def probe(layout: NameLayout, source: DynamoTable, clients: Clients, now: datetime) -> Probed:
    """See `registry.MetastoreKind`."""
    if source.export is not None:
        export, summary = find_export(clients, source.export, source.table, now)
        found = f"export {export.id} of {summary.table}, {count(summary.item_count)} items"
        return Probed(f"{found}, {age(summary.export_time, now)} old")
    items = require_keys(layout, source, clients)
    clients.dynamodb(dynamodb_endpoint(source.way)).scan(TableName=source.table or "", Limit=1)
    return Probed(f"can be scanned, about {count(items)} items")


def get_entry(
    layout: NameLayout, source: DynamoTable, clients: Clients, bucket: str, key: str
) -> dict[str, Any] | None:
    """Return the item of one key as plain values by attribute name, by a consistent read; None: there is none.

    Raises:
        SourceError: the table cannot be read, or the source is an export, which has no point reads.
    """
    if source.export is not None or source.table is None:
        raise SourceError(
            name_of(source), "an export has no point reads", "see the last audit, or name the table"
        )
    client = clients.dynamodb(dynamodb_endpoint(source.way))
    folder, _, name = key.rstrip("/").rpartition("/")
    called = [bucket, *(by for by, true in whole_buckets(clients.aliases).items() if true == bucket)]
    try:
        for path in (path for each in called for path in layout.path_of(each, folder)):
            item_key = {layout.keys[0]: {"S": path}, layout.keys[1]: {"S": name}}
            item = client.get_item(TableName=source.table, Key=item_key, ConsistentRead=True).get("Item")
            if item:
                return {each: next(iter(item[each].values())) for each in layout.types if each in item}
    except (ClientError, BotoCoreError) as error:
        raise SourceError(name_of(source), *explain(error)) from error
    return None


def name_of(source: DynamoTable) -> str:
    """Return the name of the source in messages."""
    return source.export.uri if source.export is not None else f"DynamoDB table {source.table}"


def _info(source: DynamoTable, source_id: str, identity: str, cut: SnapshotWindow, items: int) -> SourceInfo:
    return SourceInfo(source_id, "metastore", source.kind, name_of(source), identity, cut, items)


def _scope(source: DynamoTable) -> tuple[Location, ...]:
    return () if source.location is None else (source.location,)
