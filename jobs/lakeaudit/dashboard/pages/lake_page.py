"""Shows the lake on one screen: its verdict, the worst tables, the audits, and all tables."""

from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from lakeaudit.advice import next_steps
from lakeaudit.dashboard import lake_grid, markup, widgets
from lakeaudit.dashboard.queries.lake import (
    NOT_FULLY_JUDGED,
    Health,
    LakeFigures,
    LedgerSums,
    lake_days,
    lake_figures,
    levels,
    table_healths,
)
from lakeaudit.dashboard.queries.plans import newest_plans
from lakeaudit.dashboard.session import PageSession
from lakeaudit.formatting import ACCEPTED, PENDING, age, count, duration, second, visible
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import palette
from lakeaudit.report.coverage_view import NOTHING_JUDGED
from lakeaudit.report.evidence_ages import EvidenceAge
from lakeaudit.report.summary import AT_STAKE
from lakeaudit.report.verdict import Verdict
from lakeaudit.results.read import Row
from lakeaudit.results.recovery import sentence
from lakeaudit.results.summaries.open_by_day import SPAN, OpenByDay
from lakeaudit.results.summaries.trends import changes

FIRST = 4
"""Number of damaged tables with a line of their own."""
SOURCES = 6
"""Number of sources whose age is drawn, those nearest to their limit."""
_SEVERITY_SIGNS = ", ".join(f"{palette.shape(severity)} {severity}" for severity in SEVERITIES)
_DRAWN = 50
"""Number of tables that are drawn until `all` is selected."""
_HIGHEST = 460
"""Height of the plot of tables by day, in pixels."""


def show(session: PageSession) -> None:
    """Show the verdict, the worst tables, open discrepancies, the age of the evidence, the runs, and all tables."""
    tables = session.load(("tables",), lambda: table_healths(session.results, session.lake, session.now))
    figures = session.load(
        ("lake",), lambda: lake_figures(session.results, session.lake, session.now, tables)
    )
    if figures.run is None or figures.verdict is None:
        widgets.title("unjudged", f"{session.lake.name}: {NOTHING_JUDGED}")
        _troubles(figures.troubles)
        widgets.failure(f"{session.results.place.uri} holds no finished audit", "run `lakeaudit audit` first")
        return
    _head(session, figures, figures.run, figures.verdict)
    _troubles(figures.troubles)
    command = _first(session, figures.tables)
    changed = session.load(("changes",), lambda: changes(session.results), by_clock=False)
    days = session.load(("days",), lambda: lake_days(session.results, session.now, changed))
    _strip(session, figures, days)
    _tables(session, figures, days)
    if command:
        _plan(session, command, figures.tables)


def _head(session: PageSession, figures: LakeFigures, run: Row, verdict: Verdict) -> None:
    widgets.title(
        verdict.level,
        verdict.headline,
        kicker=f"{visible(session.lake.name)}, audited {_ago(session, run['as_of'])}",
    )
    since = figures.quiet_since if verdict.level == "fine" else None
    quiet = [f"Quiet for {age(since, session.now)}, since {second(since)}"] if since else []
    if quiet or verdict.notes:
        widgets.plain(" \u00b7 ".join([*quiet, *verdict.notes]))


def _ago(session: PageSession, then: datetime) -> str:
    return f"{age(then, session.now)} ago ({second(then)})"


def _troubles(troubles: Sequence[str]) -> None:
    """What is wrong with the audit and not with the lake."""
    with st.container(gap="xxsmall"):
        for trouble in troubles:
            st.markdown(f":red-badge[audit] {widgets.prose(trouble)}")


def _strip(session: PageSession, figures: LakeFigures, days: OpenByDay) -> None:
    """Show three columns: open discrepancies by severity, the evidence, and the runs."""
    left, middle, right = st.columns([6, 4, 6], gap="medium")
    with left:
        _open(figures, days)
    with middle:
        _evidence(session, figures)
    with right:
        _runs(session, figures)


def _open(figures: LakeFigures, days: OpenByDay) -> None:
    by = figures.totals.by_severity("open")
    st.html(markup.tiles(by, days))
    if notes := _notes(figures, drawn=any(any(days.of_severity(name)) for name in SEVERITIES)):
        st.caption(notes)
    if odd := {name: number for name, number in by.items() if name not in SEVERITIES}:
        widgets.plain("Unknown severity: " + ", ".join(f"{count(odd[name])} {name}" for name in odd))


_NOT_COUNTED = {"accepted": ACCEPTED, "pending": PENDING}


def _notes(figures: LakeFigures, *, drawn: bool) -> str:
    totals = figures.totals
    rest = [f"{count(totals.number(of))} {words}" for of, words in _NOT_COUNTED.items() if totals.number(of)]
    notes = [f"The oldest was first seen {second(totals.since)}."] if totals.number("open") else []
    notes += [f"Not counted: {', '.join(rest)}."] if rest else []
    notes += [f"The curves show what was open at the end of the last {SPAN} days."] if drawn else []
    return " ".join(notes)


def _evidence(session: PageSession, figures: LakeFigures) -> None:
    st.markdown("**Age of the evidence**")
    evidence = figures.evidence
    if figures.verdict and figures.verdict.scope:
        st.caption("The last audit did not check the whole lake; these are its sources.")
    if not evidence:
        st.caption("No source of the last audit has a known time.")
    with st.container(gap="xsmall"):
        for source in evidence[:SOURCES]:
            _aged(source, session.now)
    if len(evidence) > SOURCES:
        st.caption(f"{count(len(evidence) - SOURCES)} more are further from their limit.")


def _aged(source: EvidenceAge, now: datetime) -> None:
    """Show the age of a source, with a bar if the source has a limit."""
    place = widgets.literal(widgets.shortened(source.location.rstrip("/").rpartition(" ")[2], 20))
    of = f" of {duration(source.limit)}" if source.limit else ""
    words = f"{age(source.at, now)}{of} {widgets.prose(source.kind)} {place}"
    if source.limit:
        st.progress(min(source.nearness(now), 1.0), text=words)
    else:
        st.markdown(f":small[{words}]")


def _runs(session: PageSession, figures: LakeFigures) -> None:
    st.markdown(f"**Last {widgets.number(len(figures.runs), 'run')}**")
    st.html(markup.ticks(figures.runs))
    last = figures.runs[-1]
    widgets.link("runs", f"the last one: {widgets.prose(last['status'])}, {age(last['started_at'], session.now)} ago",
                 run=last["run_id"])  # fmt: skip
    for plan in session.load(("plans",), lambda: newest_plans(session.results)).shown[:1]:
        words = (
            f"the last plan: {widgets.prose(plan['status'])}, made {age(plan['created_at'], session.now)} ago"
        )
        widgets.link("plans", words, plan=plan["plan_id"])


def _first(session: PageSession, tables: Sequence[Health]) -> DeltaGenerator | None:
    """Show the worst tables, one line and link each; return the container for the command below them."""
    wrong = _wrong(tables)
    with st.container(gap="xxsmall"):
        soonest = min((each for each in wrong if each.ledger.recovery.until), key=_end, default=None)
        shown = [*wrong[:FIRST], *([soonest] if soonest and soonest not in wrong[:FIRST] else [])]
        for health in shown:
            _one(session, health)
        if more := _more([health for health in wrong if health not in shown]):
            st.caption(f"{more}: see the grid.")
        return st.container(horizontal=True, vertical_alignment="center") if wrong else None


def _more(rest: Sequence[Health]) -> str:
    by = levels(rest)
    unsure, broken = by["unjudged"], by.total() - by["unjudged"]
    of_them = f", {count(by['critical'])} of them critical" if by["critical"] else ""
    parts = [f"{widgets.number(broken, 'more table')} with something wrong{of_them}"] if broken else []
    parts += [f"{count(unsure)} {'' if broken else 'more '}{NOT_FULLY_JUDGED}"] if unsure else []
    return "; ".join(parts)


def _wrong(tables: Sequence[Health]) -> Sequence[Health]:
    return [health for health in tables if health.level not in ("fine", "info")]


def _end(health: Health) -> datetime:
    return health.ledger.recovery.until or datetime.max.replace(tzinfo=UTC)


def _one(session: PageSession, health: Health) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        alone = health.level == "unjudged"  # then only the doubt is shown
        st.markdown(widgets.marks(health.level, health.doubt if alone else ""), width="content")
        widgets.link("table", f"**{widgets.prose(widgets.shortened(health.table))}**", table=health.table)
        widgets.plain(_summary(session, health))


def _plan(session: PageSession, at: DeltaGenerator, tables: Sequence[Health]) -> None:
    """Show the command, after everything else: the highlighter of a code block delays all that follows."""
    meant = any(
        health.ledger.recovery.answers.get(may) for health in _wrong(tables) for may in ("yes", "unknown")
    )
    command = next_steps.plan_all(session.lake_file, meant=meant)
    with at:
        st.code(visible(command), language=None, width="content", wrap_lines=True)
        st.caption(next_steps.after_plans([command], widgets.literal))


def _summary(session: PageSession, health: Health) -> str:
    """Return the findings of the worst severity by kind, and the number of the others."""
    ledger = health.ledger
    worst, *others = [*ledger.by_severity("open").items()] or [("", 0)]
    kinds = [f"{count(number)} {kind.replace('_', ' ')}" for kind, number in ledger.worst_kinds.items()]
    what = ", ".join(kinds) or f"{count(worst[1])} {worst[0]}"
    parts = [f"{what}{widgets.reopened(ledger.again, worst[1])}"] if worst[1] else []
    parts += [f"{widgets.amount(ledger.rows)} rows at stake"] if worst[1] and ledger.rows.known else []
    parts += [_recovery(session, ledger)] if worst[1] else []
    parts += [f"since {age(ledger.since, session.now)}"] if ledger.since else []
    parts += [f"also {count(sum(number for _, number in others))} less severe"] if others else []
    brief = health.doubt and health.reason.startswith(health.doubt)  # the table's page has the rest
    parts += [health.doubt if brief else health.reason] if health.level != "unjudged" or not brief else []
    return " · ".join(filter(None, parts))


def _recovery(session: PageSession, ledger: LedgerSums) -> str:
    """Return how much of the worst open severity is recoverable; empty if that is info and nothing is lost."""
    serious = any(ledger.by_severity("open").get(severity) for severity in AT_STAKE)
    return sentence(ledger.worst_recovery, session.now) if serious or ledger.worst_recovery.losses else ""


def _tables(session: PageSession, figures: LakeFigures, days: OpenByDay) -> None:
    left, right = st.columns([7, 3], gap="medium")
    with left:
        lake_grid.show(session, figures.tables, days)
    with right:
        _by_table_and_day(days, [health.table for health in figures.tables])


def _by_table_and_day(trend: OpenByDay, tables: Sequence[str]) -> None:
    """Draw the worst severity open at the end of each day; `tables` are in order, worst first."""
    widgets.section("Tables by day")
    troubled = [table for table in tables if trend.by_severity(table)]
    if not troubled:
        st.caption(f"Nothing was open on any of the last {len(trend.days)} days.")
        return
    shown = (
        troubled if len(troubled) <= _DRAWN or st.toggle(f"all {count(len(troubled))}") else troubled[:_DRAWN]
    )
    st.caption(
        f"The worst severity open at the end of each day; taller is worse: {_SEVERITY_SIGNS}; "
        f"{_not_drawn(len(troubled) - len(shown))}hollow: no audit."
    )
    _draw_days(trend, shown)


def _not_drawn(number: int) -> str:
    return f"{count(number)} more tables are not drawn; " if number else ""


def _draw_days(trend: OpenByDay, tables: Sequence[str]) -> None:
    """Show names and days in two columns, line by line, since markup must not contain stored text."""
    names = [widgets.shortened(visible(table), 30) for table in tables]
    high = min(markup.LINE * (len(tables) + 1) + 20, _HIGHEST)
    with (
        st.container(height=high, border=False),
        st.container(key=markup.DAYS, horizontal=True, gap="xsmall", wrap=False),
    ):
        st.text("\n".join(names), width="content")
        st.html(markup.days(trend, tables))
