"""The runs: how each went, what it read, and what one of them could decide."""

from collections import Counter
from collections.abc import Container, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries import runs as figures
from lakeaudit.dashboard.queries.runs import Changed, RunFigures
from lakeaudit.dashboard.session import Desk
from lakeaudit.formatting import UNKNOWN, age, count, duration, second, table_label, visible
from lakeaudit.kinds import AXES, axis_words
from lakeaudit.report import palette
from lakeaudit.report.coverage_view import STANDINGS, Judged
from lakeaudit.results.read import PUBLISHED, Row

_ROW = 30
_MOST = 640
"""Points that a grid takes at most; beyond that it scrolls."""
COLOURS = {"complete": "blue", "partial": "yellow", "suspect": "violet", "failed": "red", "running": "gray"}
"""That a run is complete says nothing good of the lake: it is not green."""


def show(desk: Desk) -> None:
    """The newest runs, or the one that the address names."""
    st.title("Runs", anchor=False)
    found = desk.ask(("runs",), lambda: figures.newest_runs(desk.results))
    if not found.shown:
        widgets.failure(f"{desk.results.place.uri} holds no audit", "run `lakeaudit audit` first")
        return
    address = widgets.Address("runs")
    chosen = address.one("run", "Run", list(dict.fromkeys(run["run_id"] for run in found.shown)))
    given = address.given("run")
    if chosen is None and given:
        widgets.failure(f"no run {widgets.shortened(given, 150)} among the newest", "choose one above")
    if chosen is not None:
        one = desk.ask(("run", chosen), lambda: figures.run_figures(desk.results, chosen))
        if one is not None:
            _run(desk, address, one)
        return
    st.caption("The newest first.")
    rows = [_line(run, found.changed.get(run["run_id"])) for run in found.shown]
    st.dataframe(
        pd.DataFrame(rows, columns=widgets.columns_said(rows)), hide_index=True,
        height=min(_MOST, _ROW * (len(rows) + 1) + 8), width="stretch", row_height=_ROW, placeholder=UNKNOWN,
        column_config=_columns(), alt="The newest runs",
    )  # fmt: skip
    if found.rest:
        st.caption(f"{count(found.rest)} older runs are not shown.")


def _line(run: Row, changed: Changed | None) -> dict[str, object]:
    return {
        "run": widgets.address_of("runs", run=run["run_id"]),
        "state": f"{palette.STATUS_SHAPES.get(run['status'], '')} {visible(run['status'])}".strip(),
        "as of": run["as_of"],
        "new": changed and changed.number("opened"),
        "back": changed and changed.number("reopened"),
        "of these": (changed and _severities(changed, "opened", "reopened")) or None,
        "resolved": changed and changed.number("resolved"),
        "took": _took(run),
        "tables": f"{count(run['tables_audited'])} of {count(run['tables_expected'])}",
        "why not complete": visible(_why(run)),
    }


def _severities(changed: Changed, *transitions: str) -> str:
    return ", ".join(
        f"{count(number)} {visible(severity)}"
        for severity, number in changed.by_severity(*transitions).items()
    )


def _took(run: Row) -> str:
    if run["finished_at"] and run["started_at"]:
        return duration(run["finished_at"] - run["started_at"])
    return "not finished"


def _why(run: Row) -> str:
    """Why a run is not complete, in the words it left; empty where it is."""
    rejected = sum(source["rejected"] or 0 for source in run["sources"] or ())
    told = [run["error"]] if run["error"] else []
    told += [f"{widgets.number(rejected, 'row')} could not be read"] if rejected else []
    told += [gate.removeprefix("gate ") for gate in run["gates"] or ()]
    return "; ".join(told) or (
        "some tables not judged whole: see the run" if run["status"] == "partial" else ""
    )


def _columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "run": column.LinkColumn("run", display_text=r"run=(.*)$", width=190, pinned=True),
        "state": column.TextColumn("state", width=86),
        "as of": column.DatetimeColumn("as of", width=100, format="distance", timezone="UTC"),
        "new": column.NumberColumn("new", width=58, format="localized", help="found for the first time"),
        "back": column.NumberColumn(
            "back", width=58, format="localized", help="reopened: resolved before, and broken again"
        ),
        "of these": column.TextColumn("of these", width=250),
        "resolved": column.NumberColumn("resolved", width=70, format="localized"),
        "took": column.TextColumn("took", width=66),
        "tables": column.TextColumn("tables", width=104),
        "why not complete": column.TextColumn("why not complete", width="large"),
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


def _run(desk: Desk, address: widgets.Address, one: RunFigures) -> None:
    run = one.run
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header(widgets.prose(run["run_id"]), anchor=False, width="content")
        st.markdown(_status(run), width="content")
    widgets.plain(f"{age(run['as_of'], desk.now)} ago \u00b7 {_about(run)}")
    if run["status"] in PUBLISHED:
        widgets.plain(_found(one.changed))
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
    found = [table for table in one.tables if not standings or STANDINGS[table.standing] in standings]
    _covered(found)


def _found(changed: Changed | None) -> str:
    """What the run changed in the ledger, in a sentence."""
    if changed is None:
        return "What it changed in the ledger was not recorded."
    told = [
        f"{count(changed.number(name))} {words} ({_severities(changed, name)})"
        for name, words in _TRANSITIONS.items()
        if changed.number(name)
    ]
    told += [f"{count(changed.number('resolved'))} resolved"] if changed.number("resolved") else []
    return f"In the ledger: {', '.join(told)}." if told else "It changed nothing in the ledger."


_TRANSITIONS = {"opened": "new", "reopened": "back again", "escalated": "worse"}


def _sources(run: Row) -> None:
    widgets.section("Sources")
    rows = [
        (
            f"{widgets.prose(source['role'] or UNKNOWN)} {widgets.prose(source['kind'] or UNKNOWN)}",
            widgets.literal(source["location"]),
            count(source["rows"]),
            count(source["rejected"]),
            _cut(source),
        )
        for source in run["sources"] or ()
    ]
    if rows:
        widgets.grid(
            ("source", "place", "rows", "rejected", "taken"),
            rows,
            alt="Sources of the run",
            numbers=("rows", "rejected"),
        )
    else:
        st.caption("No source was read.")


def _cut(source: Row) -> str:
    start, end = source["cut_from"], source["cut_to"]
    if start is None or end is None or start == end:
        return second(start or end)
    return f"{second(start)}, over {duration(end - start)}"


def _covered(tables: Sequence[Judged]) -> None:
    """A row a table; what is so of most of them is said once above."""
    common = _common(tables)
    if common:
        told = "; ".join(f"of {count(number)} {reason}" for reason, number in common.items())
        widgets.plain(f"{widgets.number(len(tables), 'table')}: {told}.")
    axes = [axis for axis in AXES if any(_differs(table, axis) for table in tables)]
    rows = [_judged(table, axes, common) for table in tables]
    shares = {axis_words(axis): st.column_config.TextColumn(axis_words(axis), width=96) for axis in axes}
    st.dataframe(
        pd.DataFrame(rows), hide_index=True, height=min(_MOST, _ROW * (len(rows) + 1) + 8), width="stretch",
        row_height=_ROW, placeholder=UNKNOWN, column_config=_table_columns() | shares,
        alt="What could be judged, the least first",
    )  # fmt: skip


def _differs(table: Judged, axis: str) -> bool:
    """Whether it was not judged whole, where it was asked about; what is whole of every table is no column."""
    return axis in table.cells and table.cells[axis].state not in ("off", "empty", "whole")


def _said(table: Judged, axis: str) -> str:
    """How much of an axis was judged; a dash where it is off or of no file."""
    cell = table.cells.get(axis)
    return _SHORT.get(cell.state, cell.extent) if cell else UNKNOWN


def _common(tables: Sequence[Judged]) -> dict[str, int]:
    """Reasons that most tables share."""
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
        **{axis_words(axis): _said(table, axis) for axis in axes},
        "evidence up to": table.evidence_up_to,
    }


def _own(table: Judged, common: Container[str]) -> list[str]:
    """Why it was not judged whole; where no reason was recorded, of what how much."""
    partly = [cell for axis, cell in table.cells.items() if _differs(table, axis)]
    told = [cell.reason or f"{axis_words(cell.axis)} {cell.extent}" for cell in partly]
    return [reason for reason in dict.fromkeys(told) if reason not in common]


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
