"""Interpret a table's protocol and metadata actions for an audit. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

READABLE_FEATURES = frozenset(
    {
        *("columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
        *("typeWidening", "typeWidening-preview", "variantType", "variantType-preview"),
        *("variantShredding", "variantShredding-preview", "checkpointProtection"),
    }
)
"""Reader features that change nothing for this reader, or that it supports ("Valid Feature Names" of the Delta
protocol and its feature proposals). Any other may mean that files are listed elsewhere, and is refused."""

READER_VERSION = 3
COORDINATED = re.compile(r"catalogManaged|catalogOwned|coordinatedCommits")
DEFAULT_RETENTION = timedelta(days=7)
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_SECONDS = {
    "microsecond": 1e-6, "millisecond": 1e-3, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800,
}  # fmt: skip
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?(?=\s|\d|$)")


NO_ACTION = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""Errors raised for JSON that is not an action, or has values of other types than it must."""


class NotReadable(Exception):
    """The table's log cannot be interpreted; the text says why in one line."""


@dataclass(frozen=True)
class Meta:
    """Holds the settings of the newest metadata.

    `retention` is how long a removed file stays promised; `columns` are (name in the log, name people know) of the
    partition columns in order; from version `in_commit_times_from` on commits carry their own time (None: never).
    Objects older than `archived_after` are archived on purpose (None: none are).
    """

    retention: timedelta = DEFAULT_RETENTION
    columns: tuple[tuple[str, str], ...] = ()
    in_commit_times_from: int | None = None
    archived_after: timedelta | None = None


def understand(protocol: str | None, metadata: str | None) -> Meta:
    """Interpret the newest protocol and metaData actions, passed as JSON text.

    Raises:
        NotReadable: one is missing, or requires a feature that this reader does not support.
    """
    if protocol is None or metadata is None:
        raise NotReadable("the log has no protocol and metaData action")
    check_protocol(protocol)
    meta = json.loads(metadata)
    settings: Mapping[str, str] = meta.get("configuration") or {}
    if any(COORDINATED.search(name) for name in settings if name.endswith("commitCoordinator-preview")):
        raise NotReadable("its commits are coordinated by a catalog, which alone knows the newest ones")
    from_version = settings.get("delta.inCommitTimestampEnablementVersion") or 0
    timed = settings.get("delta.enableInCommitTimestamps", "").lower() == "true"
    return Meta(
        _retention(settings),
        _partition_columns(meta, settings),
        int(from_version) if timed else None,
        _archived_after(settings),
    )


def check_protocol(text: str) -> None:
    """Raise NotReadable if this reader does not support a protocol action, passed as JSON text."""
    protocol: Mapping[str, Any] = json.loads(text)
    version = protocol.get("minReaderVersion")
    if not isinstance(version, int) or version > READER_VERSION:
        raise NotReadable(f"its read protocol {version} is newer than {READER_VERSION}")
    reader = protocol.get("readerFeatures") or []
    if any(COORDINATED.match(name) for name in [*reader, *(protocol.get("writerFeatures") or [])]):
        raise NotReadable("its commits are managed by a catalog, which alone knows the newest ones")
    unknown = sorted(set(reader) - READABLE_FEATURES)
    if unknown:
        raise NotReadable(f"it needs reader features that are not known here: {', '.join(unknown)}")


def _retention(settings: Mapping[str, str]) -> timedelta:
    text = settings.get("delta.deletedFileRetentionDuration")
    return DEFAULT_RETENTION if text is None else parse_interval(text)


def _archived_after(settings: Mapping[str, str]) -> timedelta | None:
    """Return `delta.timeUntilArchived` (Databricks, "Archival support"); None: no object is archived on purpose."""
    text = settings.get("delta.timeUntilArchived")
    try:
        return None if text is None else parse_interval(text)
    except NotReadable:
        return None


def parse_interval(text: str) -> timedelta:
    """Parse `interval 1 week`, `168 hours` or `interval 7 days 12 hours`, as Delta's table properties write them.

    Raises:
        NotReadable: the text is not such an interval.
    """
    words = text.strip().lower().removeprefix("interval").strip()
    parts = _QUANTITY.findall(words)
    if not parts or _QUANTITY.sub("", words).strip() or any(unit not in _SECONDS for _, unit in parts):
        raise NotReadable(f"delta.deletedFileRetentionDuration is not an interval: {text!r}")
    return timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))


def _partition_columns(meta: Mapping[str, Any], settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    names: list[str] = meta.get("partitionColumns") or []
    if settings.get("delta.columnMapping.mode", "none") == "none":
        return tuple((name, name) for name in names)
    physical = {
        field["name"]: field.get("metadata", {}).get("delta.columnMapping.physicalName", field["name"])
        for field in json.loads(meta["schemaString"])["fields"]
    }
    return tuple((physical.get(name, name), name) for name in names)


def vacuum_retention(commit_info: str, retention: timedelta) -> timedelta:
    """Return how old a removal had to be for the vacuum that this commitInfo (JSON text) records."""
    parameters = json.loads(commit_info).get("operationParameters") or {}
    given = [parameters.get(name) for name in ("specifiedRetentionMillis", "defaultRetentionMillis")]
    stated = next((value for value in given if value not in (None, "null", "")), None)
    return retention if stated is None else timedelta(milliseconds=int(stated))
