"""`object_list`: a small metadata store over HTTP, which docs/add-a-kind.md names as an example, and its server.

`GET {uri}/v1/{bucket}?after=token` answers {"objects": [{"key", "size", "etag", "updated", "deleted"}], "next": token}.
The store has sizes and no folders. A real reader would also reject an object with a wrong size, time or ETag.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from lakeaudit.config import MetastoreSource
from lakeaudit.config.field_types import EnvName, Text, Url
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.http import CatalogClient, all_items
from lakeaudit.evidence.catalog.source import HttpAccess
from lakeaudit.evidence.kind import MetastoreKind
from lakeaudit.evidence.protocol import (
    Batches,
    Clock,
    Context,
    Entries,
    Part,
    Probed,
    SnapshotWindow,
    SourceInfo,
    note_row,
    utc_now,
)
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import ENTRY, plain_time
from tests.builders.rest_catalog import Answer, Params, RestCatalog

TOKEN = "s3same-open-up"


class ObjectList(MetastoreSource):
    """The entry of the lake file."""

    has_tree = False

    kind: Literal["object_list"]
    uri: Url
    bearer_env: EnvName
    buckets: tuple[Text, ...]

    @property
    def name(self) -> str:
        return self.uri

    @property
    def has_point_reads(self) -> bool:
        return False

    @property
    def scope(self) -> tuple[Location, ...]:
        return (self.location,) if self.location else tuple(Location(each, "") for each in self.buckets)


def read(source: ObjectList, ctx: Context, source_id: str, clock: Clock = utc_now) -> Entries:
    """Read every bucket in a task of its own, now: the list may change while the audit runs."""
    start = clock()
    parts = [Part(source_id, _Bucket(source_id, place, source, _token(source))) for place in source.scope]
    rows = ctx.engine.keep(parts)
    for note in rows.notes:
        raise SourceError(source.name, str(note["reason"]), "check uri and the store's own log")
    window = SnapshotWindow(start, clock())
    info = SourceInfo(
        source_id, "metastore", source.kind, source.name, "a list", window, rows.counts["entries"]
    )
    return Entries(info, rows, source.scope, ttl=None, tree=False)


@dataclass(frozen=True)
class _Bucket:
    """Reads one bucket; it travels to a task, so it has the token: executors may lack the variable."""

    source_id: str
    place: Location
    source: ObjectList
    token: str = field(repr=False)

    def __call__(self, _: Connection) -> Batches:
        same = {"source": self.source_id, "bucket": self.place.bucket}
        rows: list[dict[str, Any]] = []
        client, path = _client(self.source, self.token), f"v1/{self.place.bucket}"
        try:
            rows += [_row(each) | same for each in all_items(client, path, ("after", "next"), "objects")]
        except SourceError as error:
            yield "notes", note_row(self.source_id, self.place.uri, error.what, count=1)
        inside = [row for row in rows if row["reject"] or self.place.holds(row["bucket"], row["key"])]
        yield "entries", pa.Table.from_pylist(inside, ENTRY)


def _row(entry: object) -> dict[str, Any]:
    """Return a row of ENTRY; an object that cannot be understood is a row with nothing but the reason."""
    if not isinstance(entry, dict) or not isinstance(entry.get("key"), str) or not entry["key"]:
        return {"reject": "an object of the list has no key"}
    return {
        "key": entry["key"],
        "parent": "",  # it has no folders
        "is_dir": False,
        "tombstone": bool(entry.get("deleted")),
        "expired": False,
        "honoured": False,
        "authoritative": False,
        "size": entry.get("size"),
        "etag": entry.get("etag"),
        "last_updated": plain_time(datetime.fromisoformat(entry["updated"])),
        "last_updated_given": True,
        "reject": None,
    }


def probe(source: ObjectList, _: Clients, __: datetime) -> Probed:
    client = _client(source, _token(source))
    for place in source.scope:
        client.get(f"v1/{place.bucket}", limit="1")
    return Probed(f"answers; {len(source.scope)} buckets can be listed")


def get(source: ObjectList, _: Clients, __: str, ___: str) -> dict[str, Any] | None:
    raise SourceError(source.name, "the store has no point reads", "see the last audit")


def _client(source: ObjectList, token: str) -> CatalogClient:
    access = HttpAccess(source.name, bearer_env=source.bearer_env, noun="the store")
    return CatalogClient(access, source.uri, {source.bearer_env: token})


def _token(source: ObjectList) -> str:
    """Return the token: only the driver surely has the variable, so it is read here."""
    return os.environ.get(source.bearer_env, "")


KIND = MetastoreKind(
    name="object_list", title="an object list", model=ObjectList, read=read, probe=probe, get=get
)


@dataclass
class ListServer(RestCatalog):
    """The objects by bucket, in pages of `page`."""

    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    objects: Mapping[str, list[Any]] = field(default_factory=dict)

    def content(self, path: str, params: Params) -> Answer:
        found = self.objects.get(path.removeprefix("/v1/"))
        if found is None:
            return 404, {"error": "no such bucket"}
        start = int(params.get("after", "0"))
        more = str(start + self.page) if start + self.page < len(found) else None
        return 200, {"objects": found[start : start + self.page], "next": more}


def item(key: str, size: int | None, updated: datetime, **more: Any) -> dict[str, Any]:
    """Return an object as the server lists it."""
    return {"key": key, "size": size, "etag": "abc", "updated": updated.isoformat(), **more}
