"""The files and the history of the result tables, through delta-rs: joining small files, removing old ones."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

from lakeaudit.results.delta_writer import FILES, checkpoint, writing
from lakeaudit.results.read import Results

COMPACTED, VACUUMED = "OPTIMIZE", "VACUUM"
"""How the operations that a commit records begin."""

_FIRST_LOOK = 10
"""Commits that are read first; each is a file of the log. Four times as many are read as long as all are of one day."""


def created_at(results: Results, table: str) -> datetime | None:
    """When a result table was created; None where it was never written, or does not say."""
    found = results.delta(table)
    created = None if found is None else found.metadata().created_time
    return None if created is None else _time(created)


def small_files(results: Results, table: str, size: int) -> int:
    """How many files of fewer than `size` bytes share their partition with another one, so that they can be joined."""
    found = results.delta(table)
    if found is None:
        return 0
    files = pa.table(found.get_add_actions(flatten=True))
    partitions = [name for name in files.column_names if name.startswith("partition.")]
    small = files.filter(pa.compute.less(files["size_bytes"], size))
    counts = small.group_by(partitions).aggregate([([], "count_all")])["count_all"].to_pylist()
    return sum(count for count in counts if count > 1)


def done_on(results: Results, table: str, operation: str, day: date) -> bool:
    """Whether the table's history has a commit of an operation on a day or later (UTC)."""
    found = results.delta(table)
    if found is None:
        return False
    looked, limit = [*found.history(_FIRST_LOOK)], _FIRST_LOOK
    while len(looked) == limit and _time(looked[-1]["timestamp"]).date() >= day:
        limit *= 4
        looked = [*found.history(limit)]
    return any(
        commit.get("operation", "").startswith(operation) and _time(commit["timestamp"]).date() >= day
        for commit in looked
    )


def compact(results: Results, table: str) -> int:
    """Join small files, partition by partition, and say how many were replaced.

    Raises:
        CannotPublish: the results place refused.
    """
    with writing(results, table) as found:
        if found is None:
            return 0
        replaced = int(
            found.optimize.compact(max_concurrent_tasks=1, writer_properties=FILES)["numFilesRemoved"]
        )
        if replaced:
            checkpoint(found)
        return replaced


def vacuum(results: Results, table: str, age: timedelta) -> Sequence[str]:
    """Remove files that have belonged to no version of the table for so long, and name them.

    The whole folder is listed: the log forgets a removed file once a checkpoint is younger than its removal by a week.

    Raises:
        CannotPublish: the results place refused, or the table itself promises to keep files for longer.
    """
    with writing(results, table) as found:
        if found is None:
            return ()
        return found.vacuum(int(age / timedelta(hours=1)), dry_run=False, full=True)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
