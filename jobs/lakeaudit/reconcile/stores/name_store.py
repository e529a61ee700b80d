"""Read tables of EMRFS and s3mper, and write their items on the condition that they are unchanged.

Both store only the names of files. A row of s3mper is written as s3mper does it (Netflix/s3mper, DynamoDBMetastore):
one for the file with the time of its entry, and one in the index by time that points at it, with which s3mper purges
both. Items of EMRFS are only removed, and restored byte by byte: the form of their payload is not published.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake
from lakeaudit.evidence.metastore.dynamodb import DynamoTable
from lakeaudit.evidence.metastore.emrfs.layout import CONTROL
from lakeaudit.evidence.metastore.s3mper.layout import INDEX
from lakeaudit.evidence.s3_pages import holds_any
from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.reconcile.canary import fails
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.protocol import CannotActSafely, StateReader, Target
from lakeaudit.reconcile.stores.entry_store import PLAN, Item, Place, one_store, unreadable_reason
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

EMRFS, S3MPER = "emrfs", "s3mper"
_KEYS = {EMRFS: ("hashKey", "rangeKey"), S3MPER: ("path", "file")}
_KNOWN = {
    EMRFS: {"hashKey", "rangeKey", "lastModified", "deletionTTL", "payload", "counter"},
    S3MPER: {"path", "file", "epoch", "deleted", "dir", "linkPath", "linkFile", PLAN},
}
_CONTROL_ITEM = (CONTROL, "TableRole")
_NOBODY = "lakeaudit-canary"
_MOST = 30
"""Most attributes of an item that a condition can name."""


@dataclass(frozen=True)
class NameState:
    """The current state of a key: `item` of the table `store` at `place`, and the objects at and below the key."""

    store: str
    kind: str
    place: Place
    item: Item | None
    current: ObjectVersion | None
    keys_below: bool

    @property
    def is_deleted(self) -> bool:
        """Return whether the item marks the file as deleted."""
        item = self.item or {}
        if self.kind == S3MPER:
            return item.get("deleted") == {"S": "true"}
        return float(item.get("deletionTTL", {}).get("N", "0")) > 0


@dataclass(frozen=True)
class NameStore:
    """A live table of a kind. Every method raises ClientError and BotoCoreError."""

    table: str
    kind: str
    client: "DynamoDBClient"

    def key(self, place: Place) -> dict[str, dict[str, str]]:
        """Return the keys of an item."""
        return {name: {"S": part} for name, part in zip(_KEYS[self.kind], place, strict=True)}

    def read(self, place: Place) -> Item | None:
        """Return the item with these keys, by a consistent read; bytes in it are base64 text."""
        left: Any = {self.table: {"Keys": [self.key(place)], "ConsistentRead": True}}
        items: list[Any] = []
        while left:
            answer: Any = self.client.batch_get_item(RequestItems=left)
            items += required(answer, "Responses").get(self.table, [])
            left = answer.get("UnprocessedKeys")
        return {name: _as_text(value) for name, value in items[0].items()} if items else None

    def replace(self, place: Place, seen: Item | None, item: Item | None) -> None:
        """Replace `seen` by another item, or by none."""
        condition = self._unchanged_condition(seen)
        if item is not None:
            raw = {name: _as_bytes(value) for name, value in item.items()}
            self.client.put_item(TableName=self.table, Item=raw, **condition)
        elif seen is not None:
            self.client.delete_item(TableName=self.table, Key=self.key(place), **condition)

    def _unchanged_condition(self, item: Item | None) -> dict[str, Any]:
        """Return the condition that an item has exactly these attributes among those of its kind."""
        named = {*_KNOWN[self.kind], *(item or {})} if item is not None else {_KEYS[self.kind][0]}
        aliases = {f"#a{number}": name for number, name in enumerate(sorted(named))}
        seen = {alias: _as_bytes(item[name]) for alias, name in aliases.items() if item and name in item}
        terms = [f"{a} = :{a[1:]}" if a in seen else f"attribute_not_exists({a})" for a in aliases]
        condition: dict[str, Any] = {
            "ConditionExpression": " AND ".join(terms),
            "ExpressionAttributeNames": aliases,
        }
        values = {f":{alias[1:]}": value for alias, value in seen.items()}
        return condition | ({"ExpressionAttributeValues": values} if values else {})

    def honours_conditions(self) -> bool:
        """Return whether every form of a condition fails if it does not hold, by requests that change nothing."""
        try:
            standing = self._standing()
            return standing is not None and all(fails(form) for form in self._wrong(standing))
        except (ClientError, BotoCoreError):
            return False

    def _standing(self) -> Item | None:
        """Return an item that is never overwritten: EMRFS's control item, or one of s3mper's index."""
        if self.kind == EMRFS:
            return self.read(_CONTROL_ITEM)
        answer: Any = self.client.query(
            TableName=self.table,
            KeyConditionExpression="#path = :index",
            ExpressionAttributeNames={"#path": "path"},
            ExpressionAttributeValues={":index": {"S": INDEX}},
            ConsistentRead=True,
            Limit=1,
        )
        return next(iter(required(answer, "Items")), None)

    def _wrong(self, standing: Item) -> list[Callable[[], None]]:
        first, second = _KEYS[self.kind]
        place = (standing[first]["S"], standing[second]["S"])
        nothing: Item = {**self.key((_NOBODY, _NOBODY)), PLAN: {"S": _NOBODY}}
        return [
            partial(self.replace, place, None, standing),
            partial(self.replace, place, {**standing, PLAN: {"S": _NOBODY}}, standing),
            partial(self.replace, (_NOBODY, _NOBODY), nothing, None),
        ]


def _as_text(value: Mapping[str, Any]) -> dict[str, Any]:
    return {kind: base64.b64encode(v).decode() if kind == "B" else v for kind, v in value.items()}


def _as_bytes(value: Mapping[str, Any]) -> dict[str, Any]:
    return {kind: base64.b64decode(v) if kind == "B" else v for kind, v in value.items()}


def name_table_of(lake: Lake, bucket: str, key: str) -> DynamoTable | None:
    """Return the live table of names for a key; None: there is not exactly one, or it is of another kind."""
    store = one_store(lake, bucket, key)
    return store if isinstance(store, DynamoTable) and store.kind in _KEYS else None


def open_store(source: DynamoTable, clients: Clients) -> NameStore:
    """Return the live table of a source."""
    return NameStore(source.table or "", source.kind, clients.dynamodb(dynamodb_endpoint(source.way)))


def require_store(target: Target) -> NameStore:
    """Return the table of a key, after a test that it honours conditions. Raises CannotActSafely."""
    source = name_table_of(target.lake, target.bucket, target.key)
    if source is None:
        raise CannotActSafely("there is no longer exactly one table of EMRFS or s3mper for its key")
    store = open_store(source, target.clients)
    if not target.forms.holds(f"dynamodb:{store.table}", store.honours_conditions):
        raise CannotActSafely("the metadata store does not honour conditions")
    return store


def name_of(reader: StateReader, bucket: str, key: str) -> NameState:
    """Read the item of a key and the object in storage. Raises Unclear."""
    source = name_table_of(reader.lake, bucket, key)
    if source is None:
        raise Unclear("there is not exactly one table of EMRFS or s3mper for its key")
    store, place = open_store(source, reader.clients), place_in(source.kind, bucket, key)
    current = reader.keys.read(bucket, key.rstrip("/")).current
    try:
        reader.keys.pace()
        item = store.read(place)
        below = current is None and _has_keys(reader, bucket, f"{key.rstrip('/')}/")
    except (ClientError, BotoCoreError) as error:
        raise Unclear(unreadable_reason(error, store.table)) from error
    if item is not None and not _is_plain(item):
        raise Unclear(f"an item of metadata store {store.table} has attributes that no condition can name")
    return NameState(store.table, source.kind, place, item, current, below)


def place_in(kind: str, bucket: str, key: str) -> Place:
    """Return the keys of the item."""
    folder, _, name = key.rstrip("/").rpartition("/")
    root = f"//{bucket}" if kind == S3MPER else f"/{bucket}"
    return f"{root}/{folder}".rstrip("/"), name


def _is_plain(item: Item) -> bool:
    types = {kind for value in item.values() for kind in value}
    return len(item) <= _MOST and types <= {"S", "N", "BOOL", "B"}


def _has_keys(reader: StateReader, bucket: str, prefix: str) -> bool:
    reader.keys.pace()
    return holds_any(reader.clients.s3(bucket, prefix), bucket, prefix)
