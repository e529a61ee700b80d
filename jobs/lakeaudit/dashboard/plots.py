"""What came and went by day, beside its numbers in words: a canvas tells nothing to those who cannot see it."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import altair as alt
import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.lake import Day
from lakeaudit.formatting import count
from lakeaudit.report import palette

DAYS_NAMED = 10
SPAN = 90
"""Days drawn, up to the last change: a burst a year ago would flatten what is open today."""
_HEIGHT = 220
_WIDE = 400
"""Points that the bars of all days may take together."""
_WHAT = {"opened": palette.COLOURS["critical"], "resolved": palette.COLOURS["fine"]}


def trend(days: Sequence[Day], of: str) -> None:
    """What opened and was resolved by day, and what was open at its end."""
    widgets.section("By day")
    if not days:
        st.caption("Nothing has opened or been resolved yet.")
        return
    drawn = [day for day in days if day.day > days[-1].day - timedelta(days=SPAN)]
    if len(drawn) > 1:
        _drawn(drawn)
    rows = [
        (day.day.isoformat(), *map(count, (day.opened, day.reopened, day.resolved, day.open)))
        for day in reversed(days[-DAYS_NAMED:])
    ]
    with st.expander(
        f"In numbers: the last {widgets.number(len(rows), 'day')} with a change", expanded=len(rows) < 4
    ):
        columns = ("day (UTC)", "opened", "reopened", "resolved", "open at its end")
        widgets.grid(columns, rows, alt=f"What changed in {of} by day")
    st.caption("Open counts what is accepted too. A resolved one may be closed and not restored.")


def _drawn(days: Sequence[Day]) -> None:
    """Days lie as far apart as they were; opened upwards, resolved downwards."""
    changes = [row for day in days for row in _changes(day)]
    ends = [{"day": day.day.isoformat(), "open": day.open} for day in days]
    span = (days[-1].day - days[0].day).days + 1
    x = alt.X(
        "day:T",
        scale=alt.Scale(type="utc", nice=False),
        axis=alt.Axis(title=None, labelOverlap=True, format="%Y-%m-%d"),
    )
    bars = alt.Chart(pd.DataFrame(changes), height=_HEIGHT).mark_bar(size=min(max(_WIDE / span, 2), 18)).encode(
        x=x, y=alt.Y("drawn:Q", axis=alt.Axis(title="opened, resolved", format=",d", tickCount=5, tickMinStep=1)),
        color=alt.Color("what:N", scale=alt.Scale(domain=[*_WHAT], range=[*_WHAT.values()]),
                        legend=alt.Legend(orient="top", title=None)),
        tooltip=["on:N", "what:N", "number:Q"],
    )  # fmt: skip
    area = alt.Chart(pd.DataFrame(ends), height=_HEIGHT)
    line = area.mark_area(interpolate="step-after", opacity=0.6, line=True).encode(
        x=x, y=alt.Y("open:Q", axis=alt.Axis(title="open", format=",d", tickCount=5, tickMinStep=1)),
        tooltip=["day:T", "open:Q"],
    )  # fmt: skip
    left, right = st.columns(2)
    left.altair_chart(
        bars, width="stretch", alt="What opened and was resolved by day; the numbers stand below"
    )
    right.altair_chart(
        line, width="stretch", alt="What was open at the end of each day; the numbers stand below"
    )


def _changes(day: Day) -> Iterator[dict[str, object]]:
    on, opened = day.day.isoformat(), day.opened + day.reopened
    if opened:
        yield {"day": on, "on": on, "what": "opened", "drawn": opened, "number": opened}
    if day.resolved:
        yield {"day": on, "on": on, "what": "resolved", "drawn": -day.resolved, "number": day.resolved}
