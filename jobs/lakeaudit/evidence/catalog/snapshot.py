"""What catalogs over HTTP give in the same way: which tables are asked for, and the picture that they make."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from lakeaudit.config import CatalogSource
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.http import NotThere
from lakeaudit.evidence.catalog.names import name_of
from lakeaudit.evidence.catalog.protocol import CatalogTable, Pointers
from lakeaudit.evidence.protocol import EvidenceGap, SnapshotWindow, SourceInfo
from lakeaudit.keys import digest

T = TypeVar("T")
Names = Callable[[str], bool]
"""Whether a table of that name is asked for."""


def any_name(_: str) -> bool:
    """Of catalogs that are read whole."""
    return True


def no_partitions(_: CatalogTable) -> bool:
    """Of catalogs that hold no partitions."""
    return False


def pointers_of(
    source: CatalogSource,
    source_id: str,
    uri: str,
    cut: tuple[datetime, datetime],
    tables: Iterable[CatalogTable],
    holes: Sequence[EvidenceGap],
) -> Pointers:
    """What was read of a catalog at `uri`, of which only tables inside the source's `location` are meant."""
    inside = source.location
    kept = [each for each in tables if inside is None or ((at := each.location) and inside.contains(at))]
    pinned = sorted(f"{each.name} {each.bucket}/{each.key} {each.metadata_location}" for each in kept)
    identity = f"{len(kept)} tables, sha256:{digest(*pinned)}"
    window = SnapshotWindow(*cut, source.margin or timedelta(0))
    info = SourceInfo(source_id, "metastore", source.kind, uri, identity, window, rows=len(kept))
    return Pointers(info, tuple(kept), holes=tuple(holes))


def or_gap(
    holes: list[EvidenceGap],
    source_id: str,
    parts: Sequence[str],
    read: Callable[[], list[T]],
    nothing: tuple[type[SourceError], ...] = (NotThere,),
) -> list[T]:
    """What is read of the namespace `parts`; empty where that raises one of `nothing`, or another error, a hole."""
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
    """A namespace whose tables are not all known."""
    return EvidenceGap(source_id, reason, f"{name_of(namespace)}.*", hides="its tables", retryable=retryable)


def text_of(value: object) -> str:
    """A text of an answer; "" for what is none, or holds half a character, which no store could have written."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value) else ""


def listed(block: Mapping[str, Any], key: str) -> list[Any]:
    """A list of an answer; empty for what is none."""
    found = block.get(key)
    return found if isinstance(found, list) else []


def time_of(epoch_ms: object) -> datetime | None:
    """A time of an answer; None for what is none."""
    try:
        return datetime.fromtimestamp(float(str(epoch_ms)) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
