"""Shows the lake on one screen: its verdict, the worst tables, the audits, and all tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from lakeaudit.advice import next_steps
from lakeaudit.dashboard import lake_grid, markup, widgets
from lakeaudit.dashboard.parts import audit_troubles, commands, table_lines
from lakeaudit.dashboard.queries.lake import (
    Health,
    LakeFigures,
    LedgerSums,
    add_sums,
    lake_days,
)
from lakeaudit.dashboard.queries.lost_causes import lost_causes
from lakeaudit.dashboard.queries.owners import NO_OWNER, days_of, owners
from lakeaudit.dashboard.queries.plans import PLAN_STATES, newest_plans
from lakeaudit.dashboard.session import PageSession
from lakeaudit.formatting import ACCEPTED, NO_TABLE, PENDING, age, count, duration, second, visible
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import palette
from lakeaudit.report.coverage_view import NOTHING_JUDGED
from lakeaudit.report.evidence_ages import EvidenceAge
from lakeaudit.report.verdict import Verdict
from lakeaudit.results.read import PUBLISHED, Row
from lakeaudit.results.recovery import add_recoveries
from lakeaudit.results.summaries.open_by_day import SPAN, OpenByDay
from lakeaudit.results.summaries.trends import changes

PLANNED = 20
"""Highest number of an owner's tables in one command."""
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
    figures = session.figures()
    if figures.run is None or figures.verdict is None:
        widgets.title("unjudged", f"{session.lake.name}: {NOTHING_JUDGED}")
        audit_troubles.show(figures.troubles)
        widgets.failure(f"{session.results.place.uri} holds no finished audit", "run `lakeaudit audit` first")
        return
    address = widgets.Address("lake")
    by_table = owners(session.lake, [each.table for each in figures.tables if each.table != NO_TABLE])
    owned = {*by_table.values()} != {NO_OWNER}
    left, right = (
        st.columns([6, 1], vertical_alignment="center") if owned else (st.container(), st.container())
    )
    with right:
        scope = _scope(address, figures, by_table)
    with left:
        if scope.owner is None:
            _head(session, figures, figures.run, figures.verdict)
        else:
            _owner_head(session, figures.run, scope)
    audit_troubles.show(figures.troubles)
    command = _worst(session, scope)
    changed = session.load(("changes",), lambda: changes(session.results), by_clock=False)
    days = session.load(("days",), lambda: lake_days(session.results, session.now, changed))
    _strip(session, figures, scope, days_of(days, scope.tables) if scope.owner else days)
    _tables(session, address, scope, days)
    if command:
        _plan(session, address, command, scope)


@dataclass(frozen=True)
class Scope:
    """The tables that the page shows, worst first: all, or those of one owner; `owners` are of all tables."""

    tables: Sequence[Health]
    totals: LedgerSums
    owners: Mapping[str, str]
    owner: str | None = None


def _scope(address: widgets.Address, figures: LakeFigures, by_table: Mapping[str, str]) -> Scope:
    """Show the choice of an owner, if the lake has any, and return the tables to show."""
    named = sorted({*by_table.values()} - {NO_OWNER})
    requested = address.value("owner")
    owner = address.one("owner", "Owner", [*named, *_without(by_table)]) if named else None
    if requested and owner is None:
        widgets.failure(f"no owner {widgets.shortened(requested, 100)} in the lake file", "choose another")
    if owner is None:
        return Scope(figures.tables, figures.totals, by_table)
    mine = [health for health in figures.tables if by_table.get(health.table) == owner]
    return Scope(mine, add_sums([health.ledger for health in mine]), by_table, owner)


def _without(by_table: Mapping[str, str]) -> list[str]:
    return [NO_OWNER] if NO_OWNER in by_table.values() else []


def _owner_head(session: PageSession, run: Row, scope: Scope) -> None:
    """Show the owner's tables in one sentence, with the level of the worst."""
    tables, number = scope.tables, widgets.number(len(scope.tables), "table")
    said = table_lines.how_many(tables) or f"nothing above {SEVERITIES[-1]} is open"
    owner, lake = widgets.prose(scope.owner or ""), visible(session.lake.name)
    kicker = f"{number} of {owner} in {lake}, {_audited(session, run)}"
    widgets.title(tables[0].level if tables else None, f"{scope.owner}: {said}", kicker=kicker)
    widgets.link("lake", "All tables of the lake")


def _head(session: PageSession, figures: LakeFigures, run: Row, verdict: Verdict) -> None:
    widgets.title(
        verdict.level,
        verdict.headline,
        kicker=f"{visible(session.lake.name)}, {_audited(session, run)}",
    )
    since = figures.quiet_since if verdict.level == "fine" else None
    quiet = [f"Quiet for {age(since, session.now)}, since {second(since)}"] if since else []
    if quiet or verdict.notes:
        widgets.plain(" \u00b7 ".join([*quiet, *verdict.notes]))


def _audited(session: PageSession, run: Row) -> str:
    return f"audited {age(run['as_of'], session.now)} ago ({second(run['as_of'])})"


def _strip(session: PageSession, figures: LakeFigures, scope: Scope, days: OpenByDay) -> None:
    """Show three columns: open discrepancies by severity, the evidence, and the runs."""
    left, middle, right = st.columns([6, 4, 6], gap="medium")
    with left:
        _open(scope.totals, days)
    with middle:
        _evidence(session, figures)
    with right:
        _runs(session, figures)


def _open(totals: LedgerSums, days: OpenByDay) -> None:
    by = totals.by_severity("open")
    st.html(markup.tiles(by, days))
    if notes := _notes(totals, days):
        st.caption(notes)
    if odd := {name: number for name, number in by.items() if name not in SEVERITIES}:
        widgets.plain("Unknown severity: " + ", ".join(f"{count(odd[name])} {name}" for name in odd))


_NOT_COUNTED = {"accepted": ACCEPTED, "pending": PENDING}


def _notes(totals: LedgerSums, days: OpenByDay) -> str:
    rest = [f"{count(totals.number(of))} {words}" for of, words in _NOT_COUNTED.items() if totals.number(of)]
    notes = [f"The oldest is open since {second(totals.since)}."] if totals.number("open") else []
    notes += [f"Not counted: {', '.join(rest)}."] if rest else []
    notes += [days.course] if days.course else []
    drawn = any(any(days.of_severity(name)) for name in SEVERITIES)
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
    place = widgets.literal(source.location.rstrip("/").rpartition(" ")[2])
    of = f" of {duration(source.limit)}" if source.limit else ""
    late = source.limit is not None and source.nearness(now) > 1
    first = f":red-badge[too old] {age(source.at, now)}" if late else age(source.at, now)
    words = f"{first}{of} {widgets.prose(source.kind)} {place}"
    if late:
        st.markdown(f":small[{words}]")
        st.html(markup.full_bar("critical"))
    elif source.limit:
        st.progress(source.nearness(now), text=words)
    else:
        st.markdown(f":small[{words}]")


def _runs(session: PageSession, figures: LakeFigures) -> None:
    st.markdown(f"**Last {widgets.number(len(figures.runs), 'run')}**")
    st.html(markup.ticks(figures.runs, widgets.current_lake(), figures.alarms))
    last = figures.runs[-1]
    judged = last["status"] in PUBLISHED  # a failed run has judged nothing
    in_part = sum(health.is_blind for health in figures.tables) if judged else 0
    doubt = f", {widgets.number(in_part, 'table')} not fully judged" if in_part else ""
    words = (
        f"the last one: {widgets.prose(last['status'])}{doubt}, {age(last['started_at'], session.now)} ago"
    )
    widgets.link("runs", words, run=last["run_id"])
    for plan in session.load(("plans",), lambda: newest_plans(session.results)).shown[:1]:
        people = plan["for_person"]
        rest = f", and {widgets.number(people, 'more finding')} for a person" if people else ""
        status = PLAN_STATES.get(plan["status"], widgets.prose(plan["status"]))
        extent = f"{widgets.number(plan['steps'], 'step')} {status}{rest}"
        words = f"the last plan: {extent}; made {age(plan['created_at'], session.now)} ago"
        widgets.link("plans", words, plan=plan["plan_id"])


def _worst(session: PageSession, scope: Scope) -> DeltaGenerator | None:
    """Show the worst tables, one line and link each; return the container for the command below them."""
    wrong = table_lines.wrong(scope.tables)
    with st.container(gap="xxsmall"):
        soonest = min((each for each in wrong if each.ledger.recovery.until), key=_end, default=None)
        shown = [*wrong[:FIRST], *([soonest] if soonest and soonest not in wrong[:FIRST] else [])]
        table_lines.show(session, shown, {} if scope.owner else scope.owners)
        if more := table_lines.how_many([health for health in wrong if health not in shown], "more "):
            st.caption(f"{more}: see the grid.")
        return st.container() if wrong else None


def _end(health: Health) -> datetime:
    return health.ledger.recovery.until or datetime.max.replace(tzinfo=UTC)


def _plan(session: PageSession, address: widgets.Address, at: DeltaGenerator, scope: Scope) -> None:
    """Show the command, after everything else: the highlighter of a code block delays all that follows."""
    wrong = table_lines.wrong(scope.tables)
    if any(health.is_blind for health in wrong):
        check = widgets.literal(next_steps.check_command(session.lake_file))
        at.markdown(
            f"Tables that were not fully judged: their pages say why. If a source is the reason, {check} names it: "
            "repair the source, and audit again. If a log or metadata file is the reason, the table has a finding."
        )
    if not any(health.ledger.recovery.losses or health.ledger.recovery.repairable for health in wrong):
        return
    meant = any(health.ledger.recovery.answers.get(may) for health in wrong for may in ("yes", "unknown"))
    tables = [health.table for health in wrong if health.level != "unjudged"] if scope.owner else []
    if scope.owner and not tables:
        return
    if len(tables) > PLANNED:
        at.caption(f"The pages of the {count(len(tables))} tables have the commands that plan their repairs.")
        return
    with at:
        commands.show(
            address,
            lambda restore: [next_steps.plan_all(session.lake_file, meant=meant and restore, tables=tables)],
            before=lambda restore: _before_plan(session, scope, restore=restore),
        )


def _before_plan(session: PageSession, scope: Scope, *, restore: bool) -> str:
    """Return how many lost files the plan repairs, and the question to answer before it restores them."""
    wrong = table_lines.wrong(scope.tables)
    recovery = add_recoveries([health.ledger.recovery for health in wrong])
    tables = tuple(health.table for health in wrong) if scope.owner else None
    lost = session.load(
        ("lost causes", scope.owner), lambda: lost_causes(session.results, session.now, tables)
    )
    covered = " of all severities"
    return commands.before_plan(recovery, lost.kinds, lost.by_cause, restore=restore, scope=covered)


def _tables(session: PageSession, address: widgets.Address, scope: Scope, days: OpenByDay) -> None:
    lake_grid.show(session, address, scope.tables, days, scope.owners)
    _by_table_and_day(days, [health.table for health in scope.tables])


def _by_table_and_day(trend: OpenByDay, tables: Sequence[str]) -> None:
    """Draw the worst severity open at the end of each day; `tables` are in order, worst first."""
    widgets.section("Tables by day")
    troubled = [table for table in tables if trend.by_severity(table)]
    if not troubled:
        st.caption(f"Nothing was open on any of the last {len(trend.days)} days.")
        return
    shown = (
        troubled
        if len(troubled) <= _DRAWN or st.toggle(f"Show all {count(len(troubled))}")
        else troubled[:_DRAWN]
    )
    st.caption(
        f"The worst severity open at the end of each day; taller is worse: {_SEVERITY_SIGNS}; "
        f"{_not_drawn(len(troubled) - len(shown))}pale or hollow: no audit."
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
