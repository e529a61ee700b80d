"""Shows what is wrong with the audit and not with the lake."""

from collections.abc import Sequence

import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.audit_health import outdated
from lakeaudit.dashboard.session import PageSession


def show(sentences: Sequence[str]) -> None:
    """Show a line for each sentence."""
    with st.container(gap="xxsmall"):
        for sentence in sentences:
            st.markdown(f":red-badge[audit] {widgets.prose(sentence)}")


def show_of_runs(session: PageSession) -> None:
    """Show that the last audit failed or is overdue: the page may be out of date."""
    runs = session.load(("audit runs",), session.results.runs)
    show(outdated(runs, session.lake.overdue, session.now))
