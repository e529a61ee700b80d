"""Tables of EMRFS and s3mper as they are now, and writes of their items on the condition that they are as they were.

Both know files by their names alone. A row of s3mper is written as s3mper does it (Netflix/s3mper, DynamoDBMetastore):
the file's with the time at which it was entered, and one of the index by time that points at it, by which s3mper purges
both. Items of EMRFS are only removed, and put back byte by byte: what is in their payload nobody has published.
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
from lakeaudit.reconcile.entry_store import PLAN, Item, Place, one_store, refused
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.protocol import NotProved, Sight, Target
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_responses import required
from lakeaudit.runtime.endpoints import dynamodb_endpoint

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
"""Attributes of an item that a condition still names."""


@dataclass(frozen=True)
class NameState:
    """What there is of a key now: `item` of the table `store` at `place`, and what storage has there and below."""

    store: str
    kind: str
    place: Place
    item: Item | None
    current: ObjectVersion | None
    keys_below: bool

    @property
    def is_deleted(self) -> bool:
        """Whether the item says that the file was deleted."""
        item = self.item or {}
        if self.kind == S3MPER:
            return item.get("deleted") == {"S": "true"}
        return float(item.get("deletionTTL", {}).get("N", "0")) > 0


@dataclass(frozen=True)
class NameStore:
    """A live table of a kind. Raises, from every method, ClientError and BotoCoreError."""

    table: str
    kind: str
    client: "DynamoDBClient"

    def key(self, place: Place) -> dict[str, dict[str, str]]:
        """The keys of an item."""
        return {name: {"S": part} for name, part in zip(_KEYS[self.kind], place, strict=True)}

    def read(self, place: Place) -> Item | None:
        """The item of a place, by a consistent read; bytes in it are base64 text."""
        left: Any = {self.table: {"Keys": [self.key(place)], "ConsistentRead": True}}
        found: list[Any] = []
        while left:
            answer: Any = self.client.batch_get_item(RequestItems=left)
            found += required(answer, "Responses").get(self.table, [])
            left = answer.get("UnprocessedKeys")
        return {name: _as_text(value) for name, value in found[0].items()} if found else None

    def replace(self, place: Place, seen: Item | None, wanted: Item | None) -> None:
        """Put what is wanted, perhaps nothing, in the place of what was seen there."""
        condition = self._as_seen(seen)
        if wanted is not None:
            item = {name: _as_bytes(value) for name, value in wanted.items()}
            self.client.put_item(TableName=self.table, Item=item, **condition)
        elif seen is not None:
            self.client.delete_item(TableName=self.table, Key=self.key(place), **condition)

    def _as_seen(self, item: Item | None) -> dict[str, Any]:
        """The condition that an item has the attributes that were seen, and of those of its kind no other."""
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
        """Whether every form of a condition that is used here was shown to fail, by requests that change nothing."""
        try:
            standing = self._standing()
            return standing is not None and all(fails(form) for form in self._wrong(standing))
        except (ClientError, BotoCoreError):
            return False

    def _standing(self) -> Item | None:
        """An item that nobody writes a second time: EMRFS's control item, or one of s3mper's index."""
        if self.kind == EMRFS:
            return self.read(_CONTROL_ITEM)
        found: Any = self.client.query(
            TableName=self.table,
            KeyConditionExpression="#path = :index",
            ExpressionAttributeNames={"#path": "path"},
            ExpressionAttributeValues={":index": {"S": INDEX}},
            ConsistentRead=True,
            Limit=1,
        )
        return next(iter(required(found, "Items")), None)

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


def names_of(lake: Lake, bucket: str, key: str) -> DynamoTable | None:
    """The one live table of names that readers of a key go by; None: there is none, or it is of another kind."""
    store = one_store(lake, bucket, key)
    return store if isinstance(store, DynamoTable) and store.kind in _KEYS else None


def opened(source: DynamoTable, clients: Clients) -> NameStore:
    """The live table of a source."""
    return NameStore(source.table or "", source.kind, clients.dynamodb(dynamodb_endpoint(source.way)))


def proved(target: Target) -> NameStore:
    """The table of a key, which honours conditions. Raises NotProved."""
    source = names_of(target.lake, target.bucket, target.key)
    if source is None:
        raise NotProved("no one table of EMRFS or s3mper holds its key any more")
    store = opened(source, target.clients)
    if not target.forms.holds(f"dynamodb:{store.table}", store.honours_conditions):
        raise NotProved("the metadata store was not shown to honour conditions")
    return store


def name_of(sight: Sight, bucket: str, key: str) -> NameState:
    """The item of a key, and what storage has there. Raises Unclear."""
    source = names_of(sight.lake, bucket, key)
    if source is None:
        raise Unclear("no one table of EMRFS or s3mper holds its key")
    store, place = opened(source, sight.clients), place_in(source.kind, bucket, key)
    current = sight.keys.read(bucket, key.rstrip("/")).current
    try:
        sight.keys.pace()
        item = store.read(place)
        below = current is None and _has_keys(sight, bucket, f"{key.rstrip('/')}/")
    except (ClientError, BotoCoreError) as error:
        raise Unclear(refused(error, store.table)) from error
    if item is not None and not _is_plain(item):
        raise Unclear(f"an item of metadata store {store.table} has attributes that no condition can name")
    return NameState(store.table, source.kind, place, item, current, below)


def place_in(kind: str, bucket: str, key: str) -> Place:
    """Where the item of a key lies."""
    folder, _, name = key.rstrip("/").rpartition("/")
    root = f"//{bucket}" if kind == S3MPER else f"/{bucket}"
    return f"{root}/{folder}".rstrip("/"), name


def _is_plain(item: Item) -> bool:
    types = {kind for value in item.values() for kind in value}
    return len(item) <= _MOST and types <= {"S", "N", "BOOL", "B"}


def _has_keys(sight: Sight, bucket: str, prefix: str) -> bool:
    sight.keys.pace()
    return holds_any(sight.clients.s3(bucket, prefix), bucket, prefix)
