"""Reads which earlier audit judged an axis of a table last, and which tables have lost coverage."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.judged import About, LastJudged, judged_share
from lakeaudit.kinds import COVERAGE_LOST
from lakeaudit.results.read import UNRESOLVED, Results, Row

MOST_RUNS = 100
"""Number of audits that are searched for the last one that judged an axis."""
_STEPS = (1, 10, MOST_RUNS)
"""The last audit has nearly every axis, so that earlier audits are seldom read."""

_COLUMNS = (
    *("run_id", "table_name", "axis", "status", "files", "decided_share"),
    *("consistent", "findings", "ignored", "out_of_window", "undecided", "uncovered"),
)


def last_judged(results: Results, wanted: Collection[About], before: datetime) -> dict[About, LastJudged]:
    """Return the last audit with evidence from before a time that judged each axis; missing: none of the last ones did.

    Audits with suspect evidence do not count.

    Raises:
        CannotAudit: the results cannot be read.
    """
    runs = [
        run for run in results.runs() if run["status"] in ("complete", "partial") and run["as_of"] < before
    ]
    runs = sorted(runs, key=lambda run: (run["as_of"], run["run_id"]), reverse=True)
    last: dict[About, LastJudged] = {}
    first = 0
    for end in _STEPS:
        missing = {*wanted} - last.keys()
        if missing and runs[first:end]:
            last |= _judged_in(results, runs[first:end], missing)
        first = end
    return last


def _judged_in(results: Results, runs: Sequence[Row], wanted: Collection[About]) -> dict[About, LastJudged]:
    """Return for each axis the first of these runs that judged it."""
    at = {run["run_id"]: run["as_of"] for run in runs}
    axes, tables = {axis for _, axis in wanted}, {table for table, _ in wanted}
    condition = pc.field("run_id").isin([*at]) & pc.field("axis").isin([*axes])
    condition &= pc.field("table_name").isin([*tables])
    judged: dict[About, LastJudged] = {}
    for batch in results.batches("coverage", condition, _COLUMNS, rows=1 << 16):
        for row in batch.to_pylist():
            about, share = (row["table_name"], row["axis"]), judged_share(row)
            if share and about in wanted and (about not in judged or judged[about].at < at[row["run_id"]]):
                judged[about] = LastJudged(at[row["run_id"]], share, row["files"])
    return judged


def known_lost(results: Results) -> Mapping[str, datetime]:
    """Return the tables whose lost coverage is an unresolved discrepancy, and since when.

    Raises:
        CannotAudit: the results cannot be read.
    """
    condition = (pc.field("kind") == COVERAGE_LOST) & pc.field("state").isin(UNRESOLVED)
    columns = ("table_name", "cause_at", "first_seen_at")
    rows = [row for b in results.batches("discrepancies", condition, columns) for row in b.to_pylist()]
    return {row["table_name"]: row["cause_at"] or row["first_seen_at"] for row in rows}


def tables_with_lost_coverage(results: Results, now: datetime) -> int:
    """Count the tables whose lost coverage nobody has accepted.

    Raises:
        CannotAudit: the results cannot be read.
    """
    until = pc.field("ack_until")
    condition = (pc.field("kind") == COVERAGE_LOST) & (pc.field("state") == "open")
    condition &= until.is_null() | (until <= pa.scalar(now))
    return sum(batch.num_rows for batch in results.batches("discrepancies", condition, ("table_name",)))
