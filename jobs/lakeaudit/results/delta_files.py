"""The files and the history of the result tables, through delta-rs: joining small files, removing old ones."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.files import list_files, read_bytes
from lakeaudit.results.delta_writer import FILES, checkpoint, writing
from lakeaudit.results.read import Results

COMPACTED, VACUUMED = "OPTIMIZE", "VACUUM"
"""First words of the operations that a commit records."""


def created_at(results: Results, table: str) -> datetime | None:
    """Return when a result table was created; None where it was never written, or its metadata has no time."""
    found = results.delta(table)
    created = None if found is None else found.metadata().created_time
    return None if created is None else datetime.fromtimestamp(created / 1000, UTC)


def small_files(results: Results, table: str, size: int) -> int:
    """Count the files of fewer than `size` bytes that share their partition with another such file."""
    found = results.delta(table)
    if found is None:
        return 0
    files = pa.table(found.get_add_actions(flatten=True))
    partitions = [name for name in files.column_names if name.startswith("partition.")]
    small = files.filter(pc.less(files["size_bytes"], size))
    counts = small.group_by(partitions).aggregate([([], "count_all")])["count_all"].to_pylist()
    return sum(count for count in counts if count > 1)


def ran_since(results: Results, table: str, operation: str, day: date) -> bool:
    """Return whether the table's history has a commit of an operation from a day (UTC) on.

    The commits are read here: delta-rs holds Python's lock while it reads a history, and with it the lease's heartbeat.

    Raises:
        SourceError: the log cannot be read.
    """
    log = results.place.join(table, "_delta_log")
    for file in list_files(results.clients, log, flat=True):
        if _COMMIT.fullmatch(file.name) and file.modified_at.date() >= day:
            content = read_bytes(results.clients, file.place) or b""
            if any(name.startswith(operation) for name in _operations(content)):
                return True
    return False


_COMMIT = re.compile("[0-9]{20}[.]json")


def _operations(commit: bytes) -> Iterator[str]:
    """Yield the operations that a commit records; lines that are not JSON are skipped."""
    for line in commit.splitlines():
        with suppress(ValueError, AttributeError):
            yield str(json.loads(line).get("commitInfo", {}).get("operation", ""))


def compact(results: Results, table: str) -> int:
    """Join small files, partition by partition, and return how many were replaced.

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
    """Remove files that have belonged to no version of the table for `age`, and return their names.

    The whole folder is listed: the log forgets a removed file once a checkpoint is younger than its removal by a week.

    Raises:
        CannotPublish: the results place refused, or the table itself promises to keep files for longer.
    """
    with writing(results, table) as found:
        if found is None:
            return ()
        return found.vacuum(int(age / timedelta(hours=1)), dry_run=False, full=True)
