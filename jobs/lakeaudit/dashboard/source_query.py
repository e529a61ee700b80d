"""What the sources say of a file now: the one place of the dashboard that touches the lake, when it is asked to."""

import streamlit as st

from lakeaudit.commands.ask_sources import Said
from lakeaudit.commands.explanation import explain_file
from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.session import Desk
from lakeaudit.runtime.endpoints import clients_of


def ask_now(desk: Desk, uri: str) -> None:
    """A button; what the sources answer once it was pressed."""
    widgets.section("What the sources say now")
    st.caption(
        "Asks storage and a live metadata store about this one file: a few requests, and nothing is changed."
    )
    deep = st.checkbox("Also read the table's manifests")
    if st.button("Ask now"):
        with st.spinner("Asking"):
            told = explain_file(desk.lake, desk.results.again(), clients_of(desk.lake), uri, deep=deep)
        for said in told.sources:
            _said(said)


_ANSWERS = {"present": "green", "absent": "red", "deleted": "red"}


def _said(said: Said) -> None:
    colour = _ANSWERS.get(said.answer, "gray")
    answer = said.answer.replace("_", " ")
    with st.container(border=True, gap="xsmall"):
        st.markdown(f"{widgets.prose(said.source)} :{colour}-badge[{answer}]")
        if said.reason:
            widgets.plain(said.reason)
        for line in said.lines:
            widgets.plain(line)
