"""Read an S3Guard table, and write its items on the condition that they are unchanged.

DynamoDB has no version of an item, so a condition names every attribute that was read, and the absence of the other
attributes of S3Guard. A store that ignores conditions is detected by writes that must fail and would change nothing if
they did not: the table's own marker in its place, and the removal of an item that does not exist.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.advice.command_lines import operand
from lakeaudit.config import Lake
from lakeaudit.evidence.metastore.dynamodb import DynamoTable
from lakeaudit.evidence.metastore.dynamodb.permissions import on_table
from lakeaudit.evidence.metastore.s3guard.items import ATTRIBUTES
from lakeaudit.evidence.metastore.s3guard.layout import MARKER
from lakeaudit.grants import GET, LIST, LIST_VERSIONS, VERSIONING, Grant, S3Grant
from lakeaudit.reconcile.canary import fails
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = Mapping[str, Mapping[str, Any]]
"""An item in DynamoDB's JSON."""
Place = tuple[str, str]
"""`parent` and `child` of an item."""

S3GUARD = "s3guard"
PLAN = "lakeaudit_plan"
"""Additional attribute with the plan that wrote an item: Hadoop ignores it, and replaces whole items."""
_KNOWN = {*ATTRIBUTES, "block_size", PLAN}
_MOST = 30
"""Most attributes of an item that a condition can name."""
_CANARY = "lakeaudit-canary"


def place_of(item: Item) -> Place:
    """Return parent and child of an item."""
    return item["parent"]["S"], item["child"]["S"]


def keys_of(place: Place) -> dict[str, dict[str, str]]:
    """Return the keys of an item."""
    return {"parent": {"S": place[0]}, "child": {"S": place[1]}}


def is_plain(item: Item) -> bool:
    """Return whether a condition can name all attributes of an item."""
    types = [name for value in item.values() for name in value]
    return len(item) <= _MOST and set(types) <= {"S", "N", "BOOL"}


def unchanged_condition(item: Item | None) -> dict[str, Any]:
    """Return the condition that an item is unchanged; None: that there is no item."""
    if item is None:
        return {
            "ConditionExpression": "attribute_not_exists(#key)",
            "ExpressionAttributeNames": {"#key": "parent"},
        }
    names = {f"#a{n}": name for n, name in enumerate(sorted({*item, *_KNOWN}))}
    terms = [
        f"{alias} = :{alias[1:]}" if name in item else f"attribute_not_exists({alias})"
        for alias, name in names.items()
    ]
    values = {f":{alias[1:]}": item[name] for alias, name in names.items() if name in item}
    return {
        "ConditionExpression": " AND ".join(terms),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


@dataclass(frozen=True)
class EntryStore:
    """A live table. Every method raises ClientError and BotoCoreError."""

    table: str
    client: "DynamoDBClient"

    def read(self, places: Sequence[Place]) -> list[Item | None]:
        """Return the items with these keys, by consistent reads."""
        items: dict[Place, Item] = {}
        left: Any = {self.table: {"Keys": [keys_of(place) for place in places], "ConsistentRead": True}}
        while left:
            answer: Any = self.client.batch_get_item(RequestItems=left)
            items |= {place_of(item): item for item in required(answer, "Responses").get(self.table, [])}
            left = answer.get("UnprocessedKeys")
        return [items.get(place) for place in places]

    def has_entries(self, folder: str) -> bool:
        """Return whether any item has this folder as its parent."""
        answer: Any = self.client.query(
            TableName=self.table,
            KeyConditionExpression="#parent = :folder",
            ExpressionAttributeNames={"#parent": "parent"},
            ExpressionAttributeValues={":folder": {"S": folder}},
            ConsistentRead=True,
            Limit=1,
        )
        return bool(required(answer, "Items"))

    def put(self, item: Item, seen: Item | None) -> None:
        """Write an item on the condition that `seen` is still there."""
        self.client.put_item(TableName=self.table, Item=dict(item), **unchanged_condition(seen))

    def remove(self, seen: Item) -> None:
        """Remove an item on the condition that it is unchanged."""
        self.client.delete_item(
            TableName=self.table, Key=keys_of(place_of(seen)), **unchanged_condition(seen)
        )

    def replace(self, seen: Item | None, item: Item | None) -> None:
        """Replace `seen` by another item, or by none."""
        if item is not None:
            self.put(item, seen)
        elif seen is not None:
            self.remove(seen)

    def honours_conditions(self) -> bool:
        """Return whether every form of a condition fails if it does not hold."""
        try:
            (marker,) = self.read([(MARKER, MARKER)])
            return marker is not None and all(fails(form) for form in self._wrong(marker))
        except (ClientError, BotoCoreError):
            return False

    def _wrong(self, marker: Item) -> list[Callable[[], None]]:
        """Return writes whose condition does not hold, and which change nothing if it is ignored."""
        other: Item = {**marker, "table_created": {"N": "1"}}
        nothing: Item = {**keys_of((MARKER, _CANARY)), "is_deleted": {"BOOL": False}}
        return [
            partial(self.put, marker, other),
            partial(self.put, marker, None),
            partial(self.remove, nothing),
        ]


def store_grants(lake: Lake, kinds: Collection[str], operations: tuple[str, ...]) -> Iterator[Grant]:
    """Yield the grants of these operations on live tables of some kinds, and to read the files at their places."""
    for store in lake.metastores:
        if isinstance(store, DynamoTable) and store.kind in kinds and store.live_table is not None:
            yield from on_table(store, "RepairEntries", operations)
            if store.location is not None:
                yield S3Grant(
                    "ReadFilesOfMetadataStores", store.location, (GET, LIST, LIST_VERSIONS, VERSIONING)
                )


def store_of(lake: Lake, bucket: str, key: str) -> DynamoTable | str:
    """Return the live table of S3Guard for a key, or a text with the reason why there is not exactly one."""
    store = one_store(lake, bucket, key)
    if isinstance(store, DynamoTable) and store.kind != S3GUARD:
        return by_its_own_tool(store, bucket, key)
    return store


_WRITTEN = (S3GUARD, "emrfs", "s3mper")
"""Kinds of metadata stores whose items reconcile or a tool of the store can write."""


def one_store(lake: Lake, bucket: str, key: str) -> DynamoTable | str:
    """Return the live table of any kind for a key, or a text with the reason why there is not exactly one."""
    around = [
        store
        for store in lake.metastores
        if store.knows_files and (store.location is None or store.location.holds(bucket, key))
    ]
    if len(around) != 1:
        return f"{len(around)} metadata stores of the lake file contain its key"
    (store,) = around
    if not isinstance(store, DynamoTable) or store.kind not in _WRITTEN:
        return f"reconcile cannot write to a metadata store of kind {store.kind}"
    if store.export is not None or store.table is None:
        return "the lake file names only an export of its metadata store: name the live table"
    if any(bucket in (alias.bucket, place.bucket) for alias, place in lake.aliases):
        return "its bucket has several names, and entries may exist under each"
    return store


def by_its_own_tool(store: DynamoTable, bucket: str, key: str) -> str:
    """Return the command of the store's own tool that repairs the entry: EMRFS's payload has no published form."""
    folder = operand(f"s3://{bucket}/{key.rpartition('/')[0]}")
    if store.kind == "s3mper":
        return (
            f"`s3mper meta resolve {folder}` marks files that storage lacks as deleted; "
            "`s3mper meta delete_path` purges rows that are marked wrongly"
        )
    named = "" if store.table is None else f" -m {operand(store.table)}"
    return (
        f"only EMRFS can write its items: `emrfs import{named} {folder}` enters the files of storage; "
        "`emrfs sync` also drops files that storage has lost, so restore these first"
    )


def open_store(source: DynamoTable, clients: Clients) -> EntryStore:
    """Return the live table of a source from `store_of`."""
    return EntryStore(source.table or "", clients.dynamodb(dynamodb_endpoint(source.way)))


def unreadable_reason(error: Exception, table: str) -> str:
    """Return why the store did not answer."""
    return f"metadata store {table} cannot be read: {explain(error).what}"
