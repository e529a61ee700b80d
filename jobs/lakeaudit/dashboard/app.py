"""Entry point for Streamlit, as `app.py LAKE...`: builds the pages, opens a session and shows the requested page."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from lakeaudit.advice.command_place import place_of_commands
from lakeaudit.dashboard import markup, widgets
from lakeaudit.dashboard.pages import file_page, lake_page, lakes_page, plans_page, runs_page, table_page
from lakeaudit.dashboard.served_lakes import ServedLake, is_several, served_lakes
from lakeaudit.dashboard.session import PageSession, lake_of, page_session
from lakeaudit.errors import AuditError
from lakeaudit.runtime.extras import explain_missing

if TYPE_CHECKING:
    from lakeaudit.alerts.metrics import LakeSamples

PAGES: dict[str, tuple[str, Callable[[PageSession], None]]] = {
    "lake": ("The lake", lake_page.show),
    "table": ("A table", table_page.show),
    "file": ("A file", file_page.show),
    "runs": ("Runs", runs_page.show),
    "plans": ("Plans and notices", plans_page.show),
}
LAKES = "lakes"
"""The start page of a dashboard of several lakes."""


def main(places: Sequence[str], first: str | None = None) -> None:
    """Run the page that the browser requested.

    Args:
        places: lake files, and folders of lake files.
        first: the page without a name in its address; default: the lake, or all lakes if there may be several.
    """
    st.set_page_config(page_title="lakeaudit", layout="wide")
    st.html(markup.STYLE)
    first = first or (LAKES if is_several(places) else "lake")
    pages = st.session_state[widgets.PAGES] = _pages(places, first)
    title, show = _page_functions(places)[first]
    named = st.Page(show, title=title, url_path=first, visibility="hidden")
    st.navigation([*pages.values(), named], position="top").run()


def _pages(places: Sequence[str], first: str) -> dict[str, st.Page]:
    """Return the pages by name. For Streamlit the first page has no name, so `main` adds a hidden one with its name."""
    return {
        name: st.Page(show, title=title, url_path="" if name == first else name, default=name == first)
        for name, (title, show) in _page_functions(places).items()
    }


def _page_functions(places: Sequence[str]) -> dict[str, tuple[str, Callable[[], None]]]:
    """Return title and function of each page by name."""
    if not is_several(places):
        return {name: (title, partial(_show, show, places[0])) for name, (title, show) in PAGES.items()}
    of_one = {name: (title, partial(_show_one, name, places)) for name, (title, _) in PAGES.items()}
    return {LAKES: ("All lakes", partial(_show_all, places)), **of_one}


def _show(show: Callable[[PageSession], None], lake_file: str) -> None:
    with widgets.show_failures():
        session = page_session(lake_file, datetime.now(UTC))
        requested = st.query_params.get("lake")
        if requested not in (None, session.lake.name):
            other = widgets.shortened(requested or "", 100)
            widgets.failure(
                f"this dashboard shows the lake {session.lake.name}, and the address names {other}",
                f"start a dashboard of {other}, or remove `lake` from the address",
            )
            return
        show(session)
        _place(session)


def _place(session: PageSession) -> None:
    """Show where the results are, and where the page's commands can be run."""
    place = widgets.literal(session.results.place.uri)
    st.caption(f"Results of {widgets.literal(session.lake.name)}: {place}.")
    if sentence := place_of_commands(session.lake_file):
        widgets.plain(sentence)


def _show_all(places: Sequence[str]) -> None:
    """Show the start page, or the lake that its address names."""
    if "lake" in st.query_params:
        _show_one("lake", places)
        return
    with widgets.show_failures():
        now = datetime.now(UTC)
        lakes_page.show([_state(each, now) for each in served_lakes(places, lake_of)])


def _state(lake: ServedLake, now: datetime) -> lakes_page.LakeState:
    try:
        session = None if lake.problem else page_session(lake.lake_file, now)
    except AuditError as error:
        return lakes_page.LakeState(lake.name, problem=str(error))
    return lakes_page.state_of(lake, session)


def _show_one(page: str, places: Sequence[str]) -> None:
    """Show a page of the lake that the address names, else of the lake that this visitor has opened last."""
    with widgets.show_failures():
        lakes = served_lakes(places, lake_of)
        requested = st.query_params.get("lake") or st.session_state.get(widgets.LAKE)
        chosen = next((each for each in lakes if each.name == requested), None)
        if chosen is None:
            lakes_page.choose(page, lakes, requested)
            return
        if chosen.problem:
            widgets.failure(f"{chosen.lake_file}: {chosen.problem}", "correct the lake file, then reload")
            return
        st.session_state[widgets.LAKE] = chosen.name
        if st.query_params.get("lake") != chosen.name:
            st.query_params["lake"] = chosen.name
        if page != "lake":
            st.caption(f"Lake {widgets.literal(chosen.name)}")
        session = page_session(chosen.lake_file, datetime.now(UTC))
        PAGES[page][1](session)
        _place(session)


def rehearse(places: Sequence[str]) -> None:
    """Run every page once without a visitor, to import modules and to fill caches. Errors are ignored here."""
    st.session_state[widgets.PAGES] = _pages(places, "lake")
    for lake in served_lakes(places, lake_of):
        for _, show in PAGES.values():
            with suppress(Exception):
                show(page_session(lake.lake_file, datetime.now(UTC)))


def current_metrics(places: Sequence[str]) -> bytes:
    """Return the metrics of the newest results; they are computed once while the results do not change.

    A lake among several that cannot be read has the sample `lakeaudit_results_readable` 0 and no other.

    Raises:
        BadInput: the lake file cannot be used.
        CannotAudit: the results cannot be read, or the client library is not installed.
    """
    try:
        from lakeaudit.alerts.metrics import LakeSamples, metrics_text
    except ModuleNotFoundError as error:
        raise explain_missing(error) or error from error
    if not is_several(places):
        return metrics_text([_samples(places[0])])
    read: list[LakeSamples] = []
    for lake in served_lakes(places, lake_of):
        try:
            read.append(_samples(lake.lake_file))
        except AuditError:
            read.append(LakeSamples(lake.name, None))
    return metrics_text(read, readable=True)


def _samples(lake_file: str) -> "LakeSamples":
    from lakeaudit.alerts.metrics import LakeSamples
    from lakeaudit.alerts.samples import samples

    session = page_session(lake_file, datetime.now(UTC))
    of_lake = session.load(("metrics",), lambda: [*samples(session.results, session.lake, session.now)])
    return LakeSamples(session.lake.name, of_lake)


if __name__ == "__main__":
    main(sys.argv[1:])
