"""Shows the history of the lake or a table in a period that the reader selects: changes by day, times, audits."""

from collections.abc import Sequence
from datetime import date, timedelta

import pandas as pd
import streamlit as st

from lakeaudit.dashboard import plots, widgets
from lakeaudit.dashboard.queries import history as figures
from lakeaudit.dashboard.queries.history import AuditOfTable, Duration, KindTimes, Period
from lakeaudit.dashboard.queries.table import Change
from lakeaudit.dashboard.session import PageSession
from lakeaudit.formatting import count, rough, share, visible
from lakeaudit.report import palette
from lakeaudit.report.coverage_view import Judged

DAYS = 90
"""Number of days until today that are shown at first."""
_ROW, _HIGHEST = 30, 400
"""Heights of a row and of a grid, in points; a longer grid scrolls."""


def show(session: PageSession, address: widgets.Address, table: str, changed: Sequence[Change]) -> None:
    """Show the choice of the period, and the history in it."""
    widgets.section("History")
    today = session.now.date()
    until = address.day_value("to", today, date.min + timedelta(days=DAYS), today)
    period = select_period(session, address, until - timedelta(days=DAYS))
    show_period(session, period, table, changed)
    if address.flag("audits", "all", "List the audits of this table"):
        audits = session.load(
            ("audits", table, period), lambda: figures.audits_of(session.results, table, period)
        )
        _audits(audits)


def show_period(session: PageSession, period: Period, table: str | None, changed: Sequence[Change]) -> None:
    """Show the changes by day and the times by kind, of a table or of the whole lake."""
    of = (table, period)
    days = session.load(("days", *of), lambda: figures.days_in(session.results, table, changed, period))
    plots.trend(days, period, "the lake" if table is None else "the table")
    _times(session.load(("times", *of), lambda: figures.kind_times(session.results, table, period)))


def select_period(session: PageSession, address: widgets.Address, since: date) -> Period:
    """Show the choice of two days between the first run and today, at first from `since` to today."""
    today = session.now.date()
    first = min(session.load(("first",), lambda: figures.first_day(session.results, session.now)), today)
    with st.container(horizontal=True):
        begin = address.day("from", "From", since, first, today)
        end = address.day("to", "To", today, first, today)
    return Period(min(begin, end), max(begin, end))


def _times(times: Sequence[KindTimes]) -> None:
    if not times:
        return
    rows = [
        (
            widgets.prose(each.kind.replace("_", " ")),
            widgets.badge(each.severity),
            _duration_text(each.detect, "none opened"),
            _duration_text(each.resolve, "none is resolved now"),
        )
        for each in times
    ]
    columns = ("kind", "severity", "time to detect", "time to resolve")
    widgets.grid(columns, rows, alt="Times to detect and to resolve", phone=("kind", *columns[2:]))
    st.caption(
        "Time to detect: from the loss, if a delete marker or a record of requests has its time, until an audit found "
        "it. Time to resolve: from then until an audit found it repaired, or somebody closed it; "
        "a reopened one is not resolved."
    )


def _duration_text(duration: Duration, without: str) -> str:
    """Return the median and the longest, and how many are not known."""
    if not duration.measured:
        return f"not known for {count(duration.unknown)}" if duration.unknown else without
    median, longest = (rough(each or timedelta(0)) for each in (duration.median, duration.longest))
    text = f"median {median}, longest {longest}" if duration.measured > 1 else median
    return f"{text}; not known for {count(duration.unknown)}" if duration.unknown else text


def _audits(audits: Sequence[AuditOfTable]) -> None:
    if not audits:
        st.caption("No audit checked this table in this period.")
        return
    whole = sum(each.judged.standing == "whole" for each in audits)
    st.caption(
        f"{widgets.number(len(audits), 'audit')} in this period, {count(whole)} of them judged the whole table."
    )
    rows = [
        {
            "run": widgets.address_of("runs", run=each.run_id),
            "as of": each.as_of,
            "judged": _standing(each.judged),
        }
        for each in audits
    ]
    column = st.column_config
    st.dataframe(
        pd.DataFrame(rows, columns=widgets.used_columns(rows)), hide_index=True, placeholder="", row_height=_ROW,
        height=min(_HIGHEST, _ROW * (len(rows) + 1) + 8), width="stretch", alt="Audits of the table, newest first",
        column_config={
            "run": column.LinkColumn("run", display_text=r"run=(.*)$", width=190),
            "as of": column.DatetimeColumn("as of", width=150, format="YYYY-MM-DD HH:mm", timezone="UTC"),
            "judged": column.TextColumn("judged", width=560),
        },
    )  # fmt: skip


def _standing(judged: Judged) -> str:
    """Return how much of the table was judged, and why not all."""
    level = "fine" if judged.standing == "whole" else "unjudged"
    shares = [cell.share for cell in judged.cells.values() if cell.state == "part" and cell.share is not None]
    least = f", {share(min(shares))}" if shares and judged.standing == "part" else ""
    why = "; ".join(dict.fromkeys(cell.reason for cell in judged.cells.values() if cell.reason))
    return f"{palette.shape(level)} {judged.description}{least}{': ' if why else ''}{visible(why)}"
