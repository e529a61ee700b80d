"""Shows one table: its damage by kind and partition, causes, recovery, history, and coverage."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import partial

import streamlit as st

from lakeaudit.advice import next_steps
from lakeaudit.advice.causes import added
from lakeaudit.dashboard import partition_plots, timeline_plot, watermark_plot, widgets
from lakeaudit.dashboard.parts import audit_troubles, commands, discrepancy_lines, history, table_lines
from lakeaudit.dashboard.queries import table as figures
from lakeaudit.dashboard.queries.lake import UNSEEN, Health
from lakeaudit.dashboard.queries.table import (
    PAGE_ROWS,
    STANDINGS,
    Broken,
    Change,
    Commit,
    ListFilter,
    Partitions,
)
from lakeaudit.dashboard.queries.timeline import timeline
from lakeaudit.dashboard.queries.watermarks import watermarks
from lakeaudit.dashboard.session import PageSession
from lakeaudit.formatting import (
    ACCEPTED,
    NO_TABLE,
    OUTCOMES,
    PENDING,
    UNKNOWN,
    age,
    count,
    rough,
    second,
)
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import COVERAGE_LOST, KINDS, SEVERITIES, axis_words
from lakeaudit.report.coverage_view import STANDINGS as DECIDED
from lakeaudit.report.coverage_view import Cell, Judged
from lakeaudit.report.summary import WHOLE_TABLE, Amount
from lakeaudit.results.read import Row
from lakeaudit.results.recovery import add_recoveries, brief, sentence
from lakeaudit.results.summaries.trends import changes
from lakeaudit.results.watermark import stopped_by

WORST = 10
"""Number of tables that are listed until one is selected."""
BROKEN = 40
"""Highest number of kinds with a row; there are fewer, unless another program wrote the rows."""


def show(session: PageSession) -> None:
    """Show the table of the address."""
    tables = session.tables()
    address = widgets.Address("table")
    table = address.one("table", "Table", [health.table for health in tables])
    if table is None:
        _none(session, address, tables)
        return
    health = next(each for each in tables if each.table == table)
    of_lake = session.load(("changes",), lambda: changes(session.results), by_clock=False)
    changed = session.load(("changes", table), lambda: figures.changes(of_lake, table), by_clock=False)
    by_kind = session.load(("broken", table), lambda: figures.broken(session.results, table, session.now))
    _head(session, health, changed, by_kind)
    audit_troubles.show_of_runs(session)
    if by_kind:
        _broken(session, address, table, by_kind)
    parts = session.load(
        ("partitions", table), lambda: figures.partitions(session.results, table, session.now)
    )
    _where(parts)
    timeline_plot.show(
        session.load(("timeline", table), lambda: timeline(session.results, table, session.now, changed))
    )
    if by_kind or changed:
        with nullcontext() if by_kind else st.expander("Resolved discrepancies, file by file"):
            _list(session, address, table, by_kind, parts)
    history.show(session, address, table, changed)
    watermark_plot.show(
        session.load(("watermarks", table), lambda: watermarks(session.results, table), by_clock=False)
    )
    _commits(session.load(("commits", table), lambda: figures.commits(session.results, table, session.now)))
    if table != NO_TABLE:
        _coverage(health)


def _none(session: PageSession, address: widgets.Address, tables: Sequence[Health]) -> None:
    """Show a search, and the worst tables or those whose name contains the text."""
    st.title("A table", anchor=False)
    if requested := address.value("table"):
        widgets.failure(f"no table {widgets.shortened(requested, 200)} in this lake", "choose one above")
    like = address.typed("search", "Name contains").lower()
    named = (
        [health for health in tables if like in health.table.lower()] if like else table_lines.wrong(tables)
    )
    if like:
        st.caption(f"{widgets.number(len(named), 'table')}, worst first{_first(named)}.")
    else:
        said = table_lines.how_many(tables) or "No table has something wrong"
        st.caption(f"{said}{_first(named)}.")
    table_lines.show(session, named[:WORST])


def _first(tables: Sequence[Health]) -> str:
    return f"; the worst {count(WORST)}" if len(tables) > WORST else ""


def _head(session: PageSession, health: Health, changed: Sequence[Change], by_kind: Sequence[Broken]) -> None:
    open_now = health.ledger.by_severity("open")
    numbers = ", ".join(f"{count(number)} {severity}" for severity, number in open_now.items())
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(widgets.prose(widgets.shortened(health.table)), anchor=False, width="content")
        st.markdown(widgets.marks(health.level, health.doubt), width="content")
    with st.container(gap="xsmall"):
        widgets.plain(f"Open: {numbers}." if numbers else f"Nothing is open{_since(session, changed)}.")
        if health.table == NO_TABLE:
            widgets.plain("These discrepancies are about sources and belong to no table.")
        if health.reason:
            widgets.plain(f"{health.reason[:1].upper()}{health.reason[1:]}.")
        if health.is_blind and not any(each.kind in next_steps.NOT_JUDGED for each in by_kind):
            check = widgets.literal(next_steps.check_command(session.lake_file))
            st.markdown(
                f"What to do: {check} checks every source; repair the source that it names, and audit again."
            )
        if health.last_audit:
            at = health.last_audit.as_of
            widgets.plain(
                f"Last audited {second(at)}, {age(at, session.now)} ago, by run {health.last_audit.run_id}"
                f"{_evidence(session, health.last_audit.judged.evidence_up_to)}."
            )
        if health.watermark:
            widgets.plain(_verified(session, health.watermark))


def _verified(session: PageSession, row: Row) -> str:
    """Return up to which time commits are verified, and what stops that time."""
    at, why = row["verified_through"], stopped_by(row)
    past = f"All commits up to {second(at)}, {age(at, session.now)} ago, are verified" if at else ""
    return f"{past or 'No commit is verified'}.{f' Stopped by {why}.' if why else ''}"


def _evidence(session: PageSession, up_to: datetime | None) -> str:
    """Return up to when the evidence reaches, and that later changes are not judged."""
    if up_to is None:
        return ""
    return f", by evidence up to {second(up_to)}, {age(up_to, session.now)} old; later changes are not judged"


def _since(session: PageSession, changed: Sequence[Change]) -> str:
    """Return since when nothing is open; empty if nothing ever was."""
    ends = [change.at for change in changed if change.what == "resolved"]
    return f" since {second(max(ends))} ({age(max(ends), session.now)})" if ends else ""


def _broken(session: PageSession, address: widgets.Address, table: str, by_kind: Sequence[Broken]) -> None:
    widgets.section("What is broken")
    pressing = [each for each in by_kind if each.standing == "open"]
    others = [each for each in by_kind if each.standing != "open"]
    tables = [] if table == NO_TABLE else [table]
    if not pressing:
        st.caption("Nothing is open.")
    else:
        columns = (
            _COLUMNS if any(each.files != Amount(each.number, whole=True) for each in pressing) else _FEWER
        )
        rows = [[cells[name] for name in columns] for cells in map(partial(_row, session), pressing[:BROKEN])]
        widgets.grid(
            columns, rows, alt="Open discrepancies by kind, worst first", numbers=_NUMBERS, phone=_ON_PHONE
        )
        st.caption(table_lines.OPEN_FOR)
        for plan in session.load(("undone", table), lambda: figures.undone_plans(session.results, table))[:1]:
            of = widgets.discrepancies(plan["number"])
            widgets.plain(
                f"The plan {plan['plan_id']} had repaired {of}; this was undone {second(plan['at'])}."
            )
        commands.show(
            address,
            lambda restore: next_steps.commands_for_table(
                session.lake_file, table, pressing[:BROKEN], restore=restore
            ),
            before=lambda restore: _before_plan(pressing[:BROKEN], restore=restore),
        )
        for kind in dict.fromkeys(each.kind for each in pressing if each.kind in next_steps.NOT_JUDGED):
            do = next_steps.with_names(next_steps.to_do(kind), session.lake_file, tables)
            widgets.plain(f"What to do: {do}")
        with st.expander("Explanations, and what to do"):
            for each in pressing[:BROKEN]:
                _kind(session, each, tables)
    if others:
        number = count(sum(each.number for each in others))
        with st.expander(f"Not counted: {number} {ACCEPTED} or {PENDING}"):
            for each in others[:BROKEN]:
                _kind(session, each, tables)


def _before_plan(pressing: Sequence[Broken], *, restore: bool) -> str:
    """Return how many lost files the plan repairs, and the question to answer first; empty if there is none."""
    meant = [each for each in pressing if next_steps.may_be_meant(each.kind, each.answers, each.causes)]
    recovery = add_recoveries([each.recovery for each in meant])
    by_cause = added(each.by_cause for each in meant)
    return commands.before_plan(recovery, {each.kind for each in meant}, by_cause, restore=restore)


_COLUMNS = ("what", "recoverable", "since", "rows", "bytes", "files", "cause")
_FEWER = tuple(name for name in _COLUMNS if name != "files")
"""Columns for kinds whose discrepancies are one file each, where `files` would repeat the number."""
_ON_PHONE = ("what", "recoverable", "cause")
_NUMBERS = ("files", "rows", "bytes", "since")


def _row(session: PageSession, each: Broken) -> dict[str, str]:
    cells = (
        f"{widgets.badge(each.severity)} **{_heading(each)}**{widgets.reopened(each.again, each.number)}",
        widgets.prose(brief(each.recovery, session.now)).replace("`--allow` restore", "`--allow restore`"),
        _since_when(session, each),
        widgets.amount(each.rows),
        widgets.prose(widgets.amount(each.bytes, of_bytes=True)),
        widgets.amount(each.files),
        widgets.prose(each.cause) if each.cause else "not known",
    )
    return dict(zip(_COLUMNS, cells, strict=True))


def _since_when(session: PageSession, each: Broken) -> str:
    if not each.since:
        return UNKNOWN
    several = "up to " if each.newest and each.newest != each.since else ""
    return f"{several}{rough(max(session.now - each.since, timedelta(0)))} ago"


def _heading(each: Broken) -> str:
    return widgets.prose(counted_kind(each.kind, each.number, each.files.known))


def _kind(session: PageSession, each: Broken, tables: Sequence[str]) -> None:
    with st.container(border=True, gap="xsmall"):
        standing = f" :gray-badge[{each.standing}]" if each.standing in ("accepted", "pending") else ""
        st.markdown(f"**{_heading(each)}** {widgets.badge(each.severity)}{standing}")
        for line in sentences(session, each, tables):
            widgets.plain(line)


def sentences(session: PageSession, each: Broken, tables: Sequence[str] = ()) -> Iterator[str]:
    """Yield sentences about a kind: its meaning, stake, age, causes, explanation, recovery and advice.

    `tables`: see `next_steps.with_names`.
    """
    words = KINDS[each.kind].words if each.kind in KINDS else ""
    stake = f"{widgets.amount(each.rows)} rows and {widgets.amount(each.bytes, of_bytes=True)} at stake"
    is_known = any(value.known is not None for value in (each.files, each.rows, each.bytes))
    parts = [words] if words else []
    if each.kind == COVERAGE_LOST:
        stake = f"{widgets.files(each.files)} not judged"
    else:
        stake = f"{widgets.files(each.files)}, {stake}"
    parts += [stake] if is_known else []
    if text := ": ".join(parts):
        yield f"{text[:1].upper()}{text[1:]}."
    first = "Blind" if each.kind == COVERAGE_LOST else "Open"
    noticed = (
        f", noticed {second(each.noticed)}"
        if first == "Blind" and each.noticed and each.noticed != each.since
        else ""
    )
    yield f"{first} since {second(each.since)} ({age(each.since, session.now)} ago{noticed})."
    if each.cause:
        yield f"Cause: {each.cause}."
    if each.why and each.why.lower() != words.lower():
        yield f"Why: {each.why}" + (" (one of them)." if each.number > 1 else ".")
    recoverable = sentence(each.recovery, session.now)
    yield f"{recoverable[:1].upper()}{recoverable[1:]}."
    only_no = "no" if each.recovery.answers.get("no") == each.number else None
    why = each.why if each.number == 1 else None
    alone = {
        "kind": each.kind,
        "recoverable": only_no,
        "manifest_kind": each.manifest_kind,
        "explanation": why,
    }
    beside = (next_steps.LOST_COMMIT,) if each.recovery.followers == each.number else ()
    if do := next_steps.to_do_for(alone, beside):
        yield f"What to do: {next_steps.with_names(do, session.lake_file, tables)}"


def _where(parts: Partitions) -> None:
    """Show the partitions with open discrepancies, if the table has partitions."""
    if not any(part.path for part in parts.shown):
        return
    widgets.section("Where")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        partition_plots.draw(parts)
    rows = [
        (
            widgets.prose(part.path or WHOLE_TABLE),
            widgets.badge(part.worst),
            ", ".join(f"{count(n)} {widgets.prose(severity)}" for severity, n in part.by_severity.items()),
        )
        for part in parts.shown[: partition_plots.NAMED]
    ]
    with right:
        widgets.grid(("partition", "worst", "open"), rows, alt="The worst partitions")


def _commits(commits: Sequence[Commit]) -> None:
    if not commits:
        return
    widgets.section("Commits around it")
    rows = [
        (
            widgets.literal(each.commit_id),
            widgets.prose(each.kind),
            count(each.number),
            second(each.committed),
        )
        for each in commits
    ]
    with st.expander(
        f"{widgets.number(len({each.commit_id for each in commits}), 'commit')} with open discrepancies",
        expanded=len(rows) < 6,
    ):
        widgets.grid(("commit", "kind", "open", "first written"), rows, alt="Commits")


def _list(
    session: PageSession, address: widgets.Address, table: str, by_kind: Sequence[Broken], parts: Partitions
) -> None:
    widgets.section("Discrepancies, worst first")
    filters = _list_filter(address, by_kind, parts)
    page = address.number("page", 10**7)
    about = ("listed", table, filters)
    listed = session.load(
        (*about, page), lambda: figures.listed(session.results, table, filters, session.now, page)
    )
    st.caption(f"{count(listed.total)} in this list")
    last = address.pages("page", listed.total, PAGE_ROWS)
    if last != page:
        listed = session.load(
            (*about, last), lambda: figures.listed(session.results, table, filters, session.now, last)
        )
    discrepancy_lines.show(listed.rows)


def _list_filter(address: widgets.Address, by_kind: Sequence[Broken], parts: Partitions) -> ListFilter:
    with st.container(horizontal=True):
        standings = address.several("state", "State", STANDINGS, default=("open",))
        severities = address.several("severity", "Severity", SEVERITIES)
        kinds = address.several("kind", "Kind", sorted({*(each.kind for each in by_kind), *KINDS}))
    with st.container(horizontal=True):
        partition = address.one("partition", "Partition", [part.path for part in parts.shown if part.path])
        like = address.typed("q", "Name contains")
    return ListFilter(standings, severities, kinds, partition, like)


def _coverage(health: Health) -> None:
    widgets.section("Coverage")
    if health.last_audit is None:
        widgets.plain(f"{UNSEEN[:1].upper()}{UNSEEN[1:]}")
        return
    judged = health.last_audit.judged
    st.markdown(
        f"{DECIDED[judged.standing].capitalize()} by run {widgets.literal(health.last_audit.run_id)}, "
        f"evidence up to {second(judged.evidence_up_to)}, table version {count(judged.version)}{_axes_note(judged)}."
    )
    rows = [(axis_words(axis), cell.extent, _outcomes(cell),
             widgets.literal(cell.reason) if cell.reason else "")
            for axis, cell in judged.cells.items()]  # fmt: skip
    columns = ("axis", "judged", "files", "why not all")
    widgets.grid(columns, rows, alt="Coverage", phone=("axis", "judged", "why not all"))
    if health.watermark:
        st.caption(
            "The check of commits is separate: the time up to which commits are verified does not use it. "
            "It counts the checksum file of a log as one more commit."
        )


def _axes_note(judged: Judged) -> str:
    """Return how many axes were requested, if some were off."""
    requested, every = sum(cell.state != "off" for cell in judged.cells.values()), len(judged.cells)
    return f"; {count(requested)} of {count(every)} axes were requested" if requested < every else ""


def _outcomes(cell: Cell) -> str:
    words = {**OUTCOMES, "finding": "with a finding" if cell.counts["finding"] == 1 else "with findings"}
    return ", ".join(f"{count(number)} {words[name]}" for name, number in cell.counts.items() if number)
