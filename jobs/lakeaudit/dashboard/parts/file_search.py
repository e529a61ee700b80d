"""Finds files and groups by a part of their name, and lists the worst discrepancies of the lake."""

import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.parts import discrepancy_lines
from lakeaudit.dashboard.parts.table_lines import OPEN_FOR
from lakeaudit.dashboard.queries.table import Listed
from lakeaudit.dashboard.queries.worst import worst_discrepancies
from lakeaudit.dashboard.session import PageSession
from lakeaudit.formatting import count


def field(address: widgets.Address) -> None:
    """Show the field for the address of a file or a part of its name."""
    address.typed(
        "uri", "File, or a part of its name", help="s3://bucket/key, a local path, or any part of them"
    )


def worst(session: PageSession) -> None:
    """Show the worst open discrepancies of the lake."""
    found = session.load(("worst",), lambda: worst_discrepancies(session.results, session.now))
    st.caption(
        f"{widgets.discrepancies(found.total)} open in the lake{_first(found)}." if found.total
        else "No discrepancy is open."
    )  # fmt: skip
    _list(found)


def _list(found: Listed) -> None:
    discrepancy_lines.show(found.rows, with_table=True)
    if found.rows:
        st.caption(OPEN_FOR)


def _first(listed: Listed) -> str:
    return f"; the worst {count(len(listed.rows))}" if listed.total > len(listed.rows) else ""


def matches(session: PageSession, like: str) -> None:
    """Show the discrepancies whose file, group or table has this text in its name."""
    st.title("A file", anchor=False)
    found = session.load(("named", like), lambda: worst_discrepancies(session.results, session.now, like))
    if not found.total:
        widgets.failure(
            f"no discrepancy has {widgets.shortened(like, 200)} in its name",
            "write the whole address of a file without one: s3://bucket/key, or a local path from the root",
        )
        return
    st.caption(f"{widgets.discrepancies(found.total)} with this text, open ones first{_first(found)}.")
    _list(found)
