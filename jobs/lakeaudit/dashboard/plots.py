"""Charts, each beside its numbers in words: a canvas tells nothing to those who cannot see it."""

from collections.abc import Sequence

import altair as alt
import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.lake import Day
from lakeaudit.dashboard.queries.table import Partition, Partitions
from lakeaudit.formatting import count, visible
from lakeaudit.kinds import SEVERITIES

WIDE = 40
"""Partitions side by side where their names do not say a place."""
NAMED = 12
"""Partitions told in words."""
DAYS_NAMED = 10
_COLOURS = ("#c62828", "#e07b00", "#c9a400", "#4a7fb5")
_STEP = 26
_AROUND = 190
"""Points that the legend and the names below take."""


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
        frame, x="day", y=["opened", "resolved"], stack=False, color=["#c62828", "#2e7d32"], height=260
    )
    right.line_chart(frame, x="day", y="open", height=260)


def heat_map(found: Partitions) -> None:
    """Each partition with something open: its colour the worst severity, its strength the number."""
    cells = _cells([part for part in found.shown if part.path])
    if not cells.empty:
        st.altair_chart(_chart(cells), width="stretch", alt=_alt(found))
    rest = f" {count(found.rest)} more partitions are not drawn." if found.rest else ""
    st.caption(f"Worst severity by colour, number by strength; the worst {NAMED} in words below.{rest}")


def _alt(found: Partitions) -> str:
    return (
        f"{count(len(found.shown))} partitions with something open; the worst of them stand in the list below"
    )


def _cells(parts: Sequence[Partition]) -> pd.DataFrame:
    places = [_place(part.path) for part in parts]
    loose = len({place[0] for place in places}) > WIDE or any(not place[1] for place in places)
    ordered = sorted(zip(parts, places, strict=True), key=lambda pair: pair[0].path)
    rows = [
        {
            "row": f"{at // WIDE:04d}" if loose else visible(place[0])[:60],
            "column": f"{at % WIDE:02d}" if loose else visible(place[1])[:40],
            "partition": visible(part.path)[:200],
            "worst": part.worst if part.worst in SEVERITIES else SEVERITIES[0],
            "open": part.number,
        }
        for at, (part, place) in enumerate(ordered)
    ]
    return pd.DataFrame(rows)


def _place(path: str) -> tuple[str, str]:
    """Row and column: the last level of the path in its parent, else the day in its month."""
    head, _, last = path.rpartition("/")
    if head:
        return head, last
    head, _, last = path.rpartition("-")
    return head, last


def _chart(cells: pd.DataFrame) -> alt.Chart:
    loose = bool(cells["row"].str.fullmatch(r"\d{4}").all())
    axis = None if loose else alt.Axis(title=None, labelLimit=220, ticks=False, domain=False)
    colour = alt.Color(
        "worst:N",
        scale=alt.Scale(domain=list(SEVERITIES), range=list(_COLOURS)),
        legend=alt.Legend(orient="top", title=None),
    )
    strength = alt.Opacity("open:Q", scale=alt.Scale(type="log", range=[0.35, 1.0]), legend=None)
    rows = cells["row"].nunique()
    chart = alt.Chart(cells, height=min(rows, WIDE) * _STEP + _AROUND).mark_rect(
        cornerRadius=2, stroke="#8884"
    )
    encoded: alt.Chart = chart.encode(
        x=alt.X("column:N", axis=axis), y=alt.Y("row:N", axis=axis), color=colour, opacity=strength,
        tooltip=["partition:N", "worst:N", "open:Q"],
    )  # fmt: skip
    return encoded
