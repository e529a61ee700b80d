"""Acceptances that end: a discrepancy counts again and is reported once. Rounds over real results."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.alerts.dispatch import round_of
from lakeaudit.alerts.notice_rows import AlertContext
from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.results.read import Results, Row
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.catcher import Catcher, catching
from tests.builders.results import LAKE, NOON, discrepancy, finding, lake_file, publish, run, transition

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
LOST = finding("dropped", "orders/part-0")
OTHER = finding("stale_pointer", "orders/metadata", axis="pointer", severity="error")


@dataclass
class Lake:
    """A lake of one table with one receiver."""

    folder: Path
    caught: Catcher

    def __post_init__(self) -> None:
        self.place = Location.parse(str(self.folder / "results"))
        self.file = lake_file(self.folder, self.place, alerts=[{"kind": "apprise", "url_env": "TO"}])

    def ledger(self, *rows: Row) -> None:
        """Replace the ledger."""
        shutil.rmtree(Path(self.place.join("discrepancies").spark_path), ignore_errors=True)
        publish(self.place, discrepancies=rows)

    def audit(self, day: int, **tables: Any) -> None:
        publish(self.place, runs=[run(f"r{day}", finished_at=NOON + day * DAY)], **tables)

    def round(self, day: float) -> list[str]:
        """Send what is due some minutes after an audit; return the messages."""
        before = len(self.caught.posts)
        lake, results = load_lake(self.file, {}), Results(self.place, Clients(), LAKE)
        env = {"TO": f"json://127.0.0.1:{self.caught.port}/"}
        round_of(AlertContext(lake, "lake.yaml", results, Clients(), env, NOON + day * DAY + MINUTE))
        return [f"{post['title']}\n{post['message']}" for post in self.caught.posts[before:]]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with catching() as caught:
        made = Lake(tmp_path, caught)
        made.ledger(discrepancy(LOST))
        made.audit(0, transitions=[transition(LOST, "opened", run_id="r0")])
        assert len(made.round(0)) == 1
        made.ledger(discrepancy(LOST, ack_until=NOON + 5 * DAY))
        yield made


def test_the_end_of_an_acceptance_is_reported_by_the_next_audit_once(lake: Lake) -> None:
    for day in range(1, 5):
        lake.audit(day)
        assert lake.round(day) == []
    lake.audit(6)
    (message,) = lake.round(6)
    assert message.splitlines()[0] == "lakeaudit shop: CRITICAL: 1 file dropped in orders"
    assert "1 file dropped (critical), no longer accepted: the table lists the file" in message
    lake.audit(7)
    assert [lake.round(7), lake.round(7.1)] == [[], []]


def test_it_is_reported_without_an_audit_and_so_is_the_next_end(lake: Lake) -> None:
    (message,) = lake.round(5)
    assert "no longer accepted" in message
    assert lake.round(5.5) == []
    lake.ledger(discrepancy(LOST, ack_until=NOON + 8 * DAY))
    assert lake.round(6) == []
    assert len(lake.round(8)) == 1


def test_it_is_in_one_message_with_the_changes_of_the_audit(lake: Lake) -> None:
    lake.ledger(discrepancy(LOST, ack_until=NOON + 5 * DAY), discrepancy(OTHER, last_run_id="r6"))
    lake.audit(6, transitions=[transition(OTHER, "opened", run_id="r6", transition_id="t6")])
    (message,) = lake.round(6)
    assert message.splitlines()[0] == "lakeaudit shop: CRITICAL: 1 file dropped and 1 less severe in orders"
    assert "1 stale pointer (error), new" in message
    assert "Earlier notice" not in message


@pytest.mark.parametrize(
    "ledger",
    [
        pytest.param(discrepancy(LOST, ack_until=NOON + 99 * DAY), id="accepted again"),
        pytest.param(discrepancy(LOST, "resolved", ack_until=NOON + 5 * DAY), id="resolved meanwhile"),
        pytest.param(discrepancy(LOST, ack_until=NOON - DAY), id="ended before the first message"),
    ],
)
def test_no_message_without_an_end(lake: Lake, ledger: Row) -> None:
    lake.ledger(ledger)
    lake.audit(6)
    assert lake.round(6) == []
