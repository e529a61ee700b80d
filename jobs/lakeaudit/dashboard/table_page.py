"""One table: what is broken, where, since when, why, whether it is recoverable, and what of it was judged."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import partial

import streamlit as st

from lakeaudit.advice import next_steps
from lakeaudit.dashboard import partition_plots, plots, timeline_plot, widgets
from lakeaudit.dashboard.queries import table as figures
from lakeaudit.dashboard.queries.lake import UNSEEN, Health, table_healths
from lakeaudit.dashboard.queries.table import (
    PAGE_ROWS,
    STANDINGS,
    Broken,
    Change,
    Commit,
    Listed,
    Partitions,
    Wanted,
)
from lakeaudit.dashboard.queries.timeline import timeline
from lakeaudit.dashboard.session import Desk
from lakeaudit.formatting import (
    ACCEPTED,
    OUTCOMES,
    PENDING,
    UNKNOWN,
    age,
    count,
    rough,
    second,
    size,
    visible,
)
from lakeaudit.kinds import KINDS, SEVERITIES, axis_words
from lakeaudit.report.coverage_view import STANDINGS as DECIDED
from lakeaudit.report.coverage_view import Cell, Judged
from lakeaudit.report.summary import WHOLE_TABLE, Amount
from lakeaudit.results.read import Row
from lakeaudit.results.recovery import brief, of_finding, sentence
from lakeaudit.results.trends import changes

NAME = 56
"""Characters of a file's name in the list."""
BROKEN = 40
"""Kinds written out; there are fewer, unless the rows come from elsewhere."""


def show(desk: Desk) -> None:
    """The table that the address names."""
    tables = desk.ask(("tables",), lambda: table_healths(desk.results, desk.lake, desk.now))
    address = widgets.Address("table")
    table = address.one("table", "Table", [health.table for health in tables])
    if table is None:
        _none(address.given("table"))
        return
    health = next(each for each in tables if each.table == table)
    of_lake = desk.ask(("changes",), lambda: changes(desk.results), by_clock=False)
    told = desk.ask(("changes", table), lambda: figures.changes(of_lake, table), by_clock=False)
    _head(desk, health, told)
    found = desk.ask(("broken", table), lambda: figures.broken(desk.results, table, desk.now))
    if found:
        _broken(desk, table, found)
    parts = desk.ask(("partitions", table), lambda: figures.partitions(desk.results, table, desk.now))
    _where(parts)
    timeline_plot.show(desk.ask(("timeline", table), lambda: timeline(desk.results, table, desk.now, told)))
    if found or told:
        with nullcontext() if found else st.expander("What was resolved, file by file"):
            _list(desk, address, table, found, parts)
    plots.trend(desk.ask(("days", table), lambda: figures.table_days(desk.results, table, told)), "the table")
    _commits(desk.ask(("commits", table), lambda: figures.commits(desk.results, table, desk.now)))
    _coverage(health)


def _none(given: str | None) -> None:
    st.title("A table", anchor=False)
    if given:
        widgets.failure(f"no table {widgets.shortened(given, 200)} in this lake", "choose one above")
    else:
        st.caption("Choose a table.")


def _head(desk: Desk, health: Health, told: Sequence[Change]) -> None:
    held = health.held.by_severity("open")
    numbers = ", ".join(f"{count(number)} {severity}" for severity, number in held.items())
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(widgets.prose(widgets.shortened(health.table)), anchor=False, width="content")
        st.markdown(widgets.marks(health.level, health.doubt), width="content")
    with st.container(gap="xsmall"):
        widgets.plain(f"Open: {numbers}." if numbers else f"Nothing is open{_since(desk, told)}.")
        if health.reason:
            widgets.plain(f"{health.reason[:1].upper()}{health.reason[1:]}.")
        if health.looked:
            at = health.looked.as_of
            widgets.plain(
                f"Last audited {second(at)}, {age(at, desk.now)} ago, by run {health.looked.run_id}"
                f"{_evidence(desk, health.looked.judged.evidence_up_to)}."
            )


def _evidence(desk: Desk, up_to: datetime | None) -> str:
    """What happened after it nobody has judged."""
    if up_to is None:
        return ""
    return f", by evidence up to {second(up_to)}, {age(up_to, desk.now)} old; what came later is not judged"


def _since(desk: Desk, told: Sequence[Change]) -> str:
    """Since when nothing is, where anything ever was."""
    ends = [change.at for change in told if change.what == "resolved"]
    return f" since {second(max(ends))} ({age(max(ends), desk.now)})" if ends else ""


def _broken(desk: Desk, table: str, found: Sequence[Broken]) -> None:
    widgets.section("What is broken")
    pressing = [each for each in found if each.standing == "open"]
    apart = [each for each in found if each.standing != "open"]
    if not pressing:
        st.caption("Nothing is open.")
    else:
        columns = (
            _COLUMNS if any(each.files != Amount(each.number, whole=True) for each in pressing) else _FEWER
        )
        rows = [[cells[name] for name in columns] for cells in map(partial(_row, desk), pressing[:BROKEN])]
        widgets.grid(columns, rows, alt="What is open by kind, the worst first", numbers=_NUMBERS)
        lines = next_steps.mend_all(desk.lake_file, table, pressing[:BROKEN])
        st.code("\n".join(map(visible, lines)), language=None, wrap_lines=True)
        if told := next_steps.after_plans(lines, widgets.literal):
            st.caption(told)
        with st.expander("In words: why, and what to do"):
            for each in pressing[:BROKEN]:
                _kind(desk, each)
    if apart:
        number = count(sum(each.number for each in apart))
        with st.expander(f"Apart from these: {number} {ACCEPTED} or {PENDING}"):
            for each in apart[:BROKEN]:
                _kind(desk, each)


_COLUMNS = ("what", "severity", "recoverable", "since", "rows", "bytes", "files", "cause")
_FEWER = tuple(name for name in _COLUMNS if name != "files")
"""Where each is one file, which its number says already."""
_NUMBERS = ("files", "rows", "bytes", "since")


def _row(desk: Desk, each: Broken) -> dict[str, str]:
    causes = "; ".join(each.causes[:2]) + (
        f" and {count(len(each.causes) - 2)} more" if len(each.causes) > 2 else ""
    )
    kind = widgets.prose(each.kind.replace("_", " "))
    cells = (
        f"**{count(each.number)} {kind}**{widgets.reopened(each.again, each.number)}",
        widgets.badge(each.severity),
        widgets.prose(brief(each.recovery, desk.now)),
        f"{rough(max(desk.now - each.since, timedelta(0)))} ago" if each.since else UNKNOWN,
        widgets.amount(each.rows),
        widgets.prose(widgets.amount(each.bytes, of_bytes=True)),
        widgets.amount(each.files),
        widgets.prose(causes) if causes else "not known",
    )
    return dict(zip(_COLUMNS, cells, strict=True))


def _kind(desk: Desk, each: Broken) -> None:
    with st.container(border=True, gap="xsmall"):
        standing = f" :gray-badge[{each.standing}]" if each.standing in ("accepted", "pending") else ""
        kind = widgets.prose(each.kind.replace("_", " "))
        st.markdown(f"**{count(each.number)} {kind}** {widgets.badge(each.severity)}{standing}")
        for line in sentences(desk, each):
            widgets.plain(line)


def sentences(desk: Desk, each: Broken) -> Iterator[str]:
    """What it is, what it costs, since when, why, and whether it is recoverable."""
    words = KINDS[each.kind].words if each.kind in KINDS else ""
    stake = f"{widgets.amount(each.rows)} rows and {widgets.amount(each.bytes, of_bytes=True)} at stake"
    yield f"{words[:1].upper()}{words[1:]}{': ' if words else ''}{widgets.files(each.files)}, {stake}."
    yield f"First seen {second(each.since)} ({age(each.since, desk.now)} ago)."
    if each.causes:
        yield f"Cause: {'; '.join(each.causes[:5])}."
    if each.why and each.why.lower() != words.lower():
        yield f"Why: {each.why}" + (" (said of one of them)." if each.number > 1 else ".")
    recoverable = sentence(each.recovery, desk.now)
    yield f"{recoverable[:1].upper()}{recoverable[1:]}."
    only_no = "no" if each.answers.get("no") == each.number else None
    if do := next_steps.to_do(each.kind, only_no, each.manifest_kind):
        yield f"What to do: {do}"


def _where(parts: Partitions) -> None:
    """Of a table that has no partitions there is nothing to say."""
    if not any(part.path for part in parts.shown):
        return
    widgets.section("Where")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        partition_plots.draw(parts)
    rows = [
        (
            widgets.prose(widgets.shortened(part.path, 60) or WHOLE_TABLE),
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
        f"{widgets.number(len({each.commit_id for each in commits}), 'commit')} that what is open goes back to",
        expanded=len(rows) < 6,
    ):
        widgets.grid(("commit", "kind", "open", "first written"), rows, alt="Commits")


def _list(
    desk: Desk, address: widgets.Address, table: str, found: Sequence[Broken], parts: Partitions
) -> None:
    widgets.section("Discrepancies, the worst first")
    wanted = _wanted(address, found, parts)
    page = address.number("page", 10**7)
    about = ("listed", table, wanted)
    listed = desk.ask((*about, page), lambda: figures.listed(desk.results, table, wanted, desk.now, page))
    st.caption(f"{count(listed.total)} of them")
    last = address.pages("page", listed.total, PAGE_ROWS)
    if last != page:
        listed = desk.ask((*about, last), lambda: figures.listed(desk.results, table, wanted, desk.now, last))
    _rows(listed)


def _wanted(address: widgets.Address, found: Sequence[Broken], parts: Partitions) -> Wanted:
    with st.container(horizontal=True):
        standings = address.several("state", "State", STANDINGS, default=("open",))
        severities = address.several("severity", "Severity", SEVERITIES)
        kinds = address.several("kind", "Kind", sorted({*(each.kind for each in found), *KINDS}))
    with st.container(horizontal=True):
        partition = address.one("partition", "Partition", [part.path for part in parts.shown if part.path])
        like = address.typed("q", "Name contains")
    return Wanted(standings, severities, kinds, partition, like)


def _rows(listed: Listed) -> None:
    """A line a discrepancy: what it is, its file as a link, what it costs."""
    with st.container(gap="xxsmall"):
        for row in listed.rows:
            apart = f" :gray-badge[{row['standing']}]" if row["standing"] in STANDINGS[1:] else ""
            kind = widgets.prose((row["kind"] or "").replace("_", " "))
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.markdown(f"{widgets.badge(row['severity'])} **{kind}**{apart}", width="content")
                name = widgets.literal(widgets.shortened(visible(row["subject"] or ""), NAME))
                widgets.link("file", name, id=row["discrepancy_id"])
                widgets.plain(_line(row))


def _line(row: Row) -> str:
    parts = [widgets.number(row["rows_at_stake"], "row")] if row["rows_at_stake"] is not None else []
    parts += [size(row["bytes_at_stake"])] if row["bytes_at_stake"] is not None else []
    parts += [f"{count(row['files'])} files"] if row["files"] not in (None, 1) else []
    again = ", reopened" if row["reopened"] and row["state"] != "resolved" else ""
    parts += [f"since {second(row['first_seen_at'])}{again}", of_finding(row)]
    if row["standing"] == "accepted":
        parts.append(f"accepted by {row['ack_by']} until {second(row['ack_until'])}")
    if row["resolution"]:
        parts.append(next_steps.ended(row))
    return " · ".join(filter(None, parts))


def _coverage(health: Health) -> None:
    widgets.section("Coverage")
    if health.looked is None:
        widgets.plain(f"{UNSEEN[:1].upper()}{UNSEEN[1:]}")
        return
    judged = health.looked.judged
    st.markdown(
        f"{DECIDED[judged.standing].capitalize()} by run {widgets.literal(health.looked.run_id)}, "
        f"evidence up to {second(judged.evidence_up_to)}, table version {count(judged.version)}{_asked(judged)}."
    )
    rows = [(axis_words(axis), cell.extent, _outcomes(cell),
             widgets.literal(cell.reason) if cell.reason else "")
            for axis, cell in judged.cells.items()]  # fmt: skip
    widgets.grid(("what was asked", "judged", "files", "why not all of it"), rows, alt="What could be judged")


def _asked(judged: Judged) -> str:
    """How many questions were asked, where not all were: nothing is said of the others."""
    asked = sum(cell.state != "off" for cell in judged.cells.values())
    every = len(judged.cells)
    return f"; {count(asked)} of {count(every)} questions were asked" if asked < every else ""


def _outcomes(cell: Cell) -> str:
    return ", ".join(f"{count(number)} {OUTCOMES[name]}" for name, number in cell.counts.items() if number)
