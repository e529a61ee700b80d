"""Queries the sources about one file when a button is pressed; no other module of the dashboard reads the lake."""

import re

import streamlit as st

from lakeaudit.config import Lake, glob_to_regex
from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.session import PageSession
from lakeaudit.explain.explanation import explain_file
from lakeaudit.explain.source_answers import SourceAnswer
from lakeaudit.keys import identify
from lakeaudit.runtime.connections.endpoints import clients_of


def ask_now(session: PageSession, uri: str, *, known: bool) -> None:
    """Show a button and, once pressed, the answers of the sources; only for files of this lake or its results."""
    widgets.section("Current answers of the sources")
    if not known and not is_own(session.lake, *(identify(uri) or ("", ""))):
        st.caption(
            "It is outside this lake, so no source is queried here; `lakeaudit explain` works for any file."
        )
        return
    st.caption(
        "Queries storage and a live metadata store about this one file: a few requests, which change nothing."
    )
    deep = st.checkbox("Also read the table's manifests")
    if st.button("Ask now"):
        with st.spinner("Asking"):
            explanation = explain_file(
                session.lake, session.results.again(), clients_of(session.lake), uri, deep=deep
            )
        for answer in explanation.sources:
            _show_answer(answer)


def is_own(lake: Lake, bucket: str, key: str) -> bool:
    """Return whether a file is in a location of the lake file: visitors must not query other locations."""
    discovered = [place for by in lake.discoveries for place in getattr(by, "under", ())]
    covered = [place for source in lake.inventories for place in getattr(source, "covers", None) or ()]
    places = [*(table.location for table in lake.tables), *discovered, *covered]
    return any(
        key.startswith(place.prefix) and re.fullmatch(glob_to_regex(place.bucket), bucket) for place in places
    )


_ANSWERS = {"present": "green", "absent": "red", "deleted": "red"}


def _show_answer(answer: SourceAnswer) -> None:
    colour = _ANSWERS.get(answer.answer, "gray")
    words = answer.answer.replace("_", " ")
    with st.container(border=True, gap="xsmall"):
        st.markdown(f"{widgets.prose(answer.source)} :{colour}-badge[{words}]")
        if answer.reason:
            widgets.plain(answer.reason)
        for line in answer.lines:
            widgets.plain(line)
