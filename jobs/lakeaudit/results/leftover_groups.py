"""Reads the files of groups of unused files: the first few of each, or every one as a finding of its own."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakeaudit.errors import BadInput
from lakeaudit.keys import uri_of
from lakeaudit.results.read import ALL, Results, Row, RowFilter
from lakeaudit.results.sql import ask, text
from lakeaudit.schemas import rows_of

FIRST = 3
"""Number of files of a group that are named; the others are counted."""


def group_samples(results: Results, run_id: str) -> Mapping[str, Sequence[str]]:
    """Return by discrepancy its first files in the order of keys, at most FIRST of each group of the run."""
    sql = f"""SELECT discrepancy_id, bucket, key FROM (
            SELECT discrepancy_id, bucket, key,
                row_number() OVER (PARTITION BY discrepancy_id ORDER BY bucket, key) AS at
            FROM leftover_files WHERE run_id = {text(run_id)}
        ) WHERE at <= {FIRST} ORDER BY discrepancy_id, at"""
    found: dict[str, list[str]] = {}
    for row in ask(results, sql, "leftover_files"):
        found.setdefault(row["discrepancy_id"], []).append(uri_of(row["bucket"], row["key"]))
    return found


def expand_groups(results: Results, run_id: str, row_filter: RowFilter = ALL) -> Iterator[Row]:
    """Yield the run's findings with all columns: first those that are not grouped, then the files of the groups.

    Raises:
        BadInput: a later run has replaced the files; raised before anything is yielded.
    """
    groups = {row["discrepancy_id"]: row for row in results.leftover_groups(run_id, row_filter)}
    _require_all(results, run_id, groups)
    for row in rows_of(results.findings(run_id, row_filter)):
        if row["discrepancy_id"] not in groups:
            yield row
    for file in rows_of(results.leftover_files(run_id)):
        if file["discrepancy_id"] in groups:
            yield as_finding(groups[file["discrepancy_id"]], file)


def _require_all(results: Results, run_id: str, groups: dict[str, Row]) -> None:
    held: Counter[str] = Counter()
    for batch in results.leftover_files(run_id, ["discrepancy_id"]):
        held.update(batch.column("discrepancy_id").to_pylist())
    for name, group in groups.items():
        if held[name] != group["files"]:
            what = f"the files of {group['subject']} are no longer those of run {run_id}: a later run has replaced them"
            raise BadInput("--files", what, "ask of the last run")


def as_finding(group: Mapping[str, Any], file: Mapping[str, Any]) -> Row:
    """Return the group's row with subject, key, sizes and times of one of its files."""
    about = {name: file[name] for name in ("bucket", "key", "partition_path", "category")}
    storage = {f"storage_{name}": file[name] for name in ("size", "etag", "version_id")}
    place = {"subject_type": "file", "subject": uri_of(file["bucket"], file["key"]), "files": 1}
    stake = {"rows_at_stake": None, "bytes_at_stake": file["size"], "storage_time": file["modified_at"]}
    return {**group, **about, **storage, **place, **stake}
