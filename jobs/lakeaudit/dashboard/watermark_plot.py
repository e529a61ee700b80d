"""Draws the verified time of a table over its audits: a line that rises with them, and marks where it moved back."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.watermarks import Moved
from lakeaudit.formatting import number, second
from lakeaudit.report import palette
from lakeaudit.results.watermark import BACK

_HEIGHT = 180


def show(moved: Sequence[Moved]) -> None:
    """Show the plot; nothing if fewer than two audits are known."""
    known = [each for each in moved if each.through is not None]
    if len(moved) < 2 or not known:
        return
    widgets.section("Verified through")
    back = sum(each.movement == BACK for each in moved)
    last = f"now {second(moved[-1].through)}" if moved[-1].through else "now no commit is verified"
    summary = f"The last {number(len(moved), 'audit')}; {last}; moved back {number(back, 'time')}"
    st.caption(f"{summary}. The line shows up to which commit time each audit verified the table.")
    st.altair_chart(_chart(moved), width="stretch", alt=summary)


def _chart(moved: Sequence[Moved]) -> alt.LayerChart | alt.FacetChart:
    rows = pd.DataFrame([_row(each) for each in moved], columns=["at", "through", "text"])
    back = pd.DataFrame(
        [_row(each) for each in moved if each.movement == BACK and each.through],
        columns=["at", "through", "text"],
    )
    commits = [each.through for each in moved if each.through]
    at = alt.X(
        "at:T",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(title="audit (UTC)", tickCount=6, **_labels([each.at for each in moved])),
    )
    through = alt.Y(
        "through:T",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(title="verified through", tickCount=4, **_labels(commits)),
    )
    line = alt.Chart(rows).mark_line(
        interpolate="step-after",
        color=palette.COLOURS["fine"],
        invalid="break-paths-show-domains",
        point=alt.OverlayMarkDef(filled=True, size=40, color=palette.COLOURS["fine"]),
    )
    marks = alt.Chart(back).mark_point(
        filled=True, size=90, shape="triangle-down", color=palette.COLOURS["critical"]
    )
    return alt.layer(
        *(each.encode(x=at, y=through, tooltip=["text:N"]) for each in (line, marks))
    ).properties(height=_HEIGHT)


def _labels(times: Sequence[datetime]) -> dict[str, Any]:
    """Return the format of an axis: as exact as its span needs, so that no two ticks have the same label."""
    span = max(times) - min(times)
    form = next((form for least, form in _FORMS if span >= least), "%H:%M:%S")
    return {"format": form, "labelOverlap": "greedy", "labelFontSize": 12, "labelSeparation": 12}


_FORMS = (
    (timedelta(days=4), "%Y-%m-%d"),
    (timedelta(hours=4), "%m-%d %H:%M"),
    (timedelta(minutes=10), "%H:%M"),
)


def _row(each: Moved) -> tuple[str, str | None, str]:
    until = second(each.through) if each.through else "no commit"
    return _at(each.at), _at(each.through) if each.through else None, f"audit of {second(each.at)}: {until}"


def _at(time: datetime) -> str:
    """Return the time in a form that browsers read as UTC."""
    return f"{time:%Y-%m-%dT%H:%M:%S}Z"
