"""Defines the goals for an audit's cost, and compares them with the newest figures of each size."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.bench.measure import AUDIT, AUDIT_OF_TWO, DUCK, DUCK_OF_TWO, GUARD, LIVE, SAME, SECOND, SESSION
from tests.bench.spec import FIGURES

GIB = 2**30
Figures = Mapping[str, Mapping[str, Any]]
"""By lake (`Spec.name`) and contender the figures of `Measured.middle`."""


@dataclass(frozen=True)
class Goal:
    """A measure that should stay below `must`, better below `aim`.

    Attributes:
        of: lake and contender that is measured.
        over: lake and contender whose seconds are the divisor; None: there is no divisor.
        what: the figure of a run, if there is no divisor.
    """

    measure: str
    must: float
    aim: float
    of: tuple[str, str]
    over: tuple[str, str] | None = None
    what: str = "seconds"

    def value(self, figures: Figures, what: str | None = None) -> float | None:
        """Return the value; None if it was not measured."""
        runs = self.runs(figures)
        if runs is None:
            return None
        first, *others = (float(run[what or self.what]) for run in runs)
        return first / max(others[0], 0.01) if others else first / (GIB if self.what == "pss" else 1)

    def runs(self, figures: Figures) -> list[Mapping[str, Any]] | None:
        """Return the runs from which the value is computed; None if one is missing."""
        lakes = [self.of, *([self.over] if self.over else [])]
        runs = [figures.get(lake, {}).get(name) for lake, name in lakes]
        return None if None in runs else [run for run in runs if run]

    def format_value(self, value: float) -> str:
        unit = "x" if self.over else "GiB" if self.what == "pss" else "s"
        return f"{value:.2g} {unit}" if value < 10 else f"{value:.0f} {unit}"


def load_figures() -> dict[str, dict[str, Any]]:
    """Return the medians of every lake that was measured on this machine."""
    return {path.stem: json.loads(path.read_text())["median"] for path in sorted(FIGURES.glob("*.json"))}


_TEN_K, _ONE_M, _TEN_M, _HUNDRED_M = (f"{size}-clean-8" for size in ("10k", "1m", "10m", "100m"))


def _of_format(kind: str, must: float, aim: float) -> tuple[Goal, ...]:
    """Return the goals for lakes of another format than Delta: what an audit of them takes over one of Delta."""
    small, name = f"{_TEN_K}-{kind}", kind.title()
    sizes = {"1 million": _ONE_M, "10 million": _TEN_M}
    return (
        Goal(
            f"{name}, 10,000 files x 3, over Spark's start and stop",
            2.5,
            1.5,
            (small, AUDIT),
            (small, SESSION),
        ),
        *(
            Goal(f"{name} over Delta, {size} x 3", must, aim, (f"{lake}-{kind}", AUDIT), (lake, AUDIT))
            for size, lake in sizes.items()
        ),
        Goal(f"{name}, peak memory at 10,000 x 3", 2.5, 1.2, (small, AUDIT), what="pss"),
        Goal(f"{name}, peak memory at 1 million x 3", 6, 3, (f"{_ONE_M}-{kind}", AUDIT), what="pss"),
    )


GOALS = (
    Goal("10 million, two sources, over DuckDB", 5, 3.3, (_TEN_M, AUDIT_OF_TWO), (_TEN_M, DUCK_OF_TWO)),
    *(
        Goal(f"guard of {size} keys over the audit, two sources", 1.3, 1, (lake, GUARD), (lake, AUDIT_OF_TWO))
        for size, lake in (("1 million", _ONE_M), ("10 million", _TEN_M))
    ),
    Goal("100 million, two sources", 200, 100, (_HUNDRED_M, AUDIT_OF_TWO)),
    Goal("10,000 files x 3, over Spark's start and stop", 2.5, 1.5, (_TEN_K, AUDIT), (_TEN_K, SESSION)),
    Goal("10 million x 3, over DuckDB", 2, 1.3, (_TEN_M, AUDIT), (_TEN_M, DUCK)),
    Goal("100 million x 3, over 10 million", 10, 9, (_HUNDRED_M, AUDIT), (_TEN_M, AUDIT)),
    Goal("peak memory at 10,000 x 3", 2.5, 1.2, (_TEN_K, AUDIT), what="pss"),
    Goal("peak memory at 10 million x 3", 6, 3, (_TEN_M, AUDIT), what="pss"),
    Goal("peak memory at 100 million x 3", 5, 4, (_HUNDRED_M, AUDIT), what="pss"),
    *(
        Goal(
            f"10 million again, 1 % of the logs changed, {of}, over the first",
            0.5,
            0.3,
            (_TEN_M, name),
            (_TEN_M, AUDIT),
        )
        for of, name in (("the same report and export", SAME), ("new report and export", SECOND))
    ),
    Goal("2,000 tables over 20, 1 million files", 1.2, 1.1, ("1m-clean-2000", AUDIT), ("1m-clean-20", AUDIT)),
    Goal("profile real over clean, 1 million", 1.6, 1.3, ("1m-real-8", AUDIT), (_ONE_M, AUDIT)),
    *_of_format("iceberg", 1.4, 1.1),
    *_of_format("hudi", 1.6, 1.2),
    Goal("live audit of a table of 1,000 files, cold", 2.5, 1.5, (_TEN_K, LIVE)),
)


def verdict_columns(goal: Goal, figures: Figures) -> tuple[str, str, str]:
    """Return (value, value in CPU seconds, verdict) as text."""
    value, runs = goal.value(figures), goal.runs(figures)
    if value is None or runs is None:
        return "not measured", "", ""
    verdict = "aim" if value <= goal.aim else "must" if value <= goal.must else "no"
    if goal.what == "pss":
        return goal.format_value(value), "", verdict
    loaded = any(run["load"][0] > 1.5 * len(os.sched_getaffinity(0)) for run in runs)
    by_cpu = goal.value(figures, "cpu")
    return goal.format_value(value), goal.format_value(by_cpu or 0), verdict + (" (loaded)" if loaded else "")
