"""The runs, the newest first, and the coverage of one of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakeaudit.report.judged import Judged, judged
from lakeaudit.results.read import PUBLISHED, Results, Row

RUNS = 100
"""Runs shown; the rest is a number."""


@dataclass(frozen=True)
class Runs:
    """The newest runs, and how many older ones there are."""

    shown: Sequence[Row]
    rest: int


@dataclass(frozen=True)
class RunFigures:
    """One run, and by table what it could decide; nothing where it published nothing."""

    run: Row
    tables: tuple[Judged, ...]


def newest_runs(results: Results) -> Runs:
    """The newest first, by their start."""
    runs = sorted(results.runs(), key=lambda run: (run["started_at"], run["run_id"]), reverse=True)
    return Runs(runs[:RUNS], max(len(runs) - RUNS, 0))


def run_figures(results: Results, run_id: str) -> RunFigures | None:
    """One run; None where there is none of that id."""
    found = [run for run in results.runs() if run["run_id"] == run_id]
    if not found:
        return None
    published = found[-1]["status"] in PUBLISHED
    return RunFigures(found[-1], judged(results.coverage(run_id)) if published else ())
