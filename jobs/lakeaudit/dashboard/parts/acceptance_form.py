"""Shows the form with which a visitor accepts a discrepancy, or ends its acceptance."""

from datetime import date, timedelta

import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.acceptance import Change, Request, installed
from lakeaudit.dashboard.session import PageSession
from lakeaudit.results.read import Row

DAYS, MOST = 30, 366
"""Days from today: the suggestion, and the longest acceptance."""


def show(session: PageSession, row: Row) -> None:
    """Show the form if visitors may change something, and the discrepancy is open or pending."""
    change = installed()
    if change is None or row["state"] == "resolved":
        return
    accepted = row["ack_until"] and row["ack_until"] > session.now
    form = _end if accepted else _accept
    with st.expander("End the acceptance" if accepted else "Accept this discrepancy"):
        request = form(session, row["discrepancy_id"])
        if request is not None:
            _apply(session, change, request)


def _accept(session: PageSession, discrepancy_id: str) -> Request | None:
    """Return the request once the form was sent."""
    st.caption(
        "Until the end of the day it affects no exit code and causes no alert. If it gets worse, the acceptance ends."
    )
    with st.form(f"acceptance/{discrepancy_id}", border=False):
        by = st.text_input("Your name", max_chars=100, key=f"by/{discrepancy_id}").strip()
        reason = st.text_input("Reason", max_chars=500, key=f"reason/{discrepancy_id}").strip()
        until = _last_day(session.now.date(), discrepancy_id)
        if not st.form_submit_button("Accept"):
            return None
    if not by or not reason:
        widgets.failure("your name or the reason is missing", "write both")
        return None
    return Request(discrepancy_id, by, reason, until)


def _end(_: PageSession, discrepancy_id: str) -> Request | None:
    """Return the request once the button was pressed."""
    st.caption("Then the discrepancy counts again for exit codes and alerts.")
    pressed = st.button("End the acceptance", key=f"end/{discrepancy_id}")
    return Request(discrepancy_id) if pressed else None


def _last_day(today: date, discrepancy_id: str) -> date:
    last: date = st.date_input(
        "Until the end of", today + timedelta(days=DAYS), min_value=today, max_value=today + timedelta(days=MOST),
        format="YYYY-MM-DD", key=f"until/{discrepancy_id}",
    )  # fmt: skip
    return last


def _apply(session: PageSession, change: Change, request: Request) -> None:
    with widgets.show_failures():
        change(session.lake, session.results.again(), request, session.now)
        session.forget_versions()
        st.rerun()
