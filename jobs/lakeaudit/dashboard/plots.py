"""What came and went by day, beside its numbers in words: a canvas tells nothing to those who cannot see it."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.lake import Day
from lakeaudit.formatting import count
from lakeaudit.report import palette

DAYS_NAMED = 10


def trend(days: Sequence[Day], of: str) -> None:
    """What opened and was resolved by day, and what was open at its end."""
    widgets.section("By day")
    if not days:
        st.caption("Nothing has opened or been resolved yet.")
        return
    if len(days) > 1:
        _drawn(days)
    rows = [
        (day.day.isoformat(), *map(count, (day.opened, day.reopened, day.resolved, day.open)))
        for day in reversed(days[-DAYS_NAMED:])
    ]
    with st.expander(
        f"In numbers: the last {widgets.number(len(rows), 'day')} with a change", expanded=len(rows) < 4
    ):
        columns = ("day (UTC)", "opened", "came back", "resolved", "open at its end")
        widgets.grid(columns, rows, alt=f"What changed in {of} by day")
    st.caption("Open counts what is accepted too. A resolved one may be closed and not restored.")


def _drawn(days: Sequence[Day]) -> None:
    frame = pd.DataFrame(
        {
            "day": [day.day.isoformat() for day in days],
            "opened": [day.opened + day.reopened for day in days],
            "resolved": [day.resolved for day in days],
            "open": [day.open for day in days],
        }
    )
    left, right = st.columns(2)
    left.bar_chart(
        frame,
        x="day",
        y=["opened", "resolved"],
        stack=False,
        color=[palette.COLOURS["critical"], palette.COLOURS["fine"]],
        height=260,
    )
    right.line_chart(frame, x="day", y="open", height=260)
