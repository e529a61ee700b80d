"""Reports trouble of the audit itself."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from lakeaudit.formatting import duration, second
from lakeaudit.results.read import PUBLISHED, Row


def troubles(runs: Sequence[Row], overdue: timedelta, now: datetime) -> list[str]:
    """Return sentences about trouble of the audit itself."""
    if not runs:
        return []
    sentences = _of_last(max(runs, key=lambda run: (run["started_at"], run["run_id"])), now)
    published = [run for run in runs if run["status"] in PUBLISHED]
    if published:
        sentences += _late(published[-1], overdue, now)
        sentences += [
            f"Gate failed in run {published[-1]['run_id']}: {gate.removeprefix('gate ')}"
            for gate in published[-1]["gates"] or ()
        ]
    return sentences


def _late(last: Row, overdue: timedelta, now: datetime) -> list[str]:
    if last["finished_at"] > now - overdue:
        return []
    since = (
        f"the last one was published {second(last['finished_at'])}, {duration(now - last['finished_at'])} ago"
    )
    return [f"The audit is overdue: {since}, and one is expected every {duration(overdue)}"]


def _of_last(run: Row, now: datetime) -> list[str]:
    because = f": {run['error']}" if run["error"] else ""
    began = f"started {second(run['started_at'])}"
    if run["status"] == "running":
        age = duration(now - run["started_at"])
        return [f"Run {run['run_id']}, {began}, has not finished after {age}: the ledger may be ahead of it"]
    if run["status"] == "failed":
        return [f"The last audit failed: run {run['run_id']}, {began}{because}"]
    if run["status"] == "suspect":
        return [f"The evidence of the last audit is suspect: run {run['run_id']}, {began}{because}"]
    return []
