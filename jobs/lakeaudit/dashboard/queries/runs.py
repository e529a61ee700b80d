"""Reads the runs, newest first, and the coverage of one of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakeaudit.dashboard.queries.history import Period
from lakeaudit.errors import BadInput
from lakeaudit.kinds import OPEN_OUTCOMES, rank
from lakeaudit.report.coverage_view import Judged, judged
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.results.sql import ask, moment, texts

RUNS = 100
"""Number of newest runs that are shown; the others are counted."""
RUNS_OF_PERIOD = 1000
"""The same for a period that the reader selects."""


@dataclass(frozen=True)
class Runs:
    """The newest runs, the known changes of each by run id, and the number of older runs.

    `in_part` is by id of a partial run the number of tables that it did not judge fully.
    """

    shown: Sequence[Row]
    rest: int
    changed: Mapping[str, "Changed"] = field(default_factory=dict)
    in_part: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Changed:
    """The changes of the ledger by a run: numbers by transition and severity."""

    numbers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def number(self, *transitions: str) -> int:
        return sum(sum(self.numbers.get(each, {}).values()) for each in transitions)

    def by_severity(self, *transitions: str) -> Mapping[str, int]:
        """Return the sum of some transitions by severity, worst first."""
        sums: Counter[str] = Counter()
        for each in transitions:
            sums.update(self.numbers.get(each, {}))
        return {severity: sums[severity] for severity in sorted(sums, key=rank)}


@dataclass(frozen=True)
class RunFigures:
    """One run with its coverage by table and its changes; None: changes were not recorded by run."""

    run: Row
    tables: tuple[Judged, ...]
    changed: Changed | None = None


def newest_runs(results: Results, period: Period | None = None) -> Runs:
    """Return the newest runs, or those of a period, by start, newest first."""
    every = [run for run in results.runs() if period is None or period.includes(run["as_of"].date())]
    runs = sorted(every, key=lambda run: (run["started_at"], run["run_id"]), reverse=True)
    shown = runs[: RUNS if period is None else RUNS_OF_PERIOD]
    return Runs(shown, max(len(runs) - RUNS, 0), _changed(results, shown), _in_part(results, shown))


_UNDECIDED = " + ".join(f"coalesce({outcome}, 0)" for outcome in OPEN_OUTCOMES)


def _in_part(results: Results, runs: Sequence[Row]) -> dict[str, int]:
    partial = tuple(run["run_id"] for run in runs if run["status"] == "partial")
    if not partial:
        return {}
    sql = f"""SELECT run_id, count(DISTINCT table_name) AS number FROM coverage
        WHERE run_id IN ({texts(partial)}) AND (status = 'partial' OR {_UNDECIDED} > 0) GROUP BY 1"""
    return {row["run_id"]: row["number"] for row in ask(results, sql, "coverage")}


def _changed(results: Results, runs: Sequence[Row]) -> dict[str, Changed]:
    """Return the changes of published runs by run id; those of failed runs are ignored.

    If some changes have no run id, runs without changes are left out: they may have made those.
    """
    published = tuple(run["run_id"] for run in runs if run["status"] in PUBLISHED)
    if not published:
        return {}
    since = min(run["as_of"] for run in runs)
    sql = f"""SELECT run_id, transition, coalesce(to_severity, from_severity, '') AS severity, count(*) AS number
        FROM transitions WHERE at >= {moment(since)} AND (run_id IN ({texts(published)}) OR run_id IS NULL
            AND transition IN ('opened', 'reopened', 'resolved')) GROUP BY 1, 2, 3"""
    rows = ask(results, sql, "transitions")
    incomplete = any(row["run_id"] is None for row in rows)
    changes: dict[str, dict[str, dict[str, int]]] = {} if incomplete else {run_id: {} for run_id in published}
    for row in rows:
        if row["run_id"] is not None:
            changes.setdefault(row["run_id"], {}).setdefault(row["transition"], {})[row["severity"]] = row[
                "number"
            ]
    return {run_id: Changed(numbers) for run_id, numbers in changes.items()}


def run_figures(results: Results, run_id: str) -> RunFigures | None:
    """Return one run; None if there is no run with this id."""
    try:
        run = results.run(run_id)
    except BadInput:
        return None
    changed = _changed(results, [run]).get(run_id)
    return RunFigures(run, judged(results.coverage(run_id)) if run["status"] in PUBLISHED else (), changed)
