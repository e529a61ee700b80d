"""An S3Guard table as it is now, and writes of its items on the condition that they are as they were seen.

DynamoDB has no version of an item, so a condition names every attribute that was seen, and of those that S3Guard knows
the ones that were not there. What takes DynamoDB's requests and ignores conditions is found by writes that must fail
and would change nothing if they did not: the table's own marker in its place, and the removal of what is not there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.advice.command_lines import operand
from lakeaudit.config import Lake
from lakeaudit.evidence.metastore.dynamodb import DynamoTable
from lakeaudit.evidence.metastore.s3guard.items import ATTRIBUTES
from lakeaudit.evidence.metastore.s3guard.layout import MARKER
from lakeaudit.reconcile.canary import fails
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain
from lakeaudit.runtime.aws_responses import required
from lakeaudit.runtime.endpoints import dynamodb_endpoint

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = Mapping[str, Mapping[str, Any]]
"""As DynamoDB's JSON has it."""
Place = tuple[str, str]
"""`parent` and `child` of an item."""

PLAN = "lakeaudit_plan"
"""The plan that wrote an item, in an attribute of our own: Hadoop reads those that it knows, and writes items whole."""
_KNOWN = {*ATTRIBUTES, "block_size", PLAN}
_MOST = 30
"""Attributes of an item that a condition still names."""
_CANARY = "lakeaudit-canary"


def place_of(item: Item) -> Place:
    """Where an item lies."""
    return item["parent"]["S"], item["child"]["S"]


def keys_of(place: Place) -> dict[str, dict[str, str]]:
    """The keys of an item."""
    return {"parent": {"S": place[0]}, "child": {"S": place[1]}}


def is_plain(item: Item) -> bool:
    """Whether a condition can name all that it has."""
    types = [name for value in item.values() for name in value]
    return len(item) <= _MOST and set(types) <= {"S", "N", "BOOL"}


def as_seen(item: Item | None) -> dict[str, Any]:
    """The condition that an item is as it was seen; None: that there is none."""
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
    """A live table. Raises, from every method, ClientError and BotoCoreError."""

    table: str
    client: "DynamoDBClient"

    def read(self, places: Sequence[Place]) -> list[Item | None]:
        """The items of some places, by consistent reads."""
        found: dict[Place, Item] = {}
        left: Any = {self.table: {"Keys": [keys_of(place) for place in places], "ConsistentRead": True}}
        while left:
            answer: Any = self.client.batch_get_item(RequestItems=left)
            found |= {place_of(item): item for item in required(answer, "Responses").get(self.table, [])}
            left = answer.get("UnprocessedKeys")
        return [found.get(place) for place in places]

    def has_entries(self, folder: str) -> bool:
        """Whether any item has this folder as its parent."""
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
        """Write an item in the place of what was seen there."""
        self.client.put_item(TableName=self.table, Item=dict(item), **as_seen(seen))

    def remove(self, seen: Item) -> None:
        """Remove an item that was seen."""
        self.client.delete_item(TableName=self.table, Key=keys_of(place_of(seen)), **as_seen(seen))

    def replace(self, seen: Item | None, wanted: Item | None) -> None:
        """Put what is wanted, perhaps nothing, in the place of what was seen there."""
        if wanted is not None:
            self.put(wanted, seen)
        elif seen is not None:
            self.remove(seen)

    def honours_conditions(self) -> bool:
        """Whether every form of a condition that is used here was shown to fail."""
        try:
            (marker,) = self.read([(MARKER, MARKER)])
            return marker is not None and all(fails(form) for form in self._wrong(marker))
        except (ClientError, BotoCoreError):
            return False

    def _wrong(self, marker: Item) -> list[Callable[[], None]]:
        """Writes whose condition does not hold, and which change nothing where it is ignored."""
        other: Item = {**marker, "table_created": {"N": "1"}}
        nothing: Item = {**keys_of((MARKER, _CANARY)), "is_deleted": {"BOOL": False}}
        return [
            partial(self.put, marker, other),
            partial(self.put, marker, None),
            partial(self.remove, nothing),
        ]


def store_of(lake: Lake, bucket: str, key: str) -> DynamoTable | str:
    """The one live table of S3Guard that readers of a key go by; a text says why there is none."""
    store = one_store(lake, bucket, key)
    if isinstance(store, DynamoTable) and store.kind != "s3guard":
        return by_its_own_tool(store, bucket, key)
    return store


_WRITTEN = ("s3guard", "emrfs", "s3mper")
"""Kinds of metadata stores whose items are written here, or by a tool of their own."""


def one_store(lake: Lake, bucket: str, key: str) -> DynamoTable | str:
    """The one live table that readers of a key go by, of whichever kind; a text says why there is none."""
    around = [
        store
        for store in lake.metastores
        if store.knows_files and (store.location is None or store.location.holds(bucket, key))
    ]
    if len(around) != 1:
        return f"{len(around)} metadata stores of the lake file hold its key"
    (store,) = around
    if not isinstance(store, DynamoTable) or store.kind not in _WRITTEN:
        return f"nothing here writes to a metadata store of kind {store.kind}"
    if store.export is not None or store.table is None:
        return "its metadata store is known by an export only: name the live table in the lake file"
    if any(bucket in (alias.bucket, place.bucket) for alias, place in lake.aliases):
        return "its bucket has several names, and entries may lie under each"
    return store


def by_its_own_tool(store: DynamoTable, bucket: str, key: str) -> str:
    """The command of the store's own that mends it: the form of EMRFS's payload is not published."""
    folder = operand(f"s3://{bucket}/{key.rpartition('/')[0]}")
    if store.kind == "s3mper":
        return (
            f"by its own tool `s3mper meta resolve {folder}` marks what storage lacks; "
            "what is marked wrongly goes once its rows are purged (`s3mper meta delete_path`)"
        )
    named = "" if store.table is None else f" -m {operand(store.table)}"
    return (
        f"only EMRFS can write its items: `emrfs import{named} {folder}` enters what storage has; "
        "`emrfs sync` also forgets what storage has lost, so bring that back first"
    )


def opened(source: DynamoTable, clients: Clients) -> EntryStore:
    """The live table of a source that `store_of` gave."""
    return EntryStore(source.table or "", clients.dynamodb(dynamodb_endpoint(source.way)))


def refused(error: Exception, table: str) -> str:
    """Why the store did not answer."""
    return f"metadata store {table} cannot be read: {explain(error).what}"
