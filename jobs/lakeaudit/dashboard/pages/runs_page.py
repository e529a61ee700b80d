"""Shows the runs, and for one of them its sources, coverage and changes."""

from collections import Counter
from collections.abc import Container, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.parts.history import select_period, show_period
from lakeaudit.dashboard.queries import runs as figures
from lakeaudit.dashboard.queries.runs import Changed, RunFigures, Runs
from lakeaudit.dashboard.queries.table import changes as changes_of
from lakeaudit.dashboard.session import PageSession
from lakeaudit.formatting import UNKNOWN, age, count, duration, second, table_label, visible
from lakeaudit.kinds import AXES, axis_words
from lakeaudit.report import palette
from lakeaudit.report.coverage_view import STANDINGS, Judged
from lakeaudit.results.read import PUBLISHED, Row
from lakeaudit.results.summaries.trends import changes

_ROW = 30
_MOST = 640
"""Greatest height of a grid, in points; a longer grid scrolls."""
COLOURS = {"complete": "blue", "partial": "yellow", "suspect": "violet", "failed": "red", "running": "gray"}
"""A complete run may have found damage, so that its colour is not green."""


def show(session: PageSession) -> None:
    """Show the run of the address, or the newest runs."""
    st.title("Runs", anchor=False)
    newest = session.load(("runs",), lambda: figures.newest_runs(session.results))
    if not newest.shown:
        widgets.failure(f"{session.results.place.uri} holds no audit", "run `lakeaudit audit` first")
        return
    address = widgets.Address("runs")
    if _requested(session, address, list(dict.fromkeys(run["run_id"] for run in newest.shown))):
        return
    oldest = min(run["as_of"] for run in newest.shown).date()
    period = select_period(session, address, oldest)
    if address.value("from") or address.value("to"):
        newest = session.load(("runs", period), lambda: figures.newest_runs(session.results, period))
    st.caption(_ORDER if newest.shown else "No run in this period.")
    if newest.shown:
        _list(newest)
    widgets.section("Changes in the lake")
    of_lake = session.load(("changes",), lambda: changes(session.results), by_clock=False)
    changed = session.load(("changes", None), lambda: changes_of(of_lake, None), by_clock=False)
    show_period(session, period, None, changed)


def _list(newest: Runs) -> None:
    rows = [_line(run, newest) for run in newest.shown]
    st.dataframe(
        pd.DataFrame(rows, columns=widgets.used_columns(rows, rare=(_WHY_NOT,))), hide_index=True,
        height=min(_MOST, _ROW * (len(rows) + 1) + 8), width="stretch", row_height=_ROW, placeholder=UNKNOWN,
        column_config=_columns(), alt="The newest runs",
    )  # fmt: skip
    if newest.rest:
        st.caption(f"{count(newest.rest)} older runs are not shown: select an earlier period.")


def _requested(session: PageSession, address: widgets.Address, newest: list[str]) -> bool:
    """Show the run of the address, of any age; return whether there is one."""
    requested = address.value("run")
    one = (
        session.load(("run", requested), lambda: figures.run_figures(session.results, requested))
        if requested
        else None
    )
    older = [one.run["run_id"]] if one and one.run["run_id"] not in newest else []
    address.one("run", "Run", [*newest, *older])
    if requested and one is None:
        widgets.failure(f"no run {widgets.shortened(requested, 150)} in these results", "choose one above")
    if one is not None:
        _run(session, address, one)
    return one is not None


_ORDER = (
    "Newest first. A complete run could read all evidence; a few files or commits may still be undecided."
)
_WHY_NOT = "why not complete"


def _line(run: Row, newest: Runs) -> dict[str, object]:
    changed = newest.changed.get(run["run_id"])
    return {
        "run": widgets.address_of("runs", run=run["run_id"]),
        "state": f"{palette.STATUS_SHAPES.get(run['status'], '')} {visible(run['status'])}".strip(),
        _WHY_NOT: visible(_why(run, newest.in_part.get(run["run_id"], 0))),
        "as of": run["as_of"],
        "new": changed and changed.number("opened"),
        "back": changed and changed.number("reopened"),
        "of these": (changed and _severities(changed, "opened", "reopened")) or None,
        "resolved": changed and changed.number("resolved"),
        "took": _took(run),
        "tables": f"{count(run['tables_audited'])} of {count(run['tables_expected'])}",
    }


def _severities(changed: Changed, *transitions: str) -> str:
    return ", ".join(
        f"{count(number)} {visible(severity) or 'of unknown severity'}"
        for severity, number in changed.by_severity(*transitions).items()
    )


def _took(run: Row) -> str:
    if run["finished_at"] and run["started_at"]:
        return duration(run["finished_at"] - run["started_at"])
    return "not finished"


def _why(run: Row, in_part: int) -> str:
    """Return what went wrong in a run; empty if nothing did."""
    rejected = sum(source["rejected"] or 0 for source in run["sources"] or ())
    reasons = [run["error"]] if run["error"] else []
    reasons += [f"incomplete evidence about {widgets.number(in_part, 'table')}"] if in_part else []
    reasons += [f"{widgets.number(rejected, 'row')} could not be read"] if rejected else []
    reasons += [gate.removeprefix("gate ") for gate in run["gates"] or ()]
    return "; ".join(reasons)


def _columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "run": column.LinkColumn("run", display_text=r"run=(.*)$", width=190, pinned=True),
        "state": column.TextColumn("state", width=96),
        "as of": column.DatetimeColumn("as of", width=100, format="distance", timezone="UTC"),
        "new": column.NumberColumn("new", width=58, format="localized", help="found for the first time"),
        "back": column.NumberColumn(
            "back", width=58, format="localized", help="reopened: resolved before, and found again"
        ),
        "of these": column.TextColumn("of these", width=250),
        "resolved": column.NumberColumn("resolved", width=70, format="localized"),
        "took": column.TextColumn("took", width=66),
        "tables": column.TextColumn("tables", width=104),
        _WHY_NOT: column.TextColumn(_WHY_NOT, width=330),
    }


def _status(run: Row) -> str:
    mark = f":{COLOURS.get(run['status'], 'gray')}-badge[{run['status'] if run['status'] in COLOURS else 'unknown'}]"
    return mark if run["status"] in PUBLISHED else f"{mark} nothing published"


def _about(run: Row) -> str:
    took = f"took {_took(run)}" if run["finished_at"] else "not finished"
    audited = f"{count(run['tables_audited'])} of {count(run['tables_expected'])} tables audited"
    rejected = sum(source["rejected"] or 0 for source in run["sources"] or ())
    parts = [
        f"as of {second(run['as_of'])}",
        took,
        audited,
        widgets.number(len(run["sources"] or ()), "source"),
    ]
    parts += [f"{widgets.number(rejected, 'row')} rejected"] if rejected else []
    parts += [f"{widgets.number(len(run['gates']), 'gate')} failed"] if run["gates"] else []
    return " · ".join(parts)


def _run(session: PageSession, address: widgets.Address, one: RunFigures) -> None:
    run = one.run
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header(widgets.prose(run["run_id"]), anchor=False, width="content")
        st.markdown(_status(run), width="content")
    widgets.plain(f"{age(run['as_of'], session.now)} ago \u00b7 {_about(run)}")
    if run["status"] in PUBLISHED:
        widgets.plain(_changes(one.changed))
    for gate in run["gates"] or ():
        widgets.plain(f"Failed: {gate}")
    if run["error"]:
        widgets.plain(run["error"])
    _coverage(address, one)
    _sources(run)


def _coverage(address: widgets.Address, one: RunFigures) -> None:
    widgets.section("Coverage")
    if not one.tables:
        st.caption("Nothing could be judged: the run published no coverage.")
        return
    standings = address.several("decided", "Decided", list(STANDINGS.values()))
    tables = [table for table in one.tables if not standings or STANDINGS[table.standing] in standings]
    _covered(tables)


def _changes(changed: Changed | None) -> str:
    """Return a sentence about the run's changes of the ledger."""
    if changed is None:
        return "Its changes of the ledger were not recorded."
    parts = [
        f"{count(changed.number(name))} {words} ({_severities(changed, name)})"
        for name, words in _TRANSITIONS.items()
        if changed.number(name)
    ]
    parts += [f"{count(changed.number('resolved'))} resolved"] if changed.number("resolved") else []
    return f"In the ledger: {', '.join(parts)}." if parts else "It changed nothing in the ledger."


_TRANSITIONS = {"opened": "new", "reopened": "back again", "escalated": "worse"}


def _sources(run: Row) -> None:
    widgets.section("Sources")
    rows = [
        (
            f"{widgets.prose(source['role'] or UNKNOWN)} {widgets.prose(source['kind'] or UNKNOWN)}",
            widgets.literal(source["location"]),
            count(source["rows"]),
            count(source["rejected"]),
            _snapshot_time(source),
        )
        for source in run["sources"] or ()
    ]
    if rows:
        widgets.grid(
            ("source", "place", "rows", "rejected", "taken"),
            rows,
            alt="Sources of the run",
            numbers=("rows", "rejected"),
            phone=("source", "place", "taken"),
        )
    else:
        st.caption("No source was read.")


def _snapshot_time(source: Row) -> str:
    start, end = source["cut_from"], source["cut_to"]
    if start is None or end is None or start == end:
        return second(start or end)
    return f"{second(start)}, over {duration(end - start)}"


def _covered(tables: Sequence[Judged]) -> None:
    """Show a row for each table; reasons that most tables share are listed once, above."""
    common = _common(tables)
    if common:
        hindrances = {reason for table in tables for reason in _hindrances(table)}
        reasons = "; ".join(
            f"{count(number)} not fully judged ({reason})"
            if reason in hindrances
            else f"in {count(number)} {reason}"
            for reason, number in common.items()
        )
        widgets.plain(f"{widgets.number(len(tables), 'table')}: {reasons}.")
    axes = [axis for axis in AXES if any(_differs(table, axis) for table in tables)]
    rows = [_judged(table, axes, common) for table in tables]
    shares = {axis_words(axis): st.column_config.TextColumn(axis_words(axis), width=96) for axis in axes}
    st.dataframe(
        pd.DataFrame(rows), hide_index=True, height=min(_MOST, _ROW * (len(rows) + 1) + 8), width="stretch",
        row_height=_ROW, placeholder=UNKNOWN, column_config=_table_columns() | shares,
        alt="Coverage, least judged first",
    )  # fmt: skip


def _differs(table: Judged, axis: str) -> bool:
    """Return whether a requested axis was not fully judged; axes that are full in every table have no column."""
    return axis in table.cells and table.cells[axis].state not in ("off", "empty", "whole")


def _extent(table: Judged, axis: str) -> str:
    """Return how much of an axis was judged; a dash if it is off or has no files."""
    cell = table.cells.get(axis)
    return _SHORT.get(cell.state, cell.extent) if cell else UNKNOWN


def _common(tables: Sequence[Judged]) -> dict[str, int]:
    """Return the reasons that most tables share, with their number."""
    reasons = Counter(reason for table in tables for reason in _reasons(table))
    return {
        reason: number for reason, number in reasons.most_common() if number > 1 and 2 * number > len(tables)
    }


def _reasons(table: Judged) -> list[str]:
    return [*dict.fromkeys(cell.reason for cell in table.cells.values() if cell.reason)]


def _judged(table: Judged, axes: Sequence[str], common: Container[str]) -> dict[str, object]:
    level = "fine" if table.standing == "whole" else "unjudged"
    return {
        "judged": f"{palette.shape(level)} {STANDINGS[table.standing]}",
        "table": widgets.address_of("table", table=table_label(table.name or None)),
        "why not all": visible("; ".join(_own(table, common))),
        **{axis_words(axis): _extent(table, axis) for axis in axes},
        "evidence up to": table.evidence_up_to,
    }


def _own(table: Judged, common: Container[str]) -> list[str]:
    """Return why the table was not fully judged, without common reasons."""
    return [reason for reason in _hindrances(table) if reason not in common]


def _hindrances(table: Judged) -> list[str]:
    """Return why requested axes were not fully judged; without a recorded reason, the axis and its share."""
    partly = [cell for axis, cell in table.cells.items() if _differs(table, axis)]
    return [*dict.fromkeys(cell.reason or f"{axis_words(cell.axis)} {cell.extent}" for cell in partly)]


_SHORT = {"off": UNKNOWN, "empty": UNKNOWN, "nothing": "nothing", "young": "too young"}


def _table_columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "judged": column.TextColumn("judged", width=150, pinned=True),
        "table": column.LinkColumn("table", display_text=r"table=(.*)$", width=150, pinned=True),
        "evidence up to": column.DatetimeColumn(
            "evidence up to", width=110, format="distance", timezone="UTC"
        ),
        "why not all": column.TextColumn("why not all", width=360),
    }
