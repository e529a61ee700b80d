"""Build the snapshot of a catalog: its selected tables, its gaps, and the values of its responses."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from lakeaudit.config import CatalogSource
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.http import NotThere
from lakeaudit.evidence.catalog.names import name_of
from lakeaudit.evidence.catalog.protocol import CatalogTable, Pointers
from lakeaudit.evidence.protocol import EvidenceGap, SnapshotWindow, SourceInfo

T = TypeVar("T")
Names = Callable[[str], bool]
"""Returns whether a table of that name is selected."""


def any_name(_: str) -> bool:
    """Select all tables."""
    return True


def no_partitions(_: CatalogTable) -> bool:
    """Select the partitions of no table."""
    return False


def pointers_of(
    source: CatalogSource,
    source_id: str,
    uri: str,
    cut: tuple[datetime, datetime],
    tables: Iterable[CatalogTable],
    holes: Sequence[EvidenceGap],
) -> Pointers:
    """Return the snapshot of the catalog at `uri`; tables outside the source's `location` are left out."""
    inside = source.location
    kept = [each for each in tables if inside is None or ((at := each.location) and inside.contains(at))]
    identity = f"{len(kept)} tables, {digest_of(kept)}"
    window = SnapshotWindow(*cut, source.margin or timedelta(0))
    info = SourceInfo(source_id, "metastore", source.kind, uri, identity, window, rows=len(kept))
    return Pointers(info, tuple(kept), holes=tuple(holes))


def digest_of(tables: Iterable[CatalogTable]) -> str:
    """Return the SHA-256 of the tables' names, locations and metadata locations, in any order."""
    pinned = sorted(f"{each.name} {each.bucket}/{each.key} {each.metadata_location}" for each in tables)
    text = "\0".join(pinned).encode(errors="replace")
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


def or_gap(
    holes: list[EvidenceGap],
    source_id: str,
    parts: Sequence[str],
    read: Callable[[], list[T]],
    nothing: tuple[type[SourceError], ...] = (NotThere,),
) -> list[T]:
    """Return the result of `read` for the namespace `parts`.

    Errors of the types `nothing` give an empty list; any other SourceError adds an evidence gap to `holes` too.
    """
    try:
        return read()
    except nothing:
        return []
    except SourceError as error:
        holes.append(namespace_gap(source_id, parts, error.what, retryable=error.retryable))
        return []


def namespace_gap(
    source_id: str, namespace: Sequence[str], reason: str, *, retryable: bool = False
) -> EvidenceGap:
    """Return the gap of a namespace whose tables are not all known."""
    return EvidenceGap(source_id, reason, f"{name_of(namespace)}.*", hides="its tables", retryable=retryable)


def text_of(value: object) -> str:
    """Return a text of a response; "" for any other value, and for text with half a surrogate pair."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value) else ""


def listed(block: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list of a response; empty for any other value."""
    found = block.get(key)
    return found if isinstance(found, list) else []


def time_of(epoch_ms: object) -> datetime | None:
    """Return a time of a response; None for any other value."""
    try:
        return datetime.fromtimestamp(float(str(epoch_ms)) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
