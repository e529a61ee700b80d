"""What was promised of an audit's cost, and how far the newest figures of each size keep it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.bench.measure import AUDIT, DUCK, LIVE, PASS, SECOND, SESSION
from tests.bench.spec import FIGURES

GIB = 2**30
Figures = Mapping[str, Mapping[str, Any]]
"""By lake (`Spec.name`) and contender what `Measured.middle` gives."""


@dataclass(frozen=True)
class Goal:
    """A measure that should stay below `must`, better below `aim`; None as its value: not measured."""

    measure: str
    must: float
    aim: float
    value: Callable[[Figures], float | None]
    unit: str = " x"


def known() -> dict[str, dict[str, Any]]:
    """The medians of every lake that has been measured on this machine."""
    files = sorted(FIGURES.glob("*.json"))
    return {path.stem: json.loads(path.read_text())["median"] for path in files}


def _figure(figures: Figures, lake: str, name: str, what: str) -> float | None:
    run = figures.get(lake, {}).get(name)
    return None if run is None else float(run[what])


def _ratio(one: tuple[str, str], other: tuple[str, str]) -> Callable[[Figures], float | None]:
    def value(figures: Figures) -> float | None:
        above, below = (_figure(figures, *each, "seconds") for each in (one, other))
        return above / below if above and below else None

    return value


def _of_one(lake: str, name: str, what: str, unit: float = 1) -> Callable[[Figures], float | None]:
    def value(figures: Figures) -> float | None:
        figure = _figure(figures, lake, name, what)
        return None if figure is None else figure / unit

    return value


_TEN_K, _ONE_M, _TEN_M, _HUNDRED_M = (f"{size}-clean-8" for size in ("10k", "1m", "10m", "100m"))
GOALS = (
    Goal("10,000 files x 3, over Spark's start and stop", 2.5, 1.5, _ratio((_TEN_K, AUDIT), (_TEN_K, SESSION))),
    Goal("1 million x 3, over DuckDB", 12, 6, _ratio((_ONE_M, AUDIT), (_ONE_M, DUCK))),
    Goal("10 million x 3, over a Spark pass", 3, 1.5, _ratio((_TEN_M, AUDIT), (_TEN_M, PASS))),
    Goal("10 million x 3, over DuckDB", 4, 1.5, _ratio((_TEN_M, AUDIT), (_TEN_M, DUCK))),
    Goal("100 million x 3, over 10 million", 11, 10, _ratio((_HUNDRED_M, AUDIT), (_TEN_M, AUDIT))),
    Goal("peak memory at 10,000 x 3", 2.5, 1.2, _of_one(_TEN_K, AUDIT, "pss", GIB), " GiB"),
    Goal("peak memory at 10 million x 3", 6, 3, _of_one(_TEN_M, AUDIT, "pss", GIB), " GiB"),
    Goal("10 million again with 1 % of changes, over the first", 0.4, 0.1, _ratio((_TEN_M, SECOND), (_TEN_M, AUDIT))),
    Goal("1 million again with 1 % of changes, over the first", 0.4, 0.1, _ratio((_ONE_M, SECOND), (_ONE_M, AUDIT))),
    Goal("2,000 tables over 20, 1 million files", 1.5, 1.1, _ratio(("1m-clean-2000", AUDIT), ("1m-clean-20", AUDIT))),
    Goal("profile real over clean, 1 million", 2.5, 1.5, _ratio(("1m-real-8", AUDIT), (_ONE_M, AUDIT))),
    Goal("profile real over clean, 10 million", 2.5, 1.5, _ratio(("10m-real-8", AUDIT), (_TEN_M, AUDIT))),
    Goal("live audit of a table of 1,000 files, cold", 8, 3, _of_one(_TEN_K, LIVE, "seconds"), " s"),
)  # fmt: skip


def kept(goal: Goal, figures: Figures) -> tuple[str, str]:
    """(value, verdict) in words."""
    value = goal.value(figures)
    if value is None:
        return "not measured", ""
    verdict = "aim" if value <= goal.aim else "must" if value <= goal.must else "MISSED"
    return f"{value:.2g}{goal.unit}" if value < 10 else f"{value:.0f}{goal.unit}", verdict
