"""What Streamlit runs: `app.py LAKE`. Makes the pages, opens the desk and shows the page that is asked for."""

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import streamlit as st

from lakeaudit.dashboard import file_page, lake_page, looks, plans_page, runs_page, table_page, widgets
from lakeaudit.dashboard.session import Desk, desk

PAGES: dict[str, tuple[str, Callable[[Desk], None]]] = {
    "lake": ("The lake", lake_page.show),
    "table": ("A table", table_page.show),
    "file": ("A file", file_page.show),
    "runs": ("Runs", runs_page.show),
    "plans": ("Plans and notices", plans_page.show),
}


def main(lake_file: str, first: str = "lake") -> None:
    """One run of the page that the browser asks for; `first` is the one without a name in its address."""
    st.set_page_config(page_title="lakeaudit", layout="wide")
    st.html(looks.STYLE)
    pages = st.session_state[widgets.PAGES] = _pages(lake_file, first)
    title, show = PAGES[first]
    named = st.Page(partial(_show, show, lake_file), title=title, url_path=first, visibility="hidden")
    st.navigation([*pages.values(), named], position="top").run()


def _pages(lake_file: str, first: str) -> dict[str, st.Page]:
    """The first has no name of its own to Streamlit, so that who types it is led there by another one."""
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
    """Show every page to nobody: what they load and ask, no visitor waits for. What is wrong the pages tell."""
    st.session_state[widgets.PAGES] = _pages(lake_file, "lake")
    for _, show in PAGES.values():
        with suppress(Exception):
            show(desk(lake_file, datetime.now(UTC)))


def _show(show: Callable[[Desk], None], lake_file: str) -> None:
    with widgets.told():
        show(desk(lake_file, datetime.now(UTC)))


if __name__ == "__main__":
    main(sys.argv[1])
