"""The runs, the newest first, and the coverage of one of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakeaudit.errors import BadInput
from lakeaudit.report.coverage_view import Judged, judged
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
    try:
        run = results.run(run_id)
    except BadInput:
        return None
    return RunFigures(run, judged(results.coverage(run_id)) if run["status"] in PUBLISHED else ())
