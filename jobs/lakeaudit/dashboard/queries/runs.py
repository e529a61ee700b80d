"""The runs, the newest first, and the coverage of one of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakeaudit.errors import BadInput
from lakeaudit.kinds import rank
from lakeaudit.report.coverage_view import Judged, judged
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.results.sql import ask, moment, texts

RUNS = 100
"""Runs shown; the rest is a number."""


@dataclass(frozen=True)
class Runs:
    """The newest runs, what each changed in the ledger by its id where that is known, and how many are older."""

    shown: Sequence[Row]
    rest: int
    changed: Mapping[str, "Changed"] = field(default_factory=dict)


@dataclass(frozen=True)
class Changed:
    """What a run changed in the ledger: by transition, and of that by severity, how many."""

    numbers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def number(self, *transitions: str) -> int:
        return sum(sum(self.numbers.get(each, {}).values()) for each in transitions)

    def by_severity(self, *transitions: str) -> Mapping[str, int]:
        """Worst first."""
        found: Counter[str] = Counter()
        for each in transitions:
            found.update(self.numbers.get(each, {}))
        return {severity: found[severity] for severity in sorted(found, key=rank)}


@dataclass(frozen=True)
class RunFigures:
    """One run, by table what it could decide, and what it changed; None: nobody recorded which run changed what."""

    run: Row
    tables: tuple[Judged, ...]
    changed: Changed | None = None


def newest_runs(results: Results) -> Runs:
    """The newest first, by their start."""
    runs = sorted(results.runs(), key=lambda run: (run["started_at"], run["run_id"]), reverse=True)
    shown = runs[:RUNS]
    return Runs(shown, max(len(runs) - RUNS, 0), _changed(results, shown))


def _changed(results: Results, runs: Sequence[Row]) -> dict[str, Changed]:
    """Of those that were published: what a run that failed has left beside them is none of it.

    Where changes bear no run's id, nobody knows of a run without any of its own whether it changed nothing.
    """
    published = tuple(run["run_id"] for run in runs if run["status"] in PUBLISHED)
    if not published:
        return {}
    since = min(run["as_of"] for run in runs)
    sql = f"""SELECT run_id, transition, coalesce(to_severity, from_severity, '') AS severity, count(*) AS number
        FROM transitions WHERE at >= {moment(since)} AND (run_id IN ({texts(published)}) OR run_id IS NULL
            AND transition IN ('opened', 'reopened', 'resolved')) GROUP BY 1, 2, 3"""
    rows = ask(results, sql, "transitions")
    unsaid = any(row["run_id"] is None for row in rows)
    found: dict[str, dict[str, dict[str, int]]] = {} if unsaid else {run_id: {} for run_id in published}
    for row in rows:
        if row["run_id"] is not None:
            found.setdefault(row["run_id"], {}).setdefault(row["transition"], {})[row["severity"]] = row[
                "number"
            ]
    return {run_id: Changed(numbers) for run_id, numbers in found.items()}


def run_figures(results: Results, run_id: str) -> RunFigures | None:
    """One run; None where there is none of that id."""
    try:
        run = results.run(run_id)
    except BadInput:
        return None
    changed = _changed(results, [run]).get(run_id)
    return RunFigures(run, judged(results.coverage(run_id)) if run["status"] in PUBLISHED else (), changed)
