"""The history of a table: its period, the times to detect and to resolve, and the audits of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeaudit.dashboard.queries.history import Duration, Period, audits_of, first_day, kind_times
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.results import LAKE, NOON, covered, discrepancy, finding, publish, run, transition
from tests.unit.dashboard.test_dashboard import page, page_text

Row = dict[str, Any]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
PERIOD = Period(NOON.date() - 9 * DAY, NOON.date())


pytestmark = pytest.mark.usefixtures("nothing_remembered")


@pytest.fixture
def results(place: Location) -> Results:
    return Results(place, Clients(), LAKE)


def ledger(
    name: str, opened: datetime, cause: datetime | None = None, resolved: datetime | None = None, **given: Any
) -> Row:
    of = finding(given.pop("kind", "dropped"), f"orders/{name}", cause_at=cause, **given)
    return discrepancy(of, "resolved" if resolved else "open", opened_at=opened, resolved_at=resolved)


# name, rows of the ledger: time to detect, time to resolve
TIMES: list[tuple[str, list[Row], Duration, Duration]] = [
    ("one, of known cause, still open", [ledger("a", NOON, NOON - HOUR)], Duration(HOUR, HOUR, 1), Duration()),
    ("one, of unknown cause", [ledger("a", NOON)], Duration(unknown=1), Duration()),
    ("a cause after the audit is not the cause of it", [ledger("a", NOON, NOON + HOUR)], Duration(unknown=1),
     Duration()),
    ("three, one of unknown cause, two resolved",
     [ledger("a", NOON, NOON - HOUR), ledger("b", NOON - DAY, NOON - DAY - 3 * HOUR, NOON),
      ledger("c", NOON - DAY, None, NOON + 2 * HOUR)],
     Duration(2 * HOUR, 3 * HOUR, 2, 1), Duration(25 * HOUR, 26 * HOUR, 2)),
    ("opened before the period, resolved in it", [ledger("a", NOON - 30 * DAY, NOON - 31 * DAY, NOON)], Duration(),
     Duration(30 * DAY, 30 * DAY, 1)),
    ("at the first and after the last moment of the period",
     [ledger("a", PERIOD.begin, PERIOD.begin - HOUR), ledger("b", PERIOD.end, PERIOD.begin)],
     Duration(HOUR, HOUR, 1), Duration()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "detect", "resolve"), [row[1:] for row in TIMES], ids=[row[0] for row in TIMES]
)
def test_times(
    place: Location, results: Results, rows: list[Row], detect: Duration, resolve: Duration
) -> None:
    publish(place, discrepancies=[*rows, ledger("other", NOON, NOON - DAY, table_name="other")])
    (times,) = kind_times(results, "orders", PERIOD)
    assert (times.kind, times.severity, times.detect, times.resolve) == (
        "dropped",
        "critical",
        detect,
        resolve,
    )


def test_kinds_come_worst_first_and_pending_ones_have_no_time(place: Location, results: Results) -> None:
    pending = ledger("p", NOON) | {"state": "pending", "opened_at": None}
    publish(place, discrepancies=[ledger("a", NOON, kind="unvacuumed"), ledger("b", NOON), pending])
    assert [each.kind for each in kind_times(results, "orders", PERIOD)] == ["dropped", "unvacuumed"]
    assert kind_times(results, "nobody's", PERIOD) == ()


def test_audits_of_a_table(place: Location, results: Results) -> None:
    """Newest first; runs that published nothing, other tables and other days do not count."""
    part: Row = {
        "consistent": 7,
        "undecided": 3,
        "status": "partial",
        "decided_share": 0.7,
        "reason": "a gap",
    }
    ages = {"r1": 0, "r2": 1, "r3": 2, "old": 10}
    publish(
        place,
        runs=[
            run(name, "failed" if name == "r2" else "complete", as_of=NOON - age * DAY)
            for name, age in ages.items()
        ],
        coverage=[
            *(covered(run_id=name) for name in ("r1", "r2", "old")), covered(run_id="r3", **part),
            covered(run_id="r3", axis="leftover"), covered("other", run_id="r1"),
        ],
    )  # fmt: skip
    audits = audits_of(results, "orders", PERIOD)
    assert [(each.run_id, each.judged.standing) for each in audits] == [("r1", "whole"), ("r3", "part")]
    assert first_day(results, NOON) == NOON.date() - 10 * DAY


def test_without_runs_the_history_begins_today(results: Results) -> None:
    assert first_day(results, NOON) == NOON.date()
    assert audits_of(results, "orders", PERIOD) == ()


# --- on the page -----------------------------------------------------------------------------------------------------

TODAY = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def old_and_new(place: Location) -> None:
    """One loss resolved half a year ago after two days, one of yesterday that is open."""
    ago = TODAY - 180 * DAY
    was, now = ledger("was", ago, ago - HOUR, ago + 2 * DAY), ledger("now", TODAY - DAY)
    told = [
        transition(was, "opened", at=ago, transition_id="1"),
        transition(was, "resolved", at=ago + 2 * DAY, transition_id="2"),
        transition(now, "opened", at=TODAY - DAY, transition_id="3"),
    ]
    first = run("r0", as_of=ago, started_at=ago, finished_at=ago)
    last = run("r1", as_of=TODAY - HOUR, started_at=TODAY - HOUR, finished_at=TODAY - HOUR)
    publish(place, runs=[first, last], coverage=[covered(run_id="r0"), covered()], discrepancies=[was, now],
            transitions=told)  # fmt: skip


def days_named(driver: Any) -> list[list[str]]:
    (numbers,) = [each.value for each in driver.table if "opened" in each.value]
    rows: list[list[str]] = numbers.to_numpy().tolist()
    return rows


def test_the_last_ninety_days_are_shown_at_first(lake: str, old_and_new: None) -> None:
    driver = page(lake, "table", table="orders")
    yesterday = (TODAY - DAY).date().isoformat()
    assert days_named(driver) == [[yesterday, "1", "0", "0", "1"]]
    text = page_text(driver)
    assert "not known for 1" in text
    assert "median" not in text
    assert not driver.exception


@pytest.mark.parametrize(
    ("address", "days"),
    [
        ({"from": "2000-01-01"}, 3),
        ({"from": "2000-01-01", "to": "9999-12-31"}, 3),
        ({"from": "9999-12-31", "to": "2000-01-01"}, 3),
        ({"to": "2000-01-01"}, 1),
        ({"to": "0001-01-01"}, 1),
        ({"from": "<script>", "to": "yesterday"}, 1),
    ],
)
def test_the_address_has_the_period(lake: str, old_and_new: None, address: Row, days: int) -> None:
    driver = page(lake, "table", table="orders", **address)
    assert not driver.exception
    assert len(days_named(driver)) == days


def test_choosing_a_day_writes_it_into_the_address(lake: str, old_and_new: None) -> None:
    driver = page(lake, "table", table="orders")
    driver.date_input(key="table/from").set_value((TODAY - 180 * DAY).date())
    driver.run()
    assert driver.query_params["from"] == (TODAY - 180 * DAY).date().isoformat()
    text = page_text(driver)
    assert "1 h; not known for 1" in text
    assert "2 d" in text


def test_the_runs_page_has_the_history_of_the_lake(lake: str, old_and_new: None, place: Location) -> None:
    other = ledger("o", TODAY - DAY, TODAY - DAY - HOUR, table_name="other")
    opened = transition(other, "opened", at=TODAY - DAY, transition_id="4")
    publish(place, discrepancies=[other], transitions=[opened])
    yesterday = (TODAY - DAY).date().isoformat()
    driver = page(lake, "runs", **{"from": yesterday})
    assert days_named(driver) == [[yesterday, "2", "0", "0", "2"]]
    assert "1 h; not known for 1" in page_text(driver)
    assert driver.dataframe[0].value["run"].tolist() == ["runs?run=r1"], "the older run is not in the period"
    assert not driver.exception
    both = page(lake, "runs")
    assert both.dataframe[0].value["run"].tolist() == ["runs?run=r1", "runs?run=r0"]
    assert len(days_named(both)) == 3


def test_a_period_without_runs(lake: str, old_and_new: None) -> None:
    day = (TODAY - 90 * DAY).date().isoformat()
    driver = page(lake, "runs", **{"from": day, "to": day})
    assert "No run in this period." in page_text(driver)
    assert "Nothing opened or was resolved in this period." in page_text(driver)
    assert not driver.exception


def test_audits_are_read_on_request(lake: str, old_and_new: None) -> None:
    closed = page(lake, "table", table="orders", **{"from": "2000-01-01"})
    assert [len(each.value) for each in closed.dataframe] == []
    driver = page(lake, "table", table="orders", audits="all", **{"from": "2000-01-01"})
    (grid,) = driver.dataframe
    assert grid.value["run"].tolist() == ["runs?run=r1", "runs?run=r0"]
    assert "2 audits in this period, 2 of them judged the whole table." in page_text(driver)
