"""Appends: writes that add base files of new file groups and change nothing, by what their instants say. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.manifest.hudi.names import file_named

APPENDS = ("INSERT", "BULK_INSERT")
"""Operations that look for no older row of their keys."""
_COMMITS = ("commit", "deltacommit")


@dataclass(frozen=True)
class Appended:
    """What an instant appended; `digest` is of the partitions and row counts of its files, whatever their order."""

    files: int
    rows: int
    bytes: int
    digest: str


@dataclass(frozen=True)
class AppendedFile:
    """A base file that an instant appended; `path` is below the table's location."""

    path: str
    size: int
    rows: int


def files_of(action: str, record: Mapping[str, Any]) -> list[AppendedFile]:
    """The files that an instant appended; none where it did anything else, or does not count their rows and bytes."""
    if action not in _COMMITS or record.get("operationType") not in APPENDS:
        return []
    if record.get("partitionToReplaceFileIds"):
        return []
    stats = [stat for each in (record.get("partitionToWriteStats") or {}).values() for stat in each]
    files = [_file(stat) for stat in stats]
    return [] if None in files else [file for file in files if file is not None]


def appended(action: str, record: Mapping[str, Any]) -> Appended | None:
    """What an instant appended; None: nothing, or something else, or nobody can tell."""
    try:
        files = files_of(action, record)
    except (AttributeError, TypeError, ValueError):
        return None
    if not files:
        return None
    looks = sorted((file.path.rpartition("/")[0], file.rows) for file in files)
    digest = hashlib.sha256(repr(looks).encode(errors="replace")).hexdigest()[:32]
    return Appended(len(files), sum(file.rows for file in files), sum(file.size for file in files), digest)


def _file(stat: Mapping[str, Any]) -> AppendedFile | None:
    """The base file that a write statistic names, if it begins a file group; None otherwise."""
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
