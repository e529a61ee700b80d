"""Find appends that look like one batch committed twice: equal counts first, then equal files and statistics.

Summaries name the few candidates; only their own manifests are read, with the bounds of columns, which differ for files
of equal size and other content. See `manifest.repeated_appends`.

Flink names the checkpoint that a snapshot commits: two appends of one checkpoint with equally many rows are one batch
whatever their files are. A sink may split a checkpoint into several snapshots, so the number of rows must be equal.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lakeaudit.errors import SourceError
from lakeaudit.evidence.avro.blocks import Torn
from lakeaudit.evidence.avro.records import open_avro
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.lineage import CONTENT, REPEATED_BATCH, Stake, Witness
from lakeaudit.evidence.manifest.iceberg.state.metadata import Snapshot
from lakeaudit.evidence.manifest.iceberg.state.readings import TableReading
from lakeaudit.evidence.manifest.repeated_appends import Append, candidates, witness
from lakeaudit.runtime.connections.aws import Clients

_COUNTS = ("added-data-files", "added-records", "added-files-size")
_OF_FLINK = ("flink.job-id", "flink.operator-id", "flink.max-committed-checkpoint-id")
_ADDED = 1
_LONGEST = 18
"""Most digits of a valid count."""


def repeated_appends(read: TableReading, clients: Clients) -> Iterator[Witness]:
    """Yield pairs of live appends of a table's main branch that added files of equal sizes, rows and statistics."""
    snapshots = {str(each.id): each for each in _main(read)}
    appends = [append for each in snapshots.values() if (append := _append(read, each))]
    for older, younger in candidates(appends):
        first = _added_features(read, snapshots[older.name], clients)
        if first and _is_varied(first) and first == _added_features(read, snapshots[younger.name], clients):
            yield witness(read.name, older, younger, "snapshots", "sizes, row counts and column bounds")
    by_checkpoint = [
        replace(each, counts=(checkpoint, each.stake.rows))
        for each in appends if (checkpoint := _checkpoint(snapshots[each.name]))
    ]  # fmt: skip
    for older, younger in candidates(by_checkpoint):
        if all(_added_features(read, snapshots[each.name], clients) for each in (older, younger)):
            yield _of_one_checkpoint(read.name, older, younger, snapshots[younger.name])


def _checkpoint(snapshot: Snapshot) -> tuple[str, ...]:
    """Return job, operator and number of the Flink checkpoint that a snapshot commits; empty if it names none."""
    named = tuple(snapshot.summary.get(name, "") for name in _OF_FLINK)
    return named if all(named) else ()


def _of_one_checkpoint(table: str, older: Append, younger: Append, snapshot: Snapshot) -> Witness:
    job, _, number = _checkpoint(snapshot)
    words = (
        f"snapshots {older.name} and {younger.name} each appended {younger.stake.rows:,} rows under checkpoint "
        f"{number} of Flink's job {job}, in {older.stake.files:,} and {younger.stake.files:,} files (the sizes may "
        "differ)"
    )
    return Witness(table, REPEATED_BATCH, (CONTENT,), younger.subject, words, stake=younger.stake)


def _append(read: TableReading, snapshot: Snapshot) -> Append | None:
    """Return the append of a snapshot; None if it is not an append, or does not count its added files."""
    counts = [snapshot.summary.get(name, "") for name in _COUNTS]
    counted = all(each.isascii() and each.isdigit() and len(each) <= _LONGEST for each in counts)
    if snapshot.summary.get("operation") != "append" or not counted:
        return None
    subject = snapshot.list_path or read.found.table.location.uri
    return Append(str(snapshot.id), snapshot.at, tuple(counts), Stake(*map(int, counts)), subject)


def _main(read: TableReading) -> Iterator[Snapshot]:
    """Yield the current snapshot and its ancestors."""
    known = {snapshot.id: snapshot for snapshot in read.metadata.snapshots}
    at = read.metadata.current
    while at in known:
        snapshot = known.pop(at)
        yield snapshot
        at = snapshot.parent


def _added_features(
    read: TableReading, snapshot: Snapshot, clients: Clients
) -> Counter[tuple[Any, ...]] | None:
    """Return the features of each file of an append, if all of them are live; None if not, or if this is unknown."""
    heads = [each.id for each in read.metadata.snapshots if each.heads]
    if read.metadata.current not in heads:
        return None
    main = heads.index(read.metadata.current)
    own = [each for each in read.manifests if each.added_by == snapshot.id and main in each.heads]
    features: Counter[tuple[Any, ...]] = Counter()
    try:
        for manifest in own:
            for entry in open_avro(read_bytes(clients, manifest.place) or b"").records:
                if entry["status"] == _ADDED and entry.get("snapshot_id") in (None, snapshot.id):
                    features[_features(entry["data_file"])] += 1
    except (SourceError, Torn, LookupError, TypeError, ValueError):
        return None
    return features if features.total() == int(snapshot.summary["added-data-files"]) else None


def _is_varied(features: Counter[tuple[Any, ...]]) -> bool:
    """Return whether some column of a file has more than one value."""
    return any(low != high for _, _, _, low, high in features)


def _features(file: Mapping[str, Any]) -> tuple[Any, ...]:
    bounds = (_text(file.get("lower_bounds")), _text(file.get("upper_bounds")))
    return file["file_size_in_bytes"], file["record_count"], repr(file.get("partition")), *bounds


def _text(bounds: object) -> str:
    """Return bounds by column, in a fixed order; empty if there are none."""
    if isinstance(bounds, Mapping):
        return repr(sorted(bounds.items()))
    return repr(sorted(map(repr, bounds))) if isinstance(bounds, list) else ""
