"""Draws changes by day, and lists the numbers as text for readers who cannot see a canvas."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from math import ceil

import altair as alt
import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.history import Period
from lakeaudit.dashboard.queries.lake import Day
from lakeaudit.formatting import count
from lakeaudit.report import palette

DAYS_NAMED = 10
_HEIGHT = 260
_DATES = 5
"""Most dates on an axis."""
_WITHOUT_SIGN = "format(abs(datum.value), ',d')"
"""Numbers below the axis are numbers of resolved discrepancies."""
_WIDE = 400
"""Width of the bars of all days together, in points."""
_OPENED = "opened or reopened"
_WHAT = {_OPENED: palette.COLOURS["critical"], "resolved": palette.COLOURS["fine"]}


def trend(days: Sequence[Day], period: Period, of: str) -> None:
    """Show numbers of opened and resolved discrepancies by day, and of open ones at its end."""
    changed = [day for day in days if day.opened or day.reopened or day.resolved]
    if not changed:
        still = f"; {count(days[-1].open)} open all the time" if days and days[-1].open else ""
        st.caption(f"Nothing opened or was resolved in this period{still}.")
        return
    _charts(days, period)
    rows = [
        (day.day.isoformat(), *map(count, (day.opened, day.reopened, day.resolved, day.open)))
        for day in reversed(changed[-DAYS_NAMED:])
    ]
    with st.expander(
        f"In numbers: the last {widgets.number(len(rows), 'day')} with a change", expanded=len(rows) < 4
    ):
        columns = ("day (UTC)", "opened", "reopened", "resolved", "open at its end")
        widgets.grid(columns, rows, alt=f"Changes in {of} by day", phone=columns)
    st.caption(
        "Open includes accepted discrepancies. Resolved includes those closed without a restored file."
    )


def _charts(days: Sequence[Day], period: Period) -> None:
    """Draw two charts over time: opened (up) and resolved (down) by day, and open at the end of each day."""
    changes = [row for day in days for row in _changes(day)]
    after = replace(days[-1], day=days[-1].day + timedelta(days=1))
    ends = [{"day": day.day.isoformat(), "open": day.open} for day in (*days, after)]
    span = (period.last - period.first).days + 1
    ends_of_period = [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (period.begin, period.end)]
    x = alt.X(
        "day:T",
        scale=alt.Scale(type="utc", nice=False, domain=ends_of_period),
        axis=alt.Axis(title="day (UTC)", labelOverlap=True, format="%Y-%m-%d", values=_dates(period, span)),
    )
    bars = alt.Chart(pd.DataFrame(changes), height=_HEIGHT).mark_bar(size=min(max(_WIDE / span, 2), 18)).encode(
        x=x, y=alt.Y("drawn:Q", axis=alt.Axis(title="resolved, opened", labelExpr=_WITHOUT_SIGN, tickCount=5,
                                                 tickMinStep=1, labelOverlap=False)),
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
    left.altair_chart(bars, width="stretch", alt="Opened and resolved by day; the numbers are below")
    right.altair_chart(line, width="stretch", alt="Open at the end of each day; the numbers are below")


def _dates(period: Period, days: int) -> list[alt.DateTime]:
    """Return some days of a period at equal distances."""
    step = ceil(days / _DATES)
    shown = (period.first + timedelta(days=at) for at in range(0, days, step))
    return [alt.DateTime(year=day.year, month=day.month, date=day.day, utc=True) for day in shown]


def _changes(day: Day) -> Iterator[dict[str, object]]:
    on, opened = day.day.isoformat(), day.opened + day.reopened
    middle = f"{on}T12:00:00Z"
    if opened:
        yield {"day": middle, "on": on, "what": _OPENED, "drawn": opened, "number": opened}
    if day.resolved:
        yield {"day": middle, "on": on, "what": "resolved", "drawn": -day.resolved, "number": day.resolved}
