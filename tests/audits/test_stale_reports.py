"""Nights on which no new inventory report arrives: quiet until `max_age`, then coverage is lost until a new report."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.commands.alert import after_audit
from lakeaudit.commands.check import check
from lakeaudit.config import Lake
from lakeaudit.formatting import second
from lakeaudit.results.summaries.table_answers import Demand
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.catcher import Catcher, catching
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
RECEIVER, HEARTBEAT = "LAKEAUDIT_TEST_STALE", "LAKEAUDIT_TEST_STALE_HEARTBEAT"
HIDDEN = "audits cannot see: missing and changed files, unused files, duplicates"


@dataclass
class Nights:
    """A lake that is audited once a night; its last report is from the evening before night 0."""

    shop: Shop
    folder: Path
    caught: Catcher
    extra: str = ""
    folders: tuple[str, ...] = ("inventories",)
    begin: datetime = field(default_factory=lambda: datetime.now(UTC) + HOUR)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    titles: dict[int, list[str]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    heartbeats: set[int] = field(default_factory=set)

    def at(self, night: int) -> datetime:
        return self.begin + night * DAY

    def report(self, night: int, *folders: str) -> None:
        for folder in folders or self.folders:
            self.shop.take_inventory(at=self.at(night) - HOUR / 2, under=folder)

    def lake(self) -> Lake:
        bucket = self.shop.bucket
        inventories = ", ".join(
            f"{{kind: s3_inventory, location: 's3://{bucket}/{folder}/', margin: 0s, max_age: 2d, "
            f"covers: ['s3://{bucket}/warehouse/']}}"
            for folder in self.folders
        )
        extra = (
            f"alerts: [{{kind: apprise, url_env: {RECEIVER}}}]\nheartbeat_url_env: {HEARTBEAT}\n"
            "owners: [{match: orders, owner: sales-data}, {match: '*', owner: web-data}]\n" + self.extra
        )
        waits = "grace: 0s, leftover_age: 0s, max_upload: 0s"
        return self.shop.lake(self.folder, extra=extra, inventories=f"[{inventories}]", defaults=waits)

    def audit(self, night: int) -> Outcome:
        lake, before, now = self.lake(), len(self.caught.posts), self.at(night)
        self.outcomes[night] = audited(lake, clock=lambda: now, run_id=f"night-{night}")
        warnings = after_audit(lake, str(self.folder / "lake.yaml"), clients_of(lake), now)
        posts = [post for post in self.caught.posts[before:] if "title" in post]
        self.titles[night] = [post["title"].removeprefix("lakeaudit shop: ") for post in posts]
        self.texts[night] = "\n".join(post["message"] for post in posts)
        if not any("no heartbeat" in each for each in warnings):
            self.heartbeats.add(night)
        return self.outcomes[night]

    def blind_tables(self) -> dict[str, dict[str, Any]]:
        rows = rows_of(results_of(self.lake()).discrepancies())
        return {row["table_name"]: row for row in rows if row["kind"] == "coverage_lost"}


@pytest.fixture
def nights(
    aws: Aws, s3: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Nights]:
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    shop.copy("orders", "events", own_ids=True)
    shop.tables = ["events", "orders"]
    with catching() as caught:
        monkeypatch.setenv(RECEIVER, f"json://127.0.0.1:{caught.port}/")
        monkeypatch.setenv(HEARTBEAT, f"http://127.0.0.1:{caught.port}/")
        yield Nights(shop, tmp_path, caught)


def test_a_report_that_stops_arriving_is_lost_coverage_once_it_is_older_than_max_age(nights: Nights) -> None:
    place = f"s3://{nights.shop.bucket}/inventories"
    nights.report(0)
    taken, usable = second(nights.at(0) - HOUR / 2), second(nights.at(2) - HOUR / 2)
    reason = f"no recent storage source: {place} has no snapshot after {taken} (max_age: 2 d)"
    for night in (0, 1):
        assert nights.audit(night).status == "complete"
    lost = nights.shop.keys("orders/")[0]
    nights.shop.s3.delete_object(Bucket=nights.shop.bucket, Key=lost)
    stale = nights.audit(2)
    assert (stale.exit_code, stale.summary["coverage_lost"]) == (3, 2)
    assert nights.titles[2] == [
        f"COVERAGE LOST (error) in 2 tables of 2 owners (and 1 other finding): {reason}"
    ]
    for words in (
        f"an audit last judged the table at {second(nights.at(1))} from storage as of {taken}",
        f" (usable until {usable}); {HIDDEN}\n",
        "owner sales-data: orders",
        "owner web-data: events",
        "not judged: 16 files",
    ):
        assert words in nights.texts[2]
    assert nights.texts[2].count(reason) == 1, "the message states the reason once"
    coverage = {row["axis"]: row for row in results_of(nights.lake()).coverage("night-2") if row["files"]}
    assert (coverage["content"]["status"], coverage["content"]["reason"]) == ("partial", reason)
    assert coverage["commit"]["status"] == "complete", "logs were read"
    demand = Demand(timedelta(hours=1))
    answers = check(nights.lake(), results_of(nights.lake()), ["orders"], demand, nights.at(2))
    assert [answer.answer for answer in answers] == ["unknown"]
    nights.audit(3)
    assert nights.titles[3] == [], "nothing has changed"
    assert {row["last_run_id"] for row in nights.blind_tables().values()} == {"night-2"}
    nights.report(4)
    nights.audit(4)
    assert nights.titles[4] == ["CRITICAL: 1 file dropped in orders (and 2 more)"]
    assert "RESOLVED: 1 loss of coverage in events" in nights.texts[4]
    assert {row["state"] for row in nights.blind_tables().values()} == {"resolved"}
    assert nights.heartbeats == {0, 1, 4}


@pytest.mark.parametrize(
    ("extra", "severities"),
    [
        ("severity: {coverage_lost: critical}", {"orders": "critical", "events": "critical"}),
        (
            "expect: [{reason: moving, tables: [orders], refused: no recent storage source}]",
            {"events": "error"},
        ),
    ],
)
def test_the_lake_file_decides_about_stale_reports(
    nights: Nights, extra: str, severities: dict[str, str]
) -> None:
    nights.extra = extra
    nights.report(0)
    nights.audit(0)
    nights.audit(3)
    assert {name: row["severity"] for name, row in nights.blind_tables().items()} == severities


def test_a_stale_report_beside_a_recent_one_loses_nothing(nights: Nights) -> None:
    nights.folders = ("inventories", "other")
    nights.report(0)
    nights.audit(0)
    nights.report(3, "other")
    assert nights.audit(3).exit_code == 3
    assert nights.titles[3] == ["WARNING: 1 source with unreadable evidence"]
    assert nights.blind_tables() == {}
