"""Entry point for Streamlit, as `app.py LAKE`: builds the pages, opens a session and shows the requested page."""

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import streamlit as st

from lakeaudit.dashboard import markup, widgets
from lakeaudit.dashboard.pages import file_page, lake_page, plans_page, runs_page, table_page
from lakeaudit.dashboard.session import PageSession, page_session
from lakeaudit.runtime.extras import explain_missing

PAGES: dict[str, tuple[str, Callable[[PageSession], None]]] = {
    "lake": ("The lake", lake_page.show),
    "table": ("A table", table_page.show),
    "file": ("A file", file_page.show),
    "runs": ("Runs", runs_page.show),
    "plans": ("Plans and notices", plans_page.show),
}


def main(lake_file: str, first: str = "lake") -> None:
    """Run the page that the browser requested; `first` is the page without a name in its address."""
    st.set_page_config(page_title="lakeaudit", layout="wide")
    st.html(markup.STYLE)
    pages = st.session_state[widgets.PAGES] = _pages(lake_file, first)
    title, show = PAGES[first]
    named = st.Page(partial(_show, show, lake_file), title=title, url_path=first, visibility="hidden")
    st.navigation([*pages.values(), named], position="top").run()


def _pages(lake_file: str, first: str) -> dict[str, st.Page]:
    """Return the pages by name. For Streamlit the first page has no name, so `main` adds a hidden one with its name."""
    return {
        name: st.Page(
            partial(_show, show, lake_file),
            title=title,
            url_path="" if name == first else name,
            default=name == first,
        )
        for name, (title, show) in PAGES.items()
    }


def rehearse(lake_file: str) -> None:
    """Run every page once without a visitor, to import modules and to fill caches. Errors are ignored here."""
    st.session_state[widgets.PAGES] = _pages(lake_file, "lake")
    for _, show in PAGES.values():
        with suppress(Exception):
            show(page_session(lake_file, datetime.now(UTC)))


def current_metrics(lake_file: str) -> bytes:
    """Return the metrics of the newest results; they are computed once while the results do not change.

    Raises:
        BadInput: the lake file cannot be used.
        CannotAudit: the results cannot be read, or the client library is not installed.
    """
    try:
        from lakeaudit.alerts.metrics import metrics_text
    except ModuleNotFoundError as error:
        raise explain_missing(error) or error from error
    session = page_session(lake_file, datetime.now(UTC))
    return session.load(("metrics",), partial(metrics_text, session.results, session.lake, session.now))


def _show(show: Callable[[PageSession], None], lake_file: str) -> None:
    with widgets.show_failures():
        show(page_session(lake_file, datetime.now(UTC)))


if __name__ == "__main__":
    main(sys.argv[1])
