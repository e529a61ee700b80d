"""Draws a table's commits over time, with marks for commits with lost files and for opened and resolved findings."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import altair as alt
import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.table import Change
from lakeaudit.dashboard.queries.timeline import LoggedCommit, Timeline
from lakeaudit.formatting import UNKNOWN, count, second, visible
from lakeaudit.report import palette

NAMED = 12
"""Number of commits in the list: those with open discrepancies, then the newest."""
_HEIGHT = 230
_MARKS = {
    "files added": (palette.COLOURS["info"], "square"),
    "files removed": (palette.STATUS_COLOURS["running"], "square"),
    "open": (palette.COLOURS["critical"], "diamond"),
    "opened": (palette.COLOURS["error"], "triangle-up"),
    "resolved": (palette.COLOURS["fine"], "circle"),
}


def show(timeline: Timeline) -> None:
    """Show the plot and a list of commits; nothing if no commits are known."""
    if not timeline.commits:
        return
    widgets.section("Commits")
    lost = [commit for commit in timeline.commits if commit.open]
    summary = f"The newest {widgets.number(len(timeline.commits), 'commit')}, {_span(timeline.commits)}; " + (
        f"{count(len(lost))} with open discrepancies, marked with a diamond"
        if lost
        else "none with open discrepancies"
    )
    earlier = f"; {count(timeline.earlier)} open ones belong to earlier commits" if timeline.earlier else ""
    st.caption(f"{widgets.prose(summary + earlier)}. Triangles: opened by a run. Dots: resolved by a run.")
    st.altair_chart(
        _chart(timeline), width="stretch", alt=f"{summary}{earlier}; the list below has the numbers"
    )
    shown = [*reversed(lost), *(commit for commit in reversed(timeline.commits) if not commit.open)][:NAMED]
    with st.expander("In numbers", expanded=False):
        widgets.grid(
            _COLUMNS,
            [_row(commit) for commit in shown],
            alt="Commits, those with something open first",
            phone=("version", "when", "open"),
        )


_COLUMNS = ("version", "when", "operation", "files added", "files removed", "open")


def _row(commit: LoggedCommit) -> tuple[str, ...]:
    return (
        widgets.literal(commit.commit_id),
        second(commit.at),
        widgets.prose(commit.operation or UNKNOWN),
        count(commit.added),
        count(commit.removed),
        " ".join(f"{widgets.badge(severity)} {count(number)}" for severity, number in commit.open.items())
        or UNKNOWN,
    )


def _span(commits: Sequence[LoggedCommit]) -> str:
    first, last = second(commits[0].at), second(commits[-1].at)
    return f"of {first}" if first == last else f"{first} to {last}"


def _chart(timeline: Timeline) -> alt.LayerChart | alt.FacetChart:
    bars = pd.DataFrame([row for commit in timeline.commits for row in _bars(commit)], columns=_BAR)
    marks = pd.DataFrame([*map(_diamond, (each for each in timeline.commits if each.open))], columns=_MARK)
    floor = (
        -2 * max(commit.removed or 0 for commit in timeline.commits) - 3
    )  # below every bar, on a logarithmic scale
    feet = pd.DataFrame([_foot(change, floor) for change in timeline.changes], columns=_MARK)
    scale = alt.Scale(domain=[*_MARKS], range=[colour for colour, _ in _MARKS.values()])
    colour = alt.Color(
        "what:N", scale=scale, legend=alt.Legend(orient="top", title=None, symbolType="square", columns=3)
    )
    shape = alt.Shape(
        "what:N",
        scale=alt.Scale(domain=[*_MARKS], range=[shape for _, shape in _MARKS.values()]),
        legend=None,
    )
    at = alt.X(
        "at:T",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(title="UTC", labelOverlap=True, tickCount=8, format=_format(timeline)),
    )
    files = alt.Y("files:Q", scale=alt.Scale(type="symlog"), axis=_files_axis(timeline))
    tooltip = ["commit:N", "when:N", "operation:N", "what:N", "number:Q"]
    drawn = alt.Chart(bars).mark_bar(width=5).encode(x=at, y=files, color=colour, tooltip=tooltip)
    over = alt.Chart(marks).mark_point(filled=True, size=110, opacity=1).encode(
        x=at, y=files, color=colour, shape=shape, tooltip=["when:N", "text:N"]
    )  # fmt: skip
    under = alt.Chart(feet).mark_point(filled=True, size=60, opacity=1).encode(
        x=at, y=files, color=colour, shape=shape, tooltip=["when:N", "text:N"]
    )  # fmt: skip
    return alt.layer(drawn, over, under).properties(height=_HEIGHT)


def _files_axis(timeline: Timeline) -> alt.Axis:
    """Return an axis with a mark at zero and at each power of ten; numbers of removed files have no sign."""
    most, removed = (
        max((getattr(commit, name) or 0 for commit in timeline.commits), default=0)
        for name in ("added", "removed")
    )
    powers = [10**power for power in range(1 if max(most, removed) >= 10 else 0, 9)]
    marks = [*(-each for each in powers if each <= removed), 0, *(each for each in powers if each <= most)]
    text = "format(abs(datum.value), '~s')"
    return alt.Axis(title="files removed, added", values=marks, labelExpr=text, labelOverlap=False)


def _format(timeline: Timeline) -> str:
    """Return a time format that fits the period of the plot."""
    times = [*(each.at for each in timeline.commits), *(each.at for each in timeline.changes)]
    span = max(times) - min(times)
    return (
        "%H:%M:%S" if span < timedelta(hours=1) else "%m-%d %H:%M" if span < timedelta(days=4) else "%Y-%m-%d"
    )


_BAR = ["at", "when", "commit", "operation", "what", "files", "number"]
_MARK = ["at", "when", "what", "files", "text"]


def _bars(commit: LoggedCommit) -> Iterator[tuple[object, ...]]:
    """Yield bars for added (up) and removed files (down); an unknown number has no height, and its hover shows that."""
    about = _at(commit.at), second(commit.at), visible(commit.commit_id), visible(commit.operation or UNKNOWN)
    yield *about, "files added", commit.added or 0, commit.added
    yield *about, "files removed", -(commit.removed or 0), commit.removed


def _diamond(commit: LoggedCommit) -> tuple[object, ...]:
    numbers = ", ".join(f"{count(number)} {visible(severity)}" for severity, number in commit.open.items())
    text = f"{numbers} open, of commit {visible(commit.commit_id)}"
    return _at(commit.at), second(commit.at), "open", commit.added or 0, text


def _foot(change: Change, floor: int) -> tuple[object, ...]:
    what = "resolved" if change.what == "resolved" else "opened"
    return _at(change.at), second(change.at), what, floor, f"{count(change.number)} {change.what}"


def _at(time: datetime) -> str:
    """Return the time in a form that browsers read as UTC."""
    return f"{time:%Y-%m-%dT%H:%M:%S}Z"
