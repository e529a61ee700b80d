"""Reports trouble of the audit itself, and the age of its evidence."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakeaudit.config import Lake
from lakeaudit.formatting import duration, second
from lakeaudit.report.gather import source_limits
from lakeaudit.results.read import PUBLISHED, Row


@dataclass(frozen=True)
class EvidenceAge:
    """The time of a source's snapshot in the last published run; `limit` is its `max_age`, if it has one.

    `role` is storage, metastore or events: manifests are read live.
    """

    role: str
    kind: str
    location: str
    at: datetime
    limit: timedelta | None

    def nearness(self, now: datetime) -> float:
        """Return the used part of the limit; 0 without a limit."""
        return max((now - self.at) / self.limit, 0.0) if self.limit else 0.0


def evidence_ages(run: Row, lake: Lake, now: datetime) -> tuple[EvidenceAge, ...]:
    """Return the sources whose snapshot has a time, those nearest to their limit first."""
    limits = source_limits(lake)
    ages = [
        EvidenceAge(
            source["role"],
            source["kind"],
            source["location"],
            source["cut_from"],
            limits.get(source["location"].rstrip("/")),
        )
        for source in run["sources"] or ()
        if source["cut_from"] is not None and source["role"] != "manifest"
    ]
    return tuple(sorted(ages, key=lambda source: (-source.nearness(now), source.role, source.location)))


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
