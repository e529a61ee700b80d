"""The first page: on one screen how the lake stands, what comes first, how the audits went, and every table."""

from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from lakeaudit.advice import next_steps
from lakeaudit.dashboard import lake_grid, looks, widgets
from lakeaudit.dashboard.queries.audit_health import EvidenceAge
from lakeaudit.dashboard.queries.lake import (
    UNSURE,
    Health,
    Held,
    LakeFigures,
    lake_days,
    lake_figures,
    levels,
    table_healths,
)
from lakeaudit.dashboard.queries.plans import newest_plans
from lakeaudit.dashboard.session import Desk
from lakeaudit.formatting import ACCEPTED, PENDING, age, count, duration, second, visible
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import palette
from lakeaudit.report.coverage_view import NOTHING_JUDGED
from lakeaudit.report.summary import AT_STAKE
from lakeaudit.report.verdict import Verdict
from lakeaudit.results.open_by_day import SPAN, OpenByDay
from lakeaudit.results.read import Row
from lakeaudit.results.recovery import sentence
from lakeaudit.results.trends import changes

FIRST = 4
"""Tables that are written out because something is wrong with them."""
SOURCES = 6
"""Sources whose age is drawn, those nearest to their limit."""
_NAMED = ", ".join(f"{palette.shape(severity)} {severity}" for severity in SEVERITIES)
_DRAWN = 50
"""Tables drawn before `all` is selected."""
_HIGHEST = 460
"""Pixels of the picture of tables by day."""


def show(desk: Desk) -> None:
    """The verdict, the worst tables, what is open, the age of the evidence, the runs, and all tables."""
    tables = desk.ask(("tables",), lambda: table_healths(desk.results, desk.lake, desk.now))
    figures = desk.ask(("lake",), lambda: lake_figures(desk.results, desk.lake, desk.now, tables))
    if figures.run is None or figures.verdict is None:
        widgets.title("unjudged", f"{desk.lake.name}: {NOTHING_JUDGED}")
        _troubles(figures.troubles)
        widgets.failure(f"{desk.results.place.uri} holds no finished audit", "run `lakeaudit audit` first")
        return
    _head(desk, figures, figures.run, figures.verdict)
    _troubles(figures.troubles)
    command = _first(desk, figures.tables)
    told = desk.ask(("changes",), lambda: changes(desk.results), by_clock=False)
    days = desk.ask(("days",), lambda: lake_days(desk.results, desk.now, told))
    _strip(desk, figures, days)
    _tables(desk, figures, days)
    if command:
        _plan(desk, command, figures.tables)


def _head(desk: Desk, figures: LakeFigures, run: Row, verdict: Verdict) -> None:
    widgets.title(
        verdict.level,
        verdict.headline,
        kicker=f"{visible(desk.lake.name)}, audited {_ago(desk, run['as_of'])}",
    )
    since = figures.quiet_since if verdict.level == "fine" else None
    quiet = [f"Quiet for {age(since, desk.now)}, since {second(since)}"] if since else []
    if quiet or verdict.notes:
        widgets.plain(" \u00b7 ".join([*quiet, *verdict.notes]))


def _ago(desk: Desk, then: datetime) -> str:
    return f"{age(then, desk.now)} ago ({second(then)})"


def _troubles(troubles: Sequence[str]) -> None:
    """What is wrong with the audit and not with the lake."""
    with st.container(gap="xxsmall"):
        for trouble in troubles:
            st.markdown(f":red-badge[audit] {widgets.prose(trouble)}")


def _strip(desk: Desk, figures: LakeFigures, days: OpenByDay) -> None:
    """Beside each other: the open by severity with the last days, the evidence, the runs."""
    left, middle, right = st.columns([6, 4, 6], gap="medium")
    with left:
        _open(figures, days)
    with middle:
        _evidence(desk, figures)
    with right:
        _runs(desk, figures)


def _open(figures: LakeFigures, days: OpenByDay) -> None:
    by = figures.totals.by_severity("open")
    st.html(looks.tiles(by, days))
    if apart := _apart(figures, drawn=any(any(days.of_severity(name)) for name in SEVERITIES)):
        st.caption(apart)
    if odd := {name: number for name, number in by.items() if name not in SEVERITIES}:
        widgets.plain("Of no known severity: " + ", ".join(f"{count(odd[name])} {name}" for name in odd))


_APART = {"accepted": ACCEPTED, "pending": PENDING}


def _apart(figures: LakeFigures, *, drawn: bool) -> str:
    totals = figures.totals
    rest = [f"{count(totals.number(of))} {words}" for of, words in _APART.items() if totals.number(of)]
    told = [f"The oldest was first seen {second(totals.since)}."] if totals.number("open") else []
    told += [f"Apart from these: {', '.join(rest)}."] if rest else []
    told += [f"Drawn: open at the end of the last {SPAN} days."] if drawn else []
    return " ".join(told)


def _evidence(desk: Desk, figures: LakeFigures) -> None:
    st.markdown("**Age of the evidence**")
    evidence = figures.evidence
    if figures.verdict and figures.verdict.scope:
        st.caption("Of the last audit alone, which did not look at the whole lake.")
    if not evidence:
        st.caption("The last audit says no time of any.")
    with st.container(gap="xsmall"):
        for source in evidence[:SOURCES]:
            _aged(source, desk.now)
    if len(evidence) > SOURCES:
        st.caption(f"{count(len(evidence) - SOURCES)} more are further from their limit.")


def _aged(source: EvidenceAge, now: datetime) -> None:
    """A bar only where there is a limit to hold the age against."""
    place = widgets.literal(widgets.shortened(source.location.rstrip("/").rpartition(" ")[2], 20))
    of = f" of {duration(source.limit)}" if source.limit else ""
    words = f"{age(source.at, now)}{of} {widgets.prose(source.kind)} {place}"
    if source.limit:
        st.progress(min(source.nearness(now), 1.0), text=words)
    else:
        st.markdown(f":small[{words}]")


def _runs(desk: Desk, figures: LakeFigures) -> None:
    st.markdown(f"**Last {widgets.number(len(figures.runs), 'run')}**")
    st.html(looks.ticks(figures.runs))
    last = figures.runs[-1]
    widgets.link("runs", f"the last one: {widgets.prose(last['status'])}, {age(last['started_at'], desk.now)} ago",
                 run=last["run_id"])  # fmt: skip
    for plan in desk.ask(("plans",), lambda: newest_plans(desk.results)).shown[:1]:
        words = (
            f"the last plan: {widgets.prose(plan['status'])}, made {age(plan['created_at'], desk.now)} ago"
        )
        widgets.link("plans", words, plan=plan["plan_id"])


def _first(desk: Desk, tables: Sequence[Health]) -> DeltaGenerator | None:
    """The worst tables in words, each a link: what a reader does next; where the command below them goes."""
    wrong = _wrong(tables)
    with st.container(gap="xxsmall"):
        soonest = min((each for each in wrong if each.held.recovery.until), key=_end, default=None)
        shown = [*wrong[:FIRST], *([soonest] if soonest and soonest not in wrong[:FIRST] else [])]
        for health in shown:
            _one(desk, health)
        if told := _more([health for health in wrong if health not in shown]):
            st.caption(f"{told}: see the grid.")
        return st.container(horizontal=True, vertical_alignment="center") if wrong else None


def _more(rest: Sequence[Health]) -> str:
    by = levels(rest)
    unsure, broken = by["unjudged"], by.total() - by["unjudged"]
    of_them = f", {count(by['critical'])} of them critical" if by["critical"] else ""
    parts = [f"{widgets.number(broken, 'more table')} with something wrong{of_them}"] if broken else []
    parts += [f"{count(unsure)} {'' if broken else 'more '}{UNSURE}"] if unsure else []
    return "; ".join(parts)


def _wrong(tables: Sequence[Health]) -> Sequence[Health]:
    return [health for health in tables if health.level not in ("fine", "info")]


def _end(health: Health) -> datetime:
    return health.held.recovery.until or datetime.max.replace(tzinfo=UTC)


def _one(desk: Desk, health: Health) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        alone = health.level == "unjudged"  # then the doubt is all there is to say
        st.markdown(widgets.marks(health.level, health.doubt if alone else ""), width="content")
        widgets.link("table", f"**{widgets.prose(widgets.shortened(health.table))}**", table=health.table)
        widgets.plain(_words(desk, health))


def _plan(desk: Desk, at: DeltaGenerator, tables: Sequence[Health]) -> None:
    """Filled in last: a block with a copy button starts a highlighter, for which nothing else has to wait."""
    meant = any(
        health.held.recovery.answers.get(may) for health in _wrong(tables) for may in ("yes", "unknown")
    )
    command = next_steps.plan_all(desk.lake_file, meant=meant)
    with at:
        st.code(visible(command), language=None, width="content", wrap_lines=True)
        st.caption(next_steps.after_plans([command], widgets.literal))


def _words(desk: Desk, health: Health) -> str:
    """What differs from a quiet table: of the worst severity each kind, of the others how many."""
    held = health.held
    worst, *others = [*held.by_severity("open").items()] or [("", 0)]
    kinds = [f"{count(number)} {kind.replace('_', ' ')}" for kind, number in held.worst_kinds.items()]
    what = ", ".join(kinds) or f"{count(worst[1])} {worst[0]}"
    parts = [f"{what}{widgets.reopened(held.again, worst[1])}"] if worst[1] else []
    parts += [f"{widgets.amount(held.rows)} rows at stake"] if worst[1] and held.rows.known else []
    parts += [_recovery(desk, held)] if worst[1] else []
    parts += [f"since {age(held.since, desk.now)}"] if held.since else []
    parts += [f"also {count(sum(number for _, number in others))} less severe"] if others else []
    told = health.doubt and health.reason.startswith(health.doubt)  # why, its page says
    parts += [health.doubt if told else health.reason] if health.level != "unjudged" or not told else []
    return " · ".join(filter(None, parts))


def _recovery(desk: Desk, held: Held) -> str:
    """What of the worst that is open is recoverable; empty where that is info and nothing is lost."""
    serious = any(held.by_severity("open").get(severity) for severity in AT_STAKE)
    return sentence(held.worst_recovery, desk.now) if serious or held.worst_recovery.losses else ""


def _tables(desk: Desk, figures: LakeFigures, days: OpenByDay) -> None:
    left, right = st.columns([7, 3], gap="medium")
    with left:
        lake_grid.show(desk, figures.tables, days)
    with right:
        _by_table_and_day(days, [health.table for health in figures.tables])


def _by_table_and_day(found: OpenByDay, tables: Sequence[str]) -> None:
    """The worst severity open at the end of each day; `tables` are in order, the worst first."""
    widgets.section("Tables by day")
    troubled = [table for table in tables if found.by_severity(table)]
    if not troubled:
        st.caption(f"Nothing was open on any of the last {len(found.days)} days.")
        return
    shown = (
        troubled if len(troubled) <= _DRAWN or st.toggle(f"all {count(len(troubled))}") else troubled[:_DRAWN]
    )
    st.caption(
        f"The worst severity open at the end of a day, the taller the worse: {_NAMED}; "
        f"{_not_drawn(len(troubled) - len(shown))}hollow: no audit."
    )
    _draw_days(found, shown)


def _not_drawn(number: int) -> str:
    return f"{count(number)} more tables are not drawn; " if number else ""


def _draw_days(found: OpenByDay, tables: Sequence[str]) -> None:
    """Names beside the days, line by line: markup holds no stored text."""
    names = [widgets.shortened(visible(table), 30) for table in tables]
    high = min(looks.LINE * (len(tables) + 1) + 20, _HIGHEST)
    with (
        st.container(height=high, border=False),
        st.container(key=looks.DAYS, horizontal=True, gap="xsmall", wrap=False),
    ):
        st.text("\n".join(names), width="content")
        st.html(looks.days(found, tables))
