"""The axes of charts over time: their times, numbers, marks and names."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import streamlit as st

from lakeaudit.dashboard import plots, timeline_plot
from lakeaudit.dashboard.queries.history import Period
from lakeaudit.dashboard.queries.lake import Day
from lakeaudit.dashboard.queries.table import Change
from lakeaudit.dashboard.queries.timeline import LoggedCommit, Timeline
from tests.builders.results import NOON

Row = dict[str, Any]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """Collect the charts of a page."""
    drawn: list[Row] = []

    def draw(*args: Any, **_: Any) -> None:
        drawn.append(args[-1].to_dict())

    monkeypatch.setattr(st, "altair_chart", draw)
    monkeypatch.setattr(st.delta_generator.DeltaGenerator, "altair_chart", draw)
    monkeypatch.setattr(st, "caption", lambda _: None)
    monkeypatch.setattr(st, "table", lambda *_, **__: None)
    return drawn


# --- commits -------------------------------------------------------------------------------------------------------


def commit(at: datetime, added: int | None = 1, removed: int | None = 0, **open_: int) -> LoggedCommit:
    return LoggedCommit(1, "1", at, "WRITE", added, removed, open_)


@pytest.mark.parametrize(
    ("added", "removed", "marks"),
    [
        (0, 0, [0]),
        (None, None, [0]),
        (5, 0, [0, 1]),
        (5, 3, [-1, 0, 1]),
        (0, 3, [-1, 0]),
        (10, 0, [0, 10]),
        (250, 12, [-10, 0, 10, 100]),
        (3, 2_000, [-10, -100, -1000, 0]),
    ],
)
def test_the_axis_of_files_has_a_mark_at_zero_and_at_powers_of_ten(
    charts: list[Row], added: int | None, removed: int | None, marks: list[int]
) -> None:
    timeline_plot.show(Timeline((commit(NOON, added, removed),)))
    (chart,) = charts
    for layer in chart["layer"]:
        files = layer["encoding"]["y"]
        assert files["axis"]["values"] == marks
        assert files["axis"]["title"] == "files removed, added"
        assert files["axis"]["labelExpr"].startswith("format(abs("), "numbers of removed files have no sign"
        assert files["scale"]["type"] == "symlog"


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(), "%H:%M:%S"),
        (HOUR / 2, "%H:%M:%S"),
        (HOUR, "%m-%d %H:%M"),
        (3 * DAY, "%m-%d %H:%M"),
        (4 * DAY, "%Y-%m-%d"),
        (400 * DAY, "%Y-%m-%d"),
    ],
)
@pytest.mark.parametrize("by_change", [False, True])
def test_the_axis_of_time_is_utc_and_as_precise_as_its_period(
    charts: list[Row], span: timedelta, text: str, by_change: bool
) -> None:
    """A change after the last commit is in the period."""
    commits = (commit(NOON - span), *(() if by_change else (commit(NOON),)))
    timeline_plot.show(Timeline(commits, (Change(NOON, "opened", 1),) if by_change else ()))
    (chart,) = charts
    for layer in chart["layer"]:
        time = layer["encoding"]["x"]
        assert (time["type"], time["scale"], time["axis"]["title"]) == ("temporal", {"type": "utc"}, "UTC")
        assert time["axis"]["format"] == text
        assert time["axis"]["labelOverlap"] is True


def test_every_mark_of_a_chart_of_commits_is_in_its_legend(charts: list[Row]) -> None:
    commits = (commit(NOON - HOUR, 3, 2, critical=1), commit(NOON))
    timeline_plot.show(Timeline(commits, (Change(NOON, "opened", 1), Change(NOON, "resolved", 1))))
    (chart,) = charts
    marks = {row["what"] for rows in chart["datasets"].values() for row in rows}
    for layer in chart["layer"]:
        colour = layer["encoding"]["color"]
        assert {*colour["scale"]["domain"]} == marks
        assert colour["legend"]["orient"] == "top"


# --- changes -------------------------------------------------------------------------------------------------------


FIRST = date(2026, 1, 30)


def show_trend(days: int) -> None:
    """Draw a period in which something was opened on the first day and resolved on the last."""
    period = Period(FIRST, FIRST + (days - 1) * DAY)
    shown = [
        Day(FIRST + at * DAY, opened=3 * (at == 0), reopened=0, resolved=2 * (at == days - 1), open=3)
        for at in range(days)
    ]
    plots.trend(shown, period, "orders")


def day_of(value: Row) -> date:
    assert value["utc"] is True
    return date(value["year"], value["month"], value["date"])


@pytest.mark.parametrize("days", [1, 2, 4, 5, 6, 7, 30, 31, 90, 365])
def test_the_dates_of_a_chart_of_changes_are_at_equal_distances(charts: list[Row], days: int) -> None:
    show_trend(days)
    assert len(charts) == 2
    for chart in charts:
        x = chart["encoding"]["x"]
        dates = [day_of(value) for value in x["axis"]["values"]]
        assert dates[0] == FIRST
        assert min(days, 3) <= len(dates) <= 5
        assert len({after - before for before, after in pairwise(dates)}) <= 1
        assert dates[-1] < FIRST + days * DAY
        assert (x["axis"]["format"], x["axis"]["title"]) == ("%Y-%m-%d", "day (UTC)")
        begin, end = (datetime.fromisoformat(text) for text in x["scale"]["domain"])
        assert begin == datetime(2026, 1, 30, tzinfo=UTC)
        assert end - begin == days * DAY
        assert (x["scale"]["type"], x["scale"]["nice"]) == ("utc", False)


def test_the_numbers_of_a_chart_of_changes_are_whole_and_start_at_zero(charts: list[Row]) -> None:
    show_trend(30)
    changes, ends = (chart["encoding"]["y"] for chart in charts)
    assert (changes["axis"]["title"], ends["axis"]["title"]) == ("resolved, opened", "open")
    assert "abs(" in changes["axis"]["labelExpr"], "numbers of resolved discrepancies have no sign"
    for y in (changes, ends):
        assert y["axis"]["tickMinStep"] == 1
        assert "values" not in y["axis"], "Vega-Lite chooses marks, and zero is one of them"
        assert y.get("scale", {}).get("zero", True), "bars and areas start at zero"
        assert y.get("scale", {}).get("type", "linear") == "linear"
    assert [chart["mark"]["type"] for chart in charts] == ["bar", "area"]
    opened, resolved = charts[0]["datasets"][charts[0]["data"]["name"]]
    assert (opened["drawn"], opened["number"]) == (3, 3)
    assert (resolved["drawn"], resolved["number"]) == (-2, 2)
    assert opened["day"] == "2026-01-30T12:00:00Z", "a bar is in the middle of its day"


def test_the_open_discrepancies_are_drawn_to_the_end_of_the_last_day(charts: list[Row]) -> None:
    show_trend(7)
    ends = charts[1]["datasets"][charts[1]["data"]["name"]]
    assert [row["day"] for row in ends] == [(FIRST + at * DAY).isoformat() for at in range(8)]
