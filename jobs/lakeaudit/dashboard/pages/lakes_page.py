"""Shows all lakes of a dashboard, the worst first, and lets a visitor choose one for an address that names none."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.parts import table_lines
from lakeaudit.dashboard.queries.lake import LEVELS, Health, LakeFigures
from lakeaudit.dashboard.served_lakes import ServedLake
from lakeaudit.dashboard.session import PageSession
from lakeaudit.errors import AuditError, one_line
from lakeaudit.formatting import NO_TABLE, UNKNOWN, age, count
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report.coverage_view import NOTHING_JUDGED


@dataclass(frozen=True)
class LakeState:
    """The state of one lake; without a session its lake file or its results cannot be read, and `problem` says why."""

    name: str
    session: PageSession | None = None
    figures: LakeFigures | None = None
    tables: Sequence[Health] = ()
    problem: str = ""

    @property
    def level(self) -> str:
        """Return the worst level; a lake about which nothing is known is never fine."""
        if self.figures is None or self.figures.verdict is None:
            return "unjudged"
        level = self.figures.verdict.level
        if level not in LEVELS or (level == "fine" and self.figures.troubles):
            return "unjudged"
        return level

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Return the sort key: lakes that cannot be read first, then the worst."""
        return self.figures is not None, LEVELS.index(self.level), self.name


def state_of(lake: ServedLake, session: PageSession | None) -> LakeState:
    """Return the state of a lake from its cached figures, the same that its own page shows."""
    if session is None:
        return LakeState(lake.name, problem=lake.problem)
    try:
        tables, figures = session.tables(), session.figures()
    except AuditError as error:
        return LakeState(lake.name, problem=one_line(f"{error.where}: {error.what}", 300))
    return LakeState(lake.name, session, figures, tables)


def show(states: Sequence[LakeState]) -> None:
    """Show every lake with its state in a sentence, and a grid of numbers."""
    ordered = sorted(states, key=lambda each: each.rank)
    worst = min((each.level for each in ordered), key=LEVELS.index, default=None)
    widgets.title(worst, _headline(ordered))
    with st.container(gap="small"):
        for state in ordered:
            _line(state)
    widgets.section("Numbers")
    columns = ["Lake", *SEVERITIES, "Tables", "Not fully judged", "Last audit"]
    rows = [_row(state) for state in ordered if state.figures]
    if rows:
        widgets.grid(columns, rows, "Lakes", numbers=columns[1:7], phone=("Lake", "critical", "Last audit"))


def _headline(states: Sequence[LakeState]) -> str:
    number = widgets.number(len(states), "lake")
    wrong = [state for state in states if state.level not in ("fine", SEVERITIES[-1])]
    return f"{number}, {count(len(wrong))} with something wrong" if wrong else f"{number}, nothing is wrong"


def _line(state: LakeState) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if state.figures is None:
            st.markdown(":red-badge[cannot be shown]", width="content")
            st.markdown(f"**{widgets.prose(widgets.shortened(state.name))}**", width="content")
            widgets.plain(state.problem)
            return
        st.markdown(widgets.badge(state.level), width="content")
        widgets.link("lake", f"**{widgets.prose(widgets.shortened(state.name))}**", lake=state.name)
        widgets.plain(_sentence(state))


def _sentence(state: LakeState) -> str:
    """Return the headline of a lake, which tables are wrong, and what is wrong with its audits."""
    figures, session = state.figures, state.session
    if figures is None or session is None or figures.verdict is None or figures.run is None:
        return " · ".join([NOTHING_JUDGED, *(figures.troubles if figures else ())])
    parts = [figures.verdict.headline, f"audited {age(figures.run['as_of'], session.now)} ago"]
    return " · ".join([*parts, *figures.troubles])


def _row(state: LakeState) -> list[object]:
    by = state.figures.totals.by_severity("open") if state.figures else {}
    tables = [each for each in state.tables if each.table != NO_TABLE]
    unjudged = sum(each.level == "unjudged" for each in table_lines.wrong(tables))
    run = state.figures.run if state.figures else None
    last = f"{age(run['as_of'], state.session.now)} ago" if run and state.session else UNKNOWN
    numbers = [count(by.get(severity, 0)) for severity in SEVERITIES]
    name = widgets.cell_link("lake", widgets.literal(widgets.shortened(state.name)), lake=state.name)
    return [name, *numbers, count(len(tables)) if run else UNKNOWN, count(unjudged), last]


def choose(page: str, lakes: Sequence[ServedLake], requested: str | None) -> None:
    """Let the visitor choose a lake for a page whose address names none, or one that this dashboard does not have."""
    if requested is None:
        widgets.title(None, "Choose a lake")
        st.caption("The address names no lake, and this dashboard has several.")
    else:
        widgets.failure(
            f"this dashboard has no lake {widgets.shortened(requested, 100)}",
            "choose another, or correct the address",
        )
    others = {name: value for name, value in st.query_params.to_dict().items() if name != "lake"}
    with st.container(gap="xxsmall"):
        for lake in lakes:
            if lake.problem:
                widgets.plain(f"{lake.name} cannot be shown: {lake.problem}")
            else:
                label = widgets.prose(widgets.shortened(lake.name))
                widgets.link_with(page, label, others | {"lake": lake.name})
