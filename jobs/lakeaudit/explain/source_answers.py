"""Query storage and metadata stores about one file with point reads, and on request the manifests.

A refused request never means that the file is absent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit import formatting
from lakeaudit.config import Lake, MetastoreSource, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import stat
from lakeaudit.evidence.protocol import in_places
from lakeaudit.evidence.registry import METASTORES
from lakeaudit.evidence.s3_responses import listed_versions
from lakeaudit.evidence.storage.head import head_object
from lakeaudit.keys import Location, in_known_store, is_azure, uri_of
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.aws_failures import explain, is_missing, unreachable, why_not_read
from lakeaudit.runtime.connections.reach import listens

STORED, STORAGE_VERSIONS = "storage", "storage versions"
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
VERSIONS = 10
"""Versions of the key that are printed, newest first."""


@dataclass(frozen=True)
class SourceAnswer:
    """The answer of one source: present, absent, deleted (a tombstone), unknown or not_asked."""

    source: str
    answer: str
    facts: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    @property
    def lines(self) -> Iterator[str]:
        """Yield its facts as text, one line for each fact or entry of a list."""
        for name, value in self.facts.items():
            for each in value if isinstance(value, list) else [{name: value}]:
                facts = each if isinstance(each, dict) else {name: each}
                if "delete_marker" in facts:
                    yield _version_line(facts)
                    continue
                yield ", ".join(f"{what} {formatting.value(v)}" for what, v in facts.items() if v is not None)


def _version_line(facts: Mapping[str, Any]) -> str:
    """Return one version of a key as a line."""
    what = "delete marker" if facts["delete_marker"] else "version"
    parts = [f"{what} {facts['version_id']}", "newest" if facts["latest"] else ""]
    parts += [f"modified at {formatting.value(facts['modified_at'])}" if facts["modified_at"] else ""]
    parts += [f"{facts['size']} bytes" if facts["size"] is not None else ""]
    return ", ".join(filter(None, parts))


def ask_manifests(tables: Sequence[Table], clients: Clients, bucket: str, key: str) -> Iterator[SourceAnswer]:
    """Read the tables' manifests for one file, and yield their answers."""
    from lakeaudit.evidence.manifest.point import lookup_claims

    for table in tables:
        for told in lookup_claims(table, clients, bucket, key):
            facts = {"history": list(told.history)} if told.history else {}
            yield SourceAnswer(_manifest(told.kind, table), told.answer, facts, told.reason)


def unread_manifests(tables: Sequence[Table]) -> list[SourceAnswer]:
    """Return answers for the manifests that are not read without `--deep`."""
    kinds = [(kind, table) for table in tables for kind in dict.fromkeys(m.kind for m in table.manifests)]
    return [
        SourceAnswer(_manifest(kind, table), "not_asked", reason="the option --deep reads it")
        for kind, table in kinds
    ]


def _manifest(kind: str, table: Table) -> str:
    return f"manifest {kind} of {table.name}"


def ask_storage(clients: Clients, bucket: str, key: str) -> Iterator[SourceAnswer]:
    """Yield the current object, and the key's versions if they may be listed."""
    if not in_known_store(bucket):
        yield SourceAnswer(STORED, "unknown", reason=why_not_read(bucket))
        return
    if not bucket:
        yield _answer_of(STORED, lambda: _stat(Clients(), Location("", key)))
        return
    if is_azure(bucket):
        yield _answer_of(f"{STORED} {uri_of(bucket, '')}", lambda: _stat(clients, Location(bucket, key)))
        return
    at = clients.endpoint(bucket, key)
    yield _answer_of(f"{STORED} s3://{bucket}", lambda: _head(clients, bucket, key), at)
    with suppress(ClientError, BotoCoreError):  # the right to list versions is optional
        versions = _versions(clients, bucket, key)
        if versions:
            yield SourceAnswer(STORAGE_VERSIONS, "present", {"newest_first": versions})


def _answer_of(
    source: str, ask: Callable[[], dict[str, Any] | None], at: Endpoint | None = None
) -> SourceAnswer:
    """Return present with facts, absent, or unknown if the request failed; `at` is the endpoint of the request."""
    try:
        facts = ask()
    except (ClientError, BotoCoreError) as error:
        url = at.endpoint if at is not None else None
        failure = unreachable(url) if url is not None and not listens(url) else explain(error)
        return SourceAnswer(source, "unknown", reason=failure.what)
    except SourceError as error:
        return SourceAnswer(source, "unknown", reason=f"{error.what}; {error.hint}")
    return SourceAnswer(source, "absent") if facts is None else SourceAnswer(source, "present", facts)


def _stat(clients: Clients, place: Location) -> dict[str, Any] | None:
    found = stat(clients, place)
    return None if found is None else {"size": found.size, "modified_at": found.modified_at}


def _head(clients: Clients, bucket: str, key: str) -> dict[str, Any] | None:
    """Return the current object. A 404 means absent only with the right to list; else the listing fails with 403."""
    s3 = clients.s3(bucket, key)
    try:
        head = head_object(s3, bucket, key)
    except ClientError as error:
        if is_missing(error):
            s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
            return None
        raise
    named = {name: getattr(head, name) for name in _OF_HEAD}
    cold = {"archived": True} if head.archived else {}
    return {name: value for name, value in named.items() if value is not None} | cold


_OF_HEAD = ("size", "etag", "modified_at", "version_id", "storage_class", "expiration")


def _versions(clients: Clients, bucket: str, key: str) -> list[dict[str, Any]]:
    """Return delete markers and versions of exactly this key, newest first."""
    page = clients.s3(bucket, key).list_object_versions(Bucket=bucket, Prefix=key, MaxKeys=100)
    rows = [
        {
            "version_id": each.version_id,
            "delete_marker": each.is_marker,
            "latest": each.is_latest,
            "modified_at": each.modified_at,
            "size": each.size,
        }
        for each in listed_versions(page)
        if each.key == key
    ]
    return sorted(
        rows, key=lambda row: (row["latest"] is True, row["modified_at"] or _LONG_AGO), reverse=True
    )[:VERSIONS]


def ask_metastores(lake: Lake, clients: Clients, bucket: str, key: str) -> Iterator[SourceAnswer]:
    """Yield the answer of every metadata store."""
    for store in lake.metastores:
        name = f"metastore {store.kind} {store.name}"
        if not (store.knows_files or store.knows_tables or "/_delta_log/" in f"/{key}"):
            yield SourceAnswer(name, "not_asked", reason="the store contains only commits of logs")
        elif not in_places((store.location,) if store.location else (), bucket, key):
            yield SourceAnswer(name, "not_asked", reason="the store does not cover this location")
        elif not store.has_point_reads:
            why = (
                "the store contains only tables"
                if store.knows_tables
                else "single entries cannot be read from it; see the findings"
            )
            yield SourceAnswer(name, "not_asked", reason=why)
        else:
            yield _entry(store, name, clients, bucket, key)


def _entry(store: MetastoreSource, name: str, clients: Clients, bucket: str, key: str) -> SourceAnswer:
    said = _answer_of(name, lambda: METASTORES[store.kind].get(store, clients, bucket, key), clients.default)
    if said.answer == "present" and METASTORES[store.kind].is_deleted(said.facts):
        return SourceAnswer(name, "deleted", _readable(said.facts))
    return SourceAnswer(name, said.answer, _readable(said.facts), said.reason)


def _readable(facts: dict[str, Any]) -> dict[str, Any]:
    """Convert epoch milliseconds to times; items are untrusted, so an invalid time stays as it is."""
    readable = dict(facts)
    for name in ("mod_time", "last_updated", "lastModified", "epoch"):
        with suppress(KeyError, ValueError, OverflowError, TypeError, OSError):
            readable[name] = datetime.fromtimestamp(int(facts[name]) / 1000, UTC) if int(facts[name]) else 0
    return readable
