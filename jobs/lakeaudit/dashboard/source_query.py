"""What the sources say of a file now: the one place of the dashboard that touches the lake, when it is asked to."""

import re

import streamlit as st

from lakeaudit.config import Lake, glob_to_regex
from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.session import Desk
from lakeaudit.explain.explanation import explain_file
from lakeaudit.explain.source_answers import Said
from lakeaudit.keys import identify
from lakeaudit.runtime.endpoints import clients_of


def ask_now(desk: Desk, uri: str, *, known: bool) -> None:
    """A button; what the sources answer once it was pressed. Only of what the results know or the lake file names."""
    widgets.section("What the sources say now")
    if not known and not is_own(desk.lake, *(identify(uri) or ("", ""))):
        st.caption(
            "It lies in no place of this lake, so nothing is asked; `lakeaudit explain` asks of any file."
        )
        return
    st.caption(
        "Asks storage and a live metadata store about this one file: a few requests, and nothing is changed."
    )
    deep = st.checkbox("Also read the table's manifests")
    if st.button("Ask now"):
        with st.spinner("Asking"):
            told = explain_file(desk.lake, desk.results.again(), clients_of(desk.lake), uri, deep=deep)
        for said in told.sources:
            _said(said)


def is_own(lake: Lake, bucket: str, key: str) -> bool:
    """Whether a file lies in a place that the lake file names: whoever reaches the page may ask of no other."""
    found = [place for by in lake.discoveries for place in getattr(by, "under", ())]
    covered = [place for source in lake.inventories for place in getattr(source, "covers", None) or ()]
    places = [*(table.location for table in lake.tables), *found, *covered]
    return any(
        key.startswith(place.prefix) and re.fullmatch(glob_to_regex(place.bucket), bucket) for place in places
    )


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
