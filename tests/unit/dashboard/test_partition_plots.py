"""Where something is open in a table: which picture fits the names of its partitions, and what stands where."""

from collections.abc import Sequence

import altair as alt
import pytest
import streamlit as st

from lakeaudit.dashboard import partition_plots
from lakeaudit.dashboard.partition_plots import Place, across_and_down, key_values, sum_places
from lakeaudit.dashboard.queries.table import Partition, Partitions
from tests.builders.pagedata import HOSTILE


def part(path: str, **by_severity: int) -> Partition:
    return Partition(path, next(iter(by_severity), "critical"), by_severity or {"critical": 1})


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> list[alt.Chart]:
    """Collect the charts of a page."""
    drawn: list[alt.Chart] = []
    monkeypatch.setattr(st, "altair_chart", lambda chart, **_: drawn.append(chart))
    monkeypatch.setattr(st, "caption", lambda _: None)
    return drawn


@pytest.mark.parametrize(
    ("paths", "keys"),
    [
        (["day=1"], ["day"]),
        (["dt=2026-01-01/region=eu", "dt=2026-01-02/region=eu"], ["dt", "region"]),
        (["region=eu/dt=2026-01-01", "region=us/dt=2026-01-01"], ["region", "dt"]),
        (["a=1/b=1/c=1", "a=2/b=1/c=1", "a=3/b=2/c=1"], ["a", "b", "c"]),
        (["2026/01/02"], ["partition"]),
        (["day=1/loose"], ["partition"]),
        (["shop=closed", "shop=a=b/c"], ["shop"]),
        (["a=1/b=1", "a=1/loose"], ["a", "b", "partition"]),
    ],
)
def test_the_keys_are_those_of_the_names_the_widest_first(paths: Sequence[str], keys: list[str]) -> None:
    assert key_values([part(path) for path in paths])[0] == keys


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (["dt=2026-01-01/region=eu", "dt=2026-01-02/region=eu"], ("dt", "region")),
        (["dt=2026-01-01/region=eu", "dt=2026-01-01/region=us"], ("dt", "region")),
        (["a=1/b=x", "a=1/b=y"], ("b", "a")),
    ],
)
def test_days_run_across_else_the_key_with_more_values(paths: Sequence[str], told: tuple[str, str]) -> None:
    assert across_and_down(*key_values([part(path) for path in paths])) == told


def test_a_place_sums_what_lies_there_under_its_worst_severity() -> None:
    parts = [part("a=1/b=1/c=1", warning=2), part("a=1/b=1/c=2", critical=1), part("a=2/b=1/c=2", info=1)]
    _, values = key_values(parts)
    assert sum_places(parts, values["a"], values["b"]) == [
        Place("1", "1", "critical", 3),
        Place("2", "1", "info", 1),
    ]


@pytest.mark.parametrize(
    ("paths", "drawn"),
    [
        (["dt=2026-01-01", "dt=2026-03-01"], ("week", "weekday", 2)),
        (["kind=x", "kind=y"], ("open", "value", 2)),
        (["dt=2026-01-01/region=eu", "dt=2026-01-02/region=us"], ("across", "down", 2)),
        (
            [f"{'/'.join(f'k{n}={n % (at + 1)}' for n in range(40))}" for at in range(9)],
            ("across", "down", 9),
        ),
        ([f"name={name}" for name in HOSTILE if "/" not in name], None),
    ],
)
def test_the_picture_fits_the_names(
    charts: list[alt.Chart], paths: Sequence[str], drawn: tuple[str, str, int] | None
) -> None:
    """Columns of the picture and how many marks it has at most; names that bite are drawn like any other."""
    partition_plots.draw(Partitions(tuple(part(path) for path in paths)))
    (chart,) = charts
    told = chart.to_dict()
    if drawn is None:
        return
    across, down = told["encoding"]["x"]["field"], told["encoding"]["y"]["field"]
    assert (across, down, len(next(iter(told["datasets"].values())))) <= drawn
    assert (across, down) == drawn[:2]


def test_a_gap_between_days_is_drawn_as_one(charts: list[alt.Chart]) -> None:
    partition_plots.draw(Partitions((part("dt=2026-01-01"), part("dt=2026-01-22"))))
    assert charts[0].to_dict()["encoding"]["x"]["scale"]["domain"] == [
        "2026-W01",
        "2026-W02",
        "2026-W03",
        "2026-W04",
    ]
