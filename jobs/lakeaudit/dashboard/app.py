"""What Streamlit runs: `app.py LAKE`. Makes the pages, opens the desk and shows the page that is asked for."""

import sys
from collections.abc import Callable
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
    pages = {
        name: st.Page(partial(_show, show, lake_file), title=title, url_path=name, default=name == first)
        for name, (title, show) in PAGES.items()
    }
    st.session_state[widgets.PAGES] = pages
    st.navigation([*pages.values()], position="top").run()


def _show(show: Callable[[Desk], None], lake_file: str) -> None:
    with widgets.told():
        show(desk(lake_file, datetime.now(UTC)))


if __name__ == "__main__":
    main(sys.argv[1])
