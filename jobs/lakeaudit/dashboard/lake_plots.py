"""The pictures of the first page: how the last runs went, and which tables were worst on which days."""

from collections.abc import Sequence
from datetime import date

import altair as alt
import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.formatting import count, second, visible
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import palette
from lakeaudit.report.open_by_day import OpenByDay
from lakeaudit.results.read import Row

DRAWN = 50
"""Tables drawn before `all` is asked for."""
_ROW = 17
_AROUND = 36
"""Points that the days above take."""
_MOST = 460


def ticks(runs: Sequence[Row]) -> None:
    """A tick a run, coloured by how it went; a click leads to the run."""
    frame = pd.DataFrame(
        {
            "at": range(len(runs)),
            "status": [run["status"] for run in runs],
            "run": [visible(run["run_id"]) for run in runs],
            "as of": [second(run["as_of"]) for run in runs],
            "href": [widgets.address_of("runs", run=run["run_id"]) for run in runs],
        }
    )
    met = [status for status in palette.STATUS_COLOURS if status in set(frame["status"])]
    colour = alt.Color(
        "status:N",
        scale=alt.Scale(domain=met, range=[palette.STATUS_COLOURS[status] for status in met]),
        legend=alt.Legend(orient="bottom", title=None),
    )
    chart = alt.Chart(frame, height=92).mark_bar(cornerRadius=2, height=22)
    drawn = chart.encode(
        x=alt.X("at:O", axis=None), color=colour, href="href:N", tooltip=["run:N", "as of:N", "status:N"]
    )
    st.altair_chart(
        drawn, width="stretch", alt=f"How the last {count(len(runs))} runs went, newest at the right"
    )


def by_table_and_day(found: OpenByDay, tables: Sequence[str]) -> None:
    """The worst severity open at the end of each day; `tables` are in order, the worst first."""
    widgets.section("Tables by day")
    troubled = [table for table in tables if found.by_severity(table)]
    if not troubled:
        st.caption(f"Nothing was open on any of the last {len(found.days)} days.")
        return
    shown = (
        troubled if len(troubled) <= DRAWN or st.toggle(f"all {count(len(troubled))}") else troubled[:DRAWN]
    )
    st.caption(
        f"The worst severity open at the end of a day; {_rest(len(troubled) - len(shown))}grey: no audit."
    )
    with st.container(height=min(_ROW * len(shown) + _AROUND + 20, _MOST), border=False):
        told = "The worst severity of each table by day; the numbers stand in the grid beside it"
        st.altair_chart(_matrix(found, shown), width="stretch", alt=told)


def _rest(number: int) -> str:
    return f"{count(number)} more tables are not drawn; " if number else ""


def _matrix(found: OpenByDay, tables: Sequence[str]) -> alt.Chart:
    cells = [cell for table in tables for cell in _cells(found, table)]
    frame = pd.DataFrame(cells)
    names = [widgets.shortened(visible(table), 34) for table in tables]
    levels = [*SEVERITIES, "no audit"]
    colours = [*(palette.COLOURS[severity] for severity in SEVERITIES), "#8883"]
    base = alt.Chart(frame, height=_ROW * len(tables) + _AROUND).mark_rect(cornerRadius=2)
    chart: alt.Chart = base.encode(
        x=alt.X(
            "day:O",
            scale=alt.Scale(domain=[_named(day) for day in found.days]),
            axis=alt.Axis(
                title=None, orient="top", values=_weekly(found), labelAngle=0, ticks=False, domain=False
            ),
        ),
        y=alt.Y(
            "table:N",
            scale=alt.Scale(domain=names),
            axis=alt.Axis(
                title=None, labelLimit=190, labelOverlap=False, labelFontSize=10, ticks=False, domain=False
            ),
        ),
        color=alt.Color("worst:N", scale=alt.Scale(domain=levels, range=colours), legend=None),
        href="href:N",
        tooltip=["table:N", "day:N", "worst:N", "open:Q"],
    )
    return chart


def _named(day: date) -> str:
    return f"{day:%m-%d}"


def _weekly(found: OpenByDay) -> list[str]:
    return [_named(day) for day in found.days[1::7]]


def _cells(found: OpenByDay, table: str) -> list[dict[str, object]]:
    by, totals = found.by_severity(table), found.of_table(table)
    cells: list[dict[str, object]] = []
    for at, day in enumerate(found.days):
        worst = next((severity for severity, numbers in by.items() if numbers[at]), None)
        if day not in found.audited:
            worst = worst or "no audit"
        if worst:
            cells.append(
                {"table": widgets.shortened(visible(table), 34), "day": _named(day), "worst": worst, "open": totals[at],
                 "href": widgets.address_of("table", table=table)}
            )  # fmt: skip
    return cells
