"""The first page: how the lake stands, and each of its tables."""

from collections.abc import Sequence

import streamlit as st

from lakeaudit.dashboard import plots, widgets
from lakeaudit.dashboard.queries.lake import Health, Held, lake_figures
from lakeaudit.dashboard.session import Desk
from lakeaudit.formatting import age, count, second, share, visible
from lakeaudit.kinds import SEVERITIES, axis_words
from lakeaudit.report import coverage_view
from lakeaudit.report.verdict import Verdict
from lakeaudit.results.read import Row

SHOWN = 100
"""Tables on a page of the list."""
LEVELS = (*widgets.COLOURS,)


def show(desk: Desk) -> None:
    """The verdict of the last run, what is open, the audit's own troubles, and the tables, worst first."""
    figures = desk.ask(("lake",), lambda: lake_figures(desk.results, desk.lake, desk.now))
    if figures.run is None or figures.verdict is None:
        widgets.title("unjudged", f"{desk.lake.name}: nothing could be judged")
        _troubles(figures.troubles)
        widgets.failure(f"{desk.results.place.uri} holds no finished audit", "run `lakeaudit audit` first")
        return
    _head(desk, figures.run, figures.verdict)
    _troubles(figures.troubles)
    _open(figures.totals)
    _tables(desk, figures.tables)
    plots.trend(figures.days, "the lake")


def _head(desk: Desk, run: Row, verdict: Verdict) -> None:
    audited = f"{second(run['as_of'])} ({age(run['as_of'], desk.now)} ago)"
    kicker = f"{widgets.prose(desk.lake.name)}, audited as of {audited}"
    widgets.title(verdict.level, verdict.headline, kicker)
    with st.container(gap="xsmall"):
        for note in verdict.notes:
            widgets.plain(note)


def _troubles(troubles: Sequence[str]) -> None:
    if not troubles:
        return
    with st.container(border=True):
        st.markdown(":red-badge[the audit itself]")
        for trouble in troubles:
            widgets.plain(trouble)


def _open(totals: Held) -> None:
    widgets.section("Open now")
    by = totals.by_severity("open")
    with st.container(horizontal=True):
        for severity in [*SEVERITIES, *(name for name in by if name not in SEVERITIES)]:
            st.metric(widgets.prose(severity), count(by.get(severity, 0)), width=150, border=True)
    rest = [f"{count(totals.number(of))} {words}" for of, words in _APART.items() if totals.number(of)]
    since = f"The oldest was first seen {second(totals.since)}. " if totals.since else ""
    st.caption(f"{since}{'Apart from these: ' + ', '.join(rest) + '.' if rest else ''}")


_APART = {"accepted": "accepted by somebody", "pending": "found once and not yet confirmed"}


def _tables(desk: Desk, tables: Sequence[Health]) -> None:
    widgets.section("Tables")
    address = widgets.Address("lake")
    with st.container(horizontal=True):
        levels = address.several(
            "health", "Health", [name for name in LEVELS if any(t.level == name for t in tables)]
        )
        like = address.typed("q", "Name contains")
    found = [t for t in tables if (not levels or t.level in levels) and like.lower() in t.table.lower()]
    st.caption(f"{count(len(found))} of {count(len(tables))} tables, the worst first")
    page = address.pages("page", len(found), SHOWN)
    for health in found[SHOWN * (page - 1) : SHOWN * page]:
        _table(desk, health)


def _table(desk: Desk, health: Health) -> None:
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            widgets.link("table", f"**{widgets.prose(widgets.shortened(health.table))}**", table=health.table)
            st.markdown(marks(health), width="content")
        st.text(visible(_words(desk, health)))


def marks(health: Health) -> str:
    """The worst first; what could not be decided always has its own mark, and never a green one."""
    doubt = [widgets.badge("unjudged", health.doubt)] if health.doubt else []
    return " ".join([widgets.badge(health.level), *doubt] if health.level != "unjudged" else doubt)


def _words(desk: Desk, health: Health) -> str:
    held, looked = health.held, health.looked
    numbers = [f"{count(number)} {severity}" for severity, number in held.by_severity("open").items()]
    parts = [f"{', '.join(numbers)} open" if numbers else "nothing open"]
    parts += [f"since {second(held.since)}"] if held.since else []
    parts += [f"{count(held.number(of))} {of}" for of in ("accepted", "pending") if held.number(of)]
    parts.append(health.reason or "fully judged")
    if looked is None:
        return " · ".join(parts)
    decided = _shares(looked.judged)
    parts += [decided] if decided else []
    reaches = looked.judged.evidence_up_to
    parts += [f"evidence up to {second(reaches)}"] if reaches else []
    return " · ".join([*parts, f"last looked at {second(looked.as_of)} ({age(looked.as_of, desk.now)} ago)"])


def _shares(table: coverage_view.Judged) -> str:
    """How much of each axis was decided where it was not all; where nothing was, why."""
    if table.standing in ("nothing", "idle"):
        return next((cell.reason for cell in table.cells.values() if cell.reason), "")
    told = [
        f"{axis_words(axis)} {share(cell.share) if cell.share is not None else 'nothing'}"
        for axis, cell in table.cells.items()
        if cell.state in ("part", "nothing")
    ]
    return f"judged of {', '.join(told)}" if told else ""
