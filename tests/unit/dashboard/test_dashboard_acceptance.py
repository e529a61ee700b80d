"""A visitor accepts a discrepancy and ends the acceptance: only behind a token, with a name and a reason."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import streamlit as st

from lakeaudit.commands import dashboard as command
from lakeaudit.commands.dashboard import change_ledger
from lakeaudit.dashboard import acceptance
from lakeaudit.keys import Location
from lakeaudit.results.read import Results, Row
from lakeaudit.results.sql import ask
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.pagedata import HOSTILE
from tests.builders.results import LAKE, covered, discrepancy, finding, publish, run
from tests.unit.dashboard.test_dashboard import page, page_text

if TYPE_CHECKING:
    from lakeaudit.dashboard.serve import Where

AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
ID = "d-orders/a"
TODAY = datetime.now(UTC).date()


@pytest.fixture(autouse=True)
def behind_a_token(place: Location) -> Iterator[None]:
    row = finding("dropped", "orders/a")
    publish(place, runs=[run(as_of=AT, started_at=AT, finished_at=AT)], coverage=[covered()], findings=[row],
            discrepancies=[discrepancy(row)])  # fmt: skip
    acceptance.install(change_ledger)
    yield
    acceptance.install(None)
    st.cache_data.clear()
    st.cache_resource.clear()


def ledger(place: Location) -> Row:
    (row,) = ask(Results(place, Clients(), LAKE), "SELECT * FROM discrepancies", "discrepancies")
    return row


def reasons(place: Location) -> list[str]:
    rows = ask(Results(place, Clients(), LAKE), "SELECT reason FROM transitions", "transitions")
    return [row["reason"] for row in rows]


def accept(lake: str, by: str, reason: str, days: int = 9) -> Any:
    driver = page(lake, "file", id=ID)
    driver.text_input(key=f"by/{ID}").input(by)
    driver.text_input(key=f"reason/{ID}").input(reason)
    driver.date_input(key=f"until/{ID}").set_value(TODAY + timedelta(days=days))
    (button,) = [each for each in driver.button if each.label == "Accept"]
    return button.click().run()


@pytest.mark.parametrize("text", ["restored by hand", HOSTILE[0], HOSTILE[8]])
def test_accept_and_end_the_acceptance(lake: str, place: Location, text: str) -> None:
    driver = accept(lake, f"ann {text}", text)
    assert not driver.exception
    row = ledger(place)
    assert (row["ack_by"], row["ack_reason"]) == (f"ann {text}", text)
    assert row["ack_until"].date() == TODAY + timedelta(days=10), "until the end of the day"
    assert reasons(place) == [f"ann {text} accepts it: {text}"]
    assert "Accepted by ann" in page_text(driver), "the page shows it at once"
    assert ":gray-badge[accepted]" in page_text(driver)

    driver.button(key=f"end/{ID}").click().run()
    assert not driver.exception
    assert ledger(place)["ack_until"] is None
    assert "Accept this discrepancy" in page_text(driver)


@pytest.mark.parametrize(("by", "reason"), [("", "why"), ("ann", ""), ("  ", "why"), ("ann", " \t")])
def test_without_a_name_or_a_reason_nothing_is_accepted(
    lake: str, place: Location, by: str, reason: str
) -> None:
    driver = accept(lake, by, reason)
    assert "your name or the reason is missing" in page_text(driver)
    assert ledger(place)["ack_until"] is None


def test_a_discrepancy_that_an_audit_resolved_meanwhile_is_not_accepted(lake: str, place: Location) -> None:
    driver = page(lake, "file", id=ID)
    driver.text_input(key=f"by/{ID}").input("ann")
    driver.text_input(key=f"reason/{ID}").input("why")
    acceptance.install(lambda lake, results, request, now: change_ledger(
        lake, results, acceptance.Request("d-orders/other", request.by, request.reason, request.until), now
    ))  # fmt: skip
    (button,) = [each for each in driver.button if each.label == "Accept"]
    text = page_text(button.click().run())
    assert "matches no discrepancy that is pending or open" in text
    assert ledger(place)["ack_until"] is None


def test_a_server_without_a_token_has_no_form(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Where] = []
    monkeypatch.setattr("lakeaudit.dashboard.serve.bootstrap", Bootstrap())
    monkeypatch.setattr("lakeaudit.dashboard.serve._install_gate", lambda where, _: started.append(where))
    monkeypatch.setattr("lakeaudit.dashboard.serve._wait", lambda *_: None)
    monkeypatch.setattr("lakeaudit.dashboard.serve._keep_warm", lambda *_: None)
    for host, has_form in (("127.0.0.1", False), ("0.0.0.0", True)):
        command.run(lake, host, None, lambda _: None, env={command.TOKEN_VARIABLE: "secret"})
        assert bool(started[-1].token) is has_form
        st.cache_resource.clear()
        text = page_text(page(lake, "file", id=ID))
        assert ("Accept this discrepancy" in text) is has_form
        assert "First seen" in text


class Bootstrap:
    """Starts no server."""

    def load_config_options(self, flags: object) -> None: ...
    def run(self, *_: object) -> None: ...


def test_a_resolved_discrepancy_has_no_form(lake: str, place: Location) -> None:
    over = finding("dropped", "orders/over")
    publish(place, discrepancies=[discrepancy(over, "resolved", resolved_at=AT, resolution="restored")])
    text = page_text(page(lake, "file", id="d-orders/over"))
    assert "Accept this discrepancy" not in text
