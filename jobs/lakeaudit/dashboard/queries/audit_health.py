"""What is wrong with the audit itself: it failed, is suspect, is overdue, has not finished, or a gate does not hold."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from lakeaudit.formatting import duration, second
from lakeaudit.results.read import PUBLISHED, Row


def troubles(runs: Sequence[Row], overdue: timedelta, now: datetime) -> list[str]:
    """What is wrong with the audit itself, in sentences."""
    if not runs:
        return []
    told = _of_last(max(runs, key=lambda run: (run["started_at"], run["run_id"])), now)
    published = [run for run in runs if run["status"] in PUBLISHED]
    if published:
        told += _late(published[-1], overdue, now)
        told += [
            f"Did not hold in run {published[-1]['run_id']}: {gate}" for gate in published[-1]["gates"] or ()
        ]
    return told


def _late(last: Row, overdue: timedelta, now: datetime) -> list[str]:
    if last["finished_at"] > now - overdue:
        return []
    since = (
        f"the last one was published {second(last['finished_at'])}, {duration(now - last['finished_at'])} ago"
    )
    return [f"The audit is overdue: {since}, and one is expected every {duration(overdue)}"]


def _of_last(run: Row, now: datetime) -> list[str]:
    because = f": {run['error']}" if run["error"] else ""
    began = f"begun {second(run['started_at'])}"
    if run["status"] == "running":
        age = duration(now - run["started_at"])
        return [f"Run {run['run_id']}, {began}, has not finished after {age}: the ledger may be ahead of it"]
    if run["status"] == "failed":
        return [f"The last audit failed: run {run['run_id']}, {began}{because}"]
    if run["status"] == "suspect":
        return [f"The evidence of the last audit is suspect: run {run['run_id']}, {began}{because}"]
    return []
