"""Find appends by their instants: writes that add base files of new file groups and change nothing else. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.manifest.hudi.timeline.names import file_named

APPENDS = ("INSERT", "BULK_INSERT")
"""Operations that do not look up older rows of their keys."""
_COMMITS = ("commit", "deltacommit")


@dataclass(frozen=True)
class AppendTotals:
    """Sums up the files of an append; `digest` covers partitions and row counts of its files, in any order."""

    files: int
    rows: int
    bytes: int
    digest: str


@dataclass(frozen=True)
class AppendedFile:
    """Names a base file that an instant appended; `path` is below the table's location."""

    path: str
    size: int
    rows: int


def files_of(action: str, record: Mapping[str, Any]) -> list[AppendedFile]:
    """Return the files that an instant appended; none if it did anything else, or does not count rows and bytes."""
    if action not in _COMMITS or record.get("operationType") not in APPENDS:
        return []
    if record.get("partitionToReplaceFileIds"):
        return []
    stats = [stat for each in (record.get("partitionToWriteStats") or {}).values() for stat in each]
    files = [_file(stat) for stat in stats]
    return [] if None in files else [file for file in files if file is not None]


def append_totals(action: str, record: Mapping[str, Any]) -> AppendTotals | None:
    """Return the sums of an append; None if the instant is not an append, or if this is unknown."""
    try:
        files = files_of(action, record)
    except (AttributeError, TypeError, ValueError):
        return None
    if not files:
        return None
    features = sorted((file.path.rpartition("/")[0], file.rows) for file in files)
    digest = hashlib.sha256(repr(features).encode(errors="replace")).hexdigest()[:32]
    return AppendTotals(
        len(files), sum(file.rows for file in files), sum(file.size for file in files), digest
    )


def _file(stat: Mapping[str, Any]) -> AppendedFile | None:
    """Return the base file that a write statistic names, if it begins a file group; None otherwise."""
    path, size, rows = stat.get("path"), stat.get("fileSizeInBytes"), stat.get("numWrites")
    named = file_named(path.rpartition("/")[2]) if isinstance(path, str) else None
    begins = stat.get("prevCommit") in (None, "", "null")
    changes = any(stat.get(name) for name in ("numUpdateWrites", "numDeletes", "totalWriteErrors"))
    if named is None or named.kind != "base" or not begins or changes:
        return None
    return AppendedFile(str(path), _count(size), _count(rows))


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 62:
        raise ValueError(f"a count of {str(value)[:40]}")
    return value
