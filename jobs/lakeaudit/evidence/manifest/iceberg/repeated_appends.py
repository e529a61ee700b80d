"""Appends that look like one batch committed twice: equal counts first, then equal files with equal statistics.

Summaries tell the few candidates; only their own manifests are read, with the bounds of columns, which files of equal
size and other content differ in. See `compare.repeated_batches`, which does the same for Delta.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.lineage import CONTENT, REPEATED_BATCH, Stake, Witness
from lakeaudit.evidence.manifest.iceberg.avro import opened
from lakeaudit.evidence.manifest.iceberg.avro_blocks import Torn
from lakeaudit.evidence.manifest.iceberg.metadata import Snapshot
from lakeaudit.evidence.manifest.iceberg.readings import TableReading
from lakeaudit.runtime.aws import Clients

WITHIN = timedelta(days=7)
FEWEST_ROWS = 11
"""Smaller batches are equal by chance."""
MOST_OFTEN = 3
"""What a table is given more often than this within that time is its habit: heartbeats, the same list every day."""
MOST_READ = 20
"""Appends of one table whose manifests are read again, the newest first."""
_COUNTS = ("added-data-files", "added-records", "added-files-size")
_ADDED = 1
_LONGEST = 18
"""Digits of a count that is believed."""


def repeated_appends(read: TableReading, clients: Clients) -> Iterator[Witness]:
    """Pairs of live appends of a table's main branch that added files of equal sizes, rows and statistics."""
    for older, younger in _candidates(read)[:MOST_READ]:
        first, second = _added(read, older, clients), _added(read, younger, clients)
        if first and first == second:
            files, rows, size = (int(younger.summary[name]) for name in _COUNTS)
            words = (
                f"snapshots {older.id} ({older.at:%Y-%m-%dT%H:%M:%SZ}) and {younger.id} "
                f"({younger.at:%Y-%m-%dT%H:%M:%SZ}) each appended {files:,} files of equal sizes, row counts and "
                "column bounds"
            )
            subject = younger.list_path or read.found.table.location.uri
            yield Witness(
                read.name, REPEATED_BATCH, (CONTENT,), subject, words, stake=Stake(files, rows, size)
            )


def _candidates(read: TableReading) -> list[tuple[Snapshot, Snapshot]]:
    """Appends that follow one with equal counts soon, and not as a habit; the newest first."""
    groups: dict[tuple[str, ...], list[Snapshot]] = defaultdict(list)
    for snapshot in _main(read):
        counts = tuple(snapshot.summary.get(name, "") for name in _COUNTS)
        counted = all(each.isascii() and each.isdigit() and len(each) <= _LONGEST for each in counts)
        if snapshot.summary.get("operation") == "append" and counted and int(counts[1]) >= FEWEST_ROWS:
            groups[counts].append(snapshot)
    pairs = []
    for equal in groups.values():
        ordered = sorted(equal, key=lambda each: (each.at, each.id))
        if not _is_habit(ordered):
            pairs += [(a, b) for a, b in pairwise(ordered) if b.at - a.at <= WITHIN]
    return sorted(pairs, key=lambda pair: pair[1].at, reverse=True)


def _main(read: TableReading) -> Iterator[Snapshot]:
    """The current snapshot and its ancestors."""
    known = {snapshot.id: snapshot for snapshot in read.metadata.snapshots}
    at = read.metadata.current
    while at in known:
        snapshot = known.pop(at)
        yield snapshot
        at = snapshot.parent


def _is_habit(ordered: Sequence[Snapshot]) -> bool:
    return any(
        last.at - first.at <= WITHIN for first, last in zip(ordered, ordered[MOST_OFTEN:], strict=False)
    )


def _added(read: TableReading, snapshot: Snapshot, clients: Clients) -> Counter[tuple[Any, ...]] | None:
    """What each file of an append looks like, while all of them are live; None: not all are, or nobody can tell."""
    heads = [each.id for each in read.metadata.snapshots if each.heads]
    if read.metadata.current not in heads:
        return None
    main = heads.index(read.metadata.current)
    own = [each for each in read.manifests if each.added_by == snapshot.id and main in each.heads]
    looks: Counter[tuple[Any, ...]] = Counter()
    try:
        for manifest in own:
            for entry in opened(read_bytes(clients, manifest.place) or b"").records:
                if entry["status"] == _ADDED and entry.get("snapshot_id") in (None, snapshot.id):
                    looks[_look(entry["data_file"])] += 1
    except (SourceError, Torn, LookupError, TypeError, ValueError):
        return None
    varied = any(low != high for _, _, _, low, high in looks)
    return looks if varied and looks.total() == int(snapshot.summary["added-data-files"]) else None


def _look(file: Mapping[str, Any]) -> tuple[Any, ...]:
    bounds = (_text(file.get("lower_bounds")), _text(file.get("upper_bounds")))
    return file["file_size_in_bytes"], file["record_count"], repr(file.get("partition")), *bounds


def _text(bounds: object) -> str:
    """Bounds by column, in an order of their own; empty where there are none."""
    if isinstance(bounds, Mapping):
        return repr(sorted(bounds.items()))
    return repr(sorted(map(repr, bounds))) if isinstance(bounds, list) else ""
