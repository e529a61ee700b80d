"""The runs: how each went, what it read, and what one of them could decide."""

from collections.abc import Iterator

import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries import runs as figures
from lakeaudit.dashboard.queries.runs import RunFigures
from lakeaudit.dashboard.session import Desk
from lakeaudit.dashboard.table_page import decided
from lakeaudit.formatting import UNKNOWN, count, duration, second
from lakeaudit.kinds import axis_words
from lakeaudit.report.coverage_view import STANDINGS, Judged
from lakeaudit.report.summary import table_label
from lakeaudit.results.read import PUBLISHED, Row

SHOWN = 100
"""Tables of a run on a page."""
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
            _run(address, one)
        return
    with st.container(gap="xxsmall"):
        for run in found.shown:
            _line(run)
    if found.rest:
        st.caption(f"{count(found.rest)} older runs are not shown.")


def _line(run: Row) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        widgets.link("runs", f"**{widgets.prose(run['run_id'])}**", run=run["run_id"])
        st.markdown(_status(run), width="content")
        widgets.plain(_about(run))
    if run["error"]:
        widgets.plain(run["error"])


def _status(run: Row) -> str:
    mark = f":{COLOURS.get(run['status'], 'gray')}-badge[{run['status'] if run['status'] in COLOURS else 'unknown'}]"
    return mark if run["status"] in PUBLISHED else f"{mark} nothing published"


def _about(run: Row) -> str:
    took = "not finished"
    if run["finished_at"] and run["started_at"]:
        took = f"took {duration(run['finished_at'] - run['started_at'])}"
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


def _run(address: widgets.Address, one: RunFigures) -> None:
    run = one.run
    st.header(widgets.prose(run["run_id"]), anchor=False)
    st.markdown(_status(run))
    widgets.plain(_about(run))
    for gate in run["gates"] or ():
        widgets.plain(f"Failed: {gate}")
    if run["error"]:
        widgets.plain(run["error"])
    _sources(run)
    widgets.section("Coverage")
    if not one.tables:
        st.caption("Nothing could be judged: the run published no coverage.")
        return
    standings = address.several("decided", "Decided", list(STANDINGS.values()))
    found = [table for table in one.tables if not standings or STANDINGS[table.standing] in standings]
    page = address.pages("page", len(found), SHOWN)
    for table in found[SHOWN * (page - 1) : SHOWN * page]:
        _covered(table)


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
        widgets.grid(("source", "place", "rows", "rejected", "taken"), rows, alt="Sources of the run")
    else:
        st.caption("No source was read.")


def _cut(source: Row) -> str:
    start, end = source["cut_from"], source["cut_to"]
    if start is None or end is None or start == end:
        return second(start or end)
    return f"{second(start)}, over {duration(end - start)}"


def _covered(table: Judged) -> None:
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            widgets.link(
                "table",
                f"**{widgets.prose(widgets.shortened(table_label(table.name or None)))}**",
                table=table_label(table.name or None),
            )
            colour = "green" if table.standing == "whole" else "violet"
            st.markdown(f":{colour}-badge[{STANDINGS[table.standing]}]", width="content")
        for line in _axes(table):
            widgets.plain(line)


def _axes(table: Judged) -> Iterator[str]:
    told = [f"{axis_words(axis)} {decided(cell)}" for axis, cell in table.cells.items()]
    reaches = [f"evidence up to {second(table.evidence_up_to)}"] if table.evidence_up_to else []
    yield " · ".join([*told, *reaches])
    yield from dict.fromkeys(cell.reason for cell in table.cells.values() if cell.reason)
