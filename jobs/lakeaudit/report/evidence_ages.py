"""Finds the age of the evidence: when the sources of audits were last written."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakeaudit.config import Lake
from lakeaudit.report.gather import source_limits
from lakeaudit.results.read import Row


@dataclass(frozen=True)
class EvidenceAge:
    """The time of a source's newest snapshot in some runs; `limit` is its `max_age`, if it has one.

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


def evidence_ages(runs: Sequence[Row], lake: Lake, now: datetime) -> tuple[EvidenceAge, ...]:
    """Return the sources of these runs whose snapshot has a time, those nearest to their limit first."""
    limits = source_limits(lake)
    newest: dict[tuple[str, str, str], datetime] = {}
    for source in (source for run in runs for source in run["sources"] or ()):
        at, name = source["cut_from"], (source["role"], source["kind"], source["location"])
        if at is not None and source["role"] != "manifest":
            newest[name] = max(at, newest.get(name, at))
    ages = [EvidenceAge(*name, at, limits.get(name[2].rstrip("/"))) for name, at in newest.items()]
    return tuple(sorted(ages, key=lambda source: (-source.nearness(now), source.role, source.location)))
