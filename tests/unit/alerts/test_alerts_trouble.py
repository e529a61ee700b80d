"""Audits that fail: which messages are sent, and which audit ends the trouble. Rounds over real results."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.alerts.dispatch import round_of
from lakeaudit.alerts.notice_rows import AlertContext
from lakeaudit.alerts.trouble import Scope, lasts
from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.catcher import Catcher, catching
from tests.builders.results import (
    LAKE,
    NOON,
    covered,
    discrepancy,
    finding,
    lake_file,
    publish,
    run,
    transition,
)

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TABLES = ("orders", "events", "items")


def scope(*tables: str, number: int | None = None) -> Scope:
    return Scope(frozenset(tables), len(tables) if number is None else number)


KILLED = scope(number=3)
"""The scope of a run that was killed: it names no tables."""
ALL = scope(*TABLES)
SCOPES = [
    # the failed run, later runs and whether they worked, whether the trouble lasts
    pytest.param(ALL, [(scope("orders"), True)], True, id="an audit of one table does not end it"),
    pytest.param(ALL, [(scope("orders"), True), (ALL, True)], False, id="an audit of all tables ends it"),
    pytest.param(scope("orders"), [(scope("orders"), True)], False, id="an audit of the same table ends it"),
    pytest.param(scope("orders"), [(scope("events"), True)], True, id="an audit of another table does not"),
    pytest.param(scope("orders"), [(ALL, False), (scope("orders"), True)], True, id="the nightly audit failed since"),
    pytest.param(scope("orders", "events"), [(scope("items"), False), (scope("orders", "events"), True)], True,
                 id="of two groups the second one still fails"),
    pytest.param(scope("orders", "events"),
                 [(scope("items"), False), (scope("orders", "events"), True), (scope("items"), True)], False,
                 id="both groups work again"),
    pytest.param(scope("orders", "dropped_since"), [(ALL, True)], False, id="the lake has one table less now"),
    pytest.param(KILLED, [(scope("orders"), True)], True, id="killed, then an audit of one table"),
    pytest.param(KILLED, [(ALL, True)], False, id="killed, then an audit of all tables"),
    pytest.param(scope(number=4), [(ALL, True)], False, id="killed, and the lake has one table less now"),
]  # fmt: skip


@pytest.mark.parametrize(("failed", "later", "expected"), SCOPES)
def test_trouble_lasts_until_an_audit_covers_all_that_failed(
    failed: Scope, later: list[tuple[Scope, bool]], expected: bool
) -> None:
    assert lasts(failed, later, TABLES) is expected


def test_in_a_lake_with_discovery_a_few_tables_may_be_dropped() -> None:
    names = [f"t{n}" for n in range(20)]
    assert lasts(scope(*names), [(scope(*names[:19]), True)], None) is False
    assert lasts(scope(*names), [(scope(*names[:9]), True)], None) is True


@dataclass
class Lake:
    """A lake of three tables with one receiver; `titles` are those of its messages."""

    folder: Path
    caught: Catcher
    route: dict[str, Any]

    def __post_init__(self) -> None:
        self.place = Location.parse(str(self.folder / "results"))
        tables = [{"name": t, "location": f"s3://lake/{t}", "manifests": [{"kind": "delta"}]} for t in TABLES]
        reports = [{"kind": "s3_inventory", "location": "s3://inv/"}]
        self.file = lake_file(
            self.folder, self.place, tables=tables, alerts=[self.route], inventories=reports
        )

    def put_run(self, run_id: str, hour: float, status: str = "complete", tables: tuple[str, ...] = TABLES,
              **columns: Any) -> None:  # fmt: skip
        """Publish a run that ended at an hour."""
        failed: dict[str, Any] = {"consistent": 0, "undecided": 10, "decided_share": 0.0, "status": "partial"}
        publish(
            self.place, runs=[run(run_id, status, finished_at=NOON + hour * HOUR, as_of=NOON + hour * HOUR,
                                  **{"tables_expected": len(tables) or 3} | columns)],
            coverage=[covered(name, run_id=run_id, **(failed if status == "failed" else {})) for name in tables],
        )  # fmt: skip

    def round(self, hour: float) -> list[Any]:
        """Send what is due at an hour; return the titles of the messages, or (kind, end) of the alerts."""
        before = len(self.caught.posts)
        env = {"TO": f"json://127.0.0.1:{self.caught.port}/", "MANAGER": self.caught.url}
        lake, results = load_lake(self.file, {}), Results(self.place, Clients(), LAKE)
        done = round_of(AlertContext(lake, "lake.yaml", results, Clients(), env, NOON + hour * HOUR))
        assert done.failures == ()
        return [
            post["title"].removeprefix("lakeaudit shop: ") if isinstance(post, dict) else
            [(alert["labels"]["kind"], alert["endsAt"]) for alert in post]
            for post in self.caught.posts[before:]
        ]  # fmt: skip


@pytest.fixture
def caught() -> Iterator[Catcher]:
    with catching() as catcher:
        yield catcher


@pytest.fixture
def lake(tmp_path: Path, caught: Catcher) -> Lake:
    return Lake(tmp_path, caught, {"kind": "apprise", "url_env": "TO"})


def test_a_live_audit_of_one_table_does_not_end_the_incident_of_the_nightly_audit(lake: Lake) -> None:
    lake.put_run("night", 1, "failed", error="the inventory is gone")
    assert lake.round(1) == ["the audit failed: the inventory is gone"]
    lake.put_run("live", 2, tables=("orders",))
    assert lake.round(2) == []
    lake.put_run("night2", 25)
    assert lake.round(25) == [
        "audits work again: the audit night2 ended at 2026-11-22 13:00:00Z and judged 3 of 3 tables"
    ]


def test_a_slow_clock_makes_no_audit_of_one_table_an_audit_of_the_lake(lake: Lake) -> None:
    lake.put_run("night", 10, "failed", error="denied")
    assert lake.round(10) == ["the audit failed: denied"]
    lake.put_run("live", 9, tables=("orders",))
    assert lake.round(11) == []


REPORT = {"role": "storage", "kind": "s3_inventory", "location": "s3://inv/", "identity": "x", "rows": 7}


def test_a_live_audit_of_one_table_does_not_hide_that_the_nightly_audit_is_overdue(lake: Lake) -> None:
    lake.put_run("night", 1, sources=[REPORT])
    assert lake.round(1) == []
    lake.put_run("live", 38, tables=("orders",))
    (title,) = lake.round(39)
    assert title.startswith(
        "no audit was published for too long: the last one was published 2026-11-21 13:00:00Z"
    )
    lake.put_run("live2", 40, tables=("orders",))
    assert lake.round(41) == []
    lake.put_run("night2", 42, sources=[REPORT])
    assert [title.partition(":")[0] for title in lake.round(42)] == ["audits work again"]


def test_a_failure_that_is_over_before_the_first_message_is_one_message_about_both(lake: Lake) -> None:
    lake.round(0)  # the route is known before
    lake.put_run("killed", 1, "failed", tables=(), error="the process was killed")
    lake.put_run("night", 2)
    (title,) = lake.round(2)
    assert title == (
        "audits work again: the audit night ended at 2026-11-21 14:00:00Z and judged 3 of 3 tables; "
        "not reported until now: the audit failed: the process was killed"
    )


@pytest.mark.parametrize("hour", [9, -100])
def test_a_run_with_a_slow_clock_is_reported(lake: Lake, hour: int) -> None:
    """Its end is before that of a run that was reported already, by hours or by more than three days."""
    lost = finding("dropped", "orders/part-0", run_id="slow")
    lake.put_run("night", 10, "failed", error="denied")
    assert lake.round(10) == ["the audit failed: denied"]
    lake.put_run("night2", 11)
    assert len(lake.round(11)) == 1
    lake.put_run("slow", hour)
    publish(
        lake.place, discrepancies=[discrepancy(lost)], transitions=[transition(lost, "opened", run_id="slow")]
    )
    assert lake.round(12) == ["CRITICAL: 1 file dropped in orders"]
    assert lake.round(13) == []


def test_a_fast_clock_does_not_hide_the_runs_after_it(lake: Lake) -> None:
    lake.put_run("fast", 30, "failed", error="denied")
    assert lake.round(10) == ["the audit failed: denied"]
    lake.put_run("night", 11)
    lost = finding("dropped", "orders/part-0", run_id="night")
    publish(
        lake.place,
        discrepancies=[discrepancy(lost)],
        transitions=[transition(lost, "opened", run_id="night")],
    )
    assert "CRITICAL: 1 file dropped in orders" in lake.round(11)[0]


def test_quiet_runs_are_not_reported_later(lake: Lake) -> None:
    """A failure while audits fail already has no message, and gets none once audits work again."""
    lake.round(0)  # the route is known before
    lake.put_run("night1", 1, "failed", error="denied")
    lake.put_run("night2", 2, "failed", error="denied again")
    assert lake.round(2) == ["the audit failed: denied"]
    lake.put_run("night3", 3)
    assert len(lake.round(3)) == 1
    assert lake.round(4) == []


def test_a_receiver_with_repeat_is_reminded_that_audits_still_fail(tmp_path: Path, caught: Catcher) -> None:
    lake = Lake(tmp_path, caught, {"kind": "apprise", "url_env": "TO", "repeat": "3d"})
    titles = []
    for night in range(8):
        lake.put_run(f"night{night}", 24 * night, "failed", error=f"denied {night}")
        titles += lake.round(24 * night)
    assert titles == ["the audit failed: denied 0", "STILL OPEN: the audit failed: denied 3",
                      "STILL OPEN: the audit failed: denied 6"]  # fmt: skip
    lake.put_run("good", 200)
    assert [title.partition(":")[0] for title in lake.round(200)] == ["audits work again"]


def test_alertmanager_keeps_the_alert_of_failing_audits(tmp_path: Path, caught: Catcher) -> None:
    """It forgets an alert that is not sent again: for ten days it never ends."""
    lake = Lake(tmp_path, caught, {"kind": "alertmanager", "url_env": "MANAGER"})
    ends = NOON
    for night in range(10):
        lake.put_run(f"night{night}", 24 * night, "failed", error="denied")
        for alerts in lake.round(24 * night):
            ((kind, end),) = alerts
            assert kind == "audit_failed"
            ends = max(ends, type(NOON).fromisoformat(end))
        assert ends > NOON + night * DAY + DAY
    lake.put_run("good", 250)
    assert [kind for ((kind, _),) in lake.round(250)] == ["audit_failed"]
