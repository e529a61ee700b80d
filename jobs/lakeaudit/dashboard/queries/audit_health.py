"""Reports trouble of the audit itself."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from lakeaudit.formatting import duration, number, second
from lakeaudit.kinds import COVERAGE_LOST
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.results.sql import ask


def troubles(runs: Sequence[Row], overdue: timedelta, now: datetime) -> list[str]:
    """Return sentences about trouble of the audit itself: a run that failed or is late, and failed gates."""
    gates = [
        f"Gate failed in run {run['run_id']}: {gate.removeprefix('gate ')}"
        for run in _published(runs)[-1:]
        for gate in run["gates"] or ()
    ]
    return [*outdated(runs, overdue, now), *gates]


def outdated(runs: Sequence[Row], overdue: timedelta, now: datetime) -> list[str]:
    """Return why the results may be out of date: the last run failed or has not ended, or none is recent."""
    if not runs:
        return []
    last = max(runs, key=lambda run: (run["started_at"], run["run_id"]))
    late = [sentence for run in _published(runs)[-1:] for sentence in _late(run, overdue, now)]
    return [*_of_last(last, now), *late]


def _published(runs: Sequence[Row]) -> list[Row]:
    return [run for run in runs if run["status"] in PUBLISHED]


def alarms(results: Results, runs: Sequence[Row]) -> dict[str, str]:
    """Return by run why its night was worse than others: tables without coverage at its end, or a gate that failed."""
    sql = f"""SELECT opened_at, resolved_at FROM discrepancies
        WHERE kind = '{COVERAGE_LOST}' AND opened_at IS NOT NULL"""
    lost = ask(results, sql, "discrepancies")
    found: dict[str, str] = {}
    for run in runs:
        end = run["finished_at"] or run["as_of"]
        blind = sum(each["opened_at"] <= end and _lasts(each["resolved_at"], end) for each in lost)
        words = [f"coverage lost in {number(blind, 'table')}"] if blind else []
        words += [f"{number(len(run['gates']), 'failed gate')}"] if run["gates"] else []
        if words:
            found[run["run_id"]] = ", ".join(words)
    return found


def _lasts(resolved_at: datetime | None, end: datetime) -> bool:
    return resolved_at is None or resolved_at > end


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
