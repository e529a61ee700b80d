"""The pictures of the first page: how the last runs went, and which tables were worst on which days.

Both are markup and no charts: a browser takes most of a second to start a plot library, which a first page has not.
"""

from collections.abc import Sequence

import streamlit as st

from lakeaudit.dashboard import looks, widgets
from lakeaudit.formatting import count, visible
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import palette
from lakeaudit.report.open_by_day import OpenByDay
from lakeaudit.results.read import Row

_NAMED = ", ".join(f"{palette.shape(severity)} {severity}" for severity in SEVERITIES)
DRAWN = 50
"""Tables drawn before `all` is asked for."""
_MOST = 460


def ticks(runs: Sequence[Row]) -> None:
    """A mark a run, coloured by how it went, each a link to the run; below them the colours in words."""
    st.html(looks.ticks(runs))


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
        f"The worst severity open at the end of a day, the taller the worse: {_NAMED}; "
        f"{_rest(len(troubled) - len(shown))}hollow: no audit."
    )
    _drawn(found, shown)


def _rest(number: int) -> str:
    return f"{count(number)} more tables are not drawn; " if number else ""


def _drawn(found: OpenByDay, tables: Sequence[str]) -> None:
    """Names beside the days, line by line: markup holds no stored text."""
    names = [widgets.shortened(visible(table), 30) for table in tables]
    high = min(looks.LINE * (len(tables) + 1) + 20, _MOST)
    with (
        st.container(height=high, border=False),
        st.container(key=looks.DAYS, horizontal=True, gap="xsmall", wrap=False),
    ):
        st.text("\n".join(names), width="content")
        st.html(looks.days(found, tables))
