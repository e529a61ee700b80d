"""Compute facts of whole snapshots from manifest lists: files that each added, and removed from another one.

Only data files are counted: an append may drop delete files that apply to no data file any more. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ManifestCounts:
    """Holds a list's counts for one manifest; None if it has none. Counts never change, so any list may supply them."""

    added_by: int | None
    deletes: bool
    added_files: int | None
    added_rows: int | None
    existing_files: int | None
    existing_rows: int | None


@dataclass(frozen=True)
class RemovedFiles:
    """Counts the live data files of another snapshot that this one lacks; None if the lists do not count them."""

    other: int
    files: int | None
    rows: int | None


@dataclass(frozen=True)
class ListFacts:
    """Holds the facts in the list of one snapshot.

    Attributes:
        table: index of the table among those that are read.
        snapshot: its id.
        added_files: in manifests that the snapshot wrote.
        added_rows: in these files.
        rows: of all live data files.
        removed: one for each snapshot with which it is compared.
        repeated: paths of manifests that the list names more than once.
    """

    table: int
    snapshot: int
    added_files: int | None
    added_rows: int | None
    rows: int | None
    removed: tuple[RemovedFiles, ...] = ()
    repeated: tuple[str, ...] = ()


def counts_of(record: Mapping[str, Any]) -> ManifestCounts:
    """Return the counts of an entry of a list; version 1 had other names, and optional counts."""
    files = [record.get(f"{what}_files_count", record.get(f"{what}_data_files_count")) for what in _COUNTED]
    rows = [record.get(f"{what}_rows_count") for what in _COUNTED]
    added_by = record.get("added_snapshot_id")
    return ManifestCounts(
        added_by if isinstance(added_by, int) else None,
        record.get("content") == 1,
        *(_count(each) for pair in zip(files, rows, strict=True) for each in pair),
    )


_COUNTED = ("added", "existing")


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None


Listed = Mapping[Any, ManifestCounts]
"""The manifests of one list, by their places."""


def facts(
    table: int, snapshot: int, own: Listed, others: Mapping[int, Listed], repeated: Iterable[str] = ()
) -> ListFacts:
    """Return the facts of a list; `others` are the lists with which it is compared, by their snapshots."""
    data = [each for each in own.values() if not each.deletes]
    added = (
        None if any(each.added_by is None for each in data) else [e for e in data if e.added_by == snapshot]
    )
    return ListFacts(
        table,
        snapshot,
        None if added is None else _sum(each.added_files for each in added),
        None if added is None else _sum(each.added_rows for each in added),
        _live_rows(data),
        tuple(_removed_files(id_, own, other) for id_, other in others.items()),
        tuple(sorted(set(repeated))),
    )


def _removed_files(id_: int, own: Listed, other: Listed) -> RemovedFiles:
    """Subtract the files that added manifests took over from the live files of removed manifests."""
    went = [each for place, each in other.items() if place not in own and not each.deletes]
    came = [each for place, each in own.items() if place not in other and not each.deletes]
    files = (_live_files(went), _sum(each.existing_files for each in came))
    rows = (_live_rows(went), _sum(each.existing_rows for each in came))
    return RemovedFiles(id_, _less(*files), _less(*rows))


def _live_files(manifests: Iterable[ManifestCounts]) -> int | None:
    return _sum(count for each in manifests for count in (each.added_files, each.existing_files))


def _live_rows(manifests: Iterable[ManifestCounts]) -> int | None:
    return _sum(count for each in manifests for count in (each.added_rows, each.existing_rows))


def _sum(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _less(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other
