"""A month of real audits: thirty nights of one lake with a blind week, a storm, a migration and an outage.

`LAKEAUDIT_MONTH_TABLES` sets another number of tables than 40; `LAKEAUDIT_MESSAGES` names a folder that gets the
messages of each night, to read them in order as the person on call does.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.commands.alert import FailedRun, after_audit, send
from lakeaudit.config import Lake
from lakeaudit.errors import AuditError
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from tests.builders.audits import audited
from tests.builders.backdate import copy, present
from tests.builders.catcher import Catcher, catching
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

NUMBER = int(os.environ.get("LAKEAUDIT_MONTH_TABLES", "40"))
TEAMS = ("sales", "finance", "logistics", "web")
TABLES = [f"{TEAMS[number % 4]}.t{number // 4:03}" for number in range(NUMBER)]
EAST = [name for name in TABLES if name.split(".")[0] in TEAMS[:2]]
"""Tables in the report of the east; the others are in that of the west."""
WEST = [name for name in TABLES if name not in EAST]
STORM = TABLES[: NUMBER * 3 // 5]
MOVED = EAST[:4]
RECEIVER = "LAKEAUDIT_TEST_MONTH"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@dataclass
class Month:
    """A lake whose clock the script sets, and the messages of each night."""

    shop: Shop
    folder: Path
    caught: Catcher
    now: datetime = field(default_factory=lambda: datetime.now(UTC) + timedelta(minutes=1))
    markers: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=lambda: {name: name for name in TABLES})
    messages: dict[int, list[str]] = field(default_factory=dict)

    def lake(self) -> Lake:
        bucket = self.shop.bucket
        reports = ", ".join(
            f"{{kind: s3_inventory, location: 's3://{bucket}/inventories/{side}/', margin: 0s, max_age: 20h, "
            f"covers: [{', '.join(self._covered(names))}]}}"
            for side, names in (("east", EAST), ("west", WEST))
        )
        tables = [
            f"- {{name: {name}, location: 's3://{bucket}/warehouse/{place}', manifests: [{{kind: delta}}]}}"
            for name, place in self.places.items()
        ]
        owners = ", ".join(f"{{match: '{team}.*', owner: {team}-data}}" for team in TEAMS)
        extra = (
            f"alerts: [{{kind: apprise, url_env: {RECEIVER}, repeat: 7d}}]\nowners: [{owners}]\n"
            "ceiling: {sample: 10}\ndashboard_url: https://lakeaudit.example.com\noverdue: 36h\n"
        )
        waits = "grace: 0s, leftover_age: 0s, max_upload: 0s"
        return self.shop.lake(
            self.folder, extra=extra, inventories=f"[{reports}]", tables=tables, defaults=waits
        )

    def _covered(self, names: Sequence[str]) -> Iterator[str]:
        for name in names:
            yield f"'s3://{self.shop.bucket}/warehouse/{self.places[name]}/'"

    def files(self, name: str) -> list[str]:
        return self.shop.keys(f"{self.places[name]}/")

    def report(self, side: str, lacks: Sequence[str] = ()) -> None:
        """Lay a report of an hour ago."""
        self.shop.take_inventory(at=self.now - HOUR, under=f"inventories/{side}", lacks=lacks)

    def lose(self, *keys: str) -> None:
        for key in keys:
            self.markers[key] = self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=key)["VersionId"]

    def restore(self, *keys: str) -> None:
        for key in keys:
            self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=key, VersionId=self.markers.pop(key))

    def move(self, forgotten: str) -> None:
        """Move tables below another prefix, without one file."""
        for name in MOVED:
            for key in present(self.shop.bucket, f"warehouse/{name}/"):
                if key != forgotten:
                    copy(self.shop.bucket, key, key.replace(f"warehouse/{name}/", f"warehouse/v2/{name}/"))
            self.places[name] = f"v2/{name}"

    def break_results(self) -> None:
        """Let the results store refuse every request."""
        (self.folder / "results").rename(self.folder / "away")
        (self.folder / "results").write_text("no folder")

    def repair_results(self) -> None:
        (self.folder / "results").unlink()
        (self.folder / "away").rename(self.folder / "results")

    def audit(self, night: int, **options: Any) -> None:
        """Audit, and keep the messages; the audit of an outage ends with an error."""
        lake, before = self.lake(), len(self.caught.posts)
        file = str(self.folder / "lake.yaml")
        run_id, failed = f"night-{night:02}", None
        try:
            audited(lake, clock=lambda: self.now, run_id=run_id, **options)
        except AuditError as error:
            failed = FailedRun(run_id, error)
        after_audit(lake, file, clients_of(lake), self.now, failed=failed)
        self._keep(night, before)

    def alert(self, night: int) -> None:
        """Send what is due, as the hourly `lakeaudit alert` does."""
        lake, before = self.lake(), len(self.caught.posts)
        with suppress(AuditError):
            send(lake, str(self.folder / "lake.yaml"), clients_of(lake), self.now)
        self._keep(night, before)

    def _keep(self, night: int, before: int) -> None:
        self.messages.setdefault(night, []).extend(
            f"{post['title']}\n\n{post['message']}" for post in self.caught.posts[before:]
        )
        text = "\n\n=====\n\n".join(self.messages[night]) or "no message"
        folder = Path(os.environ.get("LAKEAUDIT_MESSAGES") or self.folder)
        (folder / f"night-{night:02}.txt").write_text(f"{text.rstrip()}\n")


def live_through(month: Month) -> None:
    """Run thirty nights."""
    first, second, unseen, forgotten = (
        month.files(name)[3] for name in (TABLES[0], TABLES[1], WEST[-1], MOVED[1])
    )
    storm = [month.files(name)[5] for name in STORM]
    acts: dict[int, Callable[[], object]] = {
        2: lambda: month.lose(first, second),
        4: lambda: month.restore(first, second),
        7: lambda: month.lose(unseen),
        13: lambda: month.lose(*storm),
        14: lambda: month.restore(*storm[: len(storm) // 2]),
        15: lambda: month.restore(*storm[len(storm) // 2 :], unseen),
        17: lambda: month.move(forgotten),
        20: month.break_results,
        22: month.repair_results,
        27: lambda: copy(month.shop.bucket, forgotten, forgotten.replace("warehouse/", "warehouse/v2/")),
    }
    for night in range(1, 31):
        month.now += DAY
        if act := acts.get(night):
            act()
        lacks = [key for name in WEST for key in month.files(name)[1:]] if night == 28 else ()
        month.report("east")
        if not 5 <= night <= 11:
            month.report("west", lacks)
        if night == 22:
            month.now -= HOUR
            month.alert(night)
            month.now += HOUR
        month.audit(night)


@pytest.fixture(scope="module")
def month(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Month]:
    bucket = "month"
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop = Shop(aws.s3, s3, bucket)
    shop.write("template", commits=4)
    shop.copy("template", *TABLES, own_ids=True)
    with catching() as caught, pytest.MonkeyPatch.context() as patch:
        patch.setenv(RECEIVER, f"json://127.0.0.1:{caught.port}/")
        lived = Month(shop, tmp_path_factory.mktemp("month"), caught)
        live_through(lived)
        yield lived


TITLES = {
    2: "CRITICAL: 1 file dropped in ",
    4: "RESOLVED: 1 file dropped in ",
    5: f"COVERAGE LOST (error) in {len(WEST)} tables of 2 owners (and 1 other finding): no recent storage source",
    12: f"CRITICAL: 1 file dropped in {WEST[-1]}",
    13: f"CRITICAL: {len(STORM)} files dropped in {len(STORM)} tables of 4 owners",
    14: f"RESOLVED: {len(STORM) // 2} files dropped in ",
    15: "RESOLVED: ",
    17: f"CRITICAL: 1 file dropped in {MOVED[1]}",
    20: "the audit failed: ",
    21: "the audit failed: ",
    22: "no audit was published for too long",
    27: f"RESOLVED: 1 file dropped in {MOVED[1]}",
    28: "the evidence is suspect",
    29: "audits work again",
}
REMINDERS = {24, 25}
"""Nights of which one has a reminder that the file of the migration is still lost."""


def test_each_night_with_a_problem_has_a_message_and_the_others_have_none(month: Month) -> None:
    with_message = {number for number, messages in month.messages.items() if messages}
    assert with_message - REMINDERS == TITLES.keys()
    assert len(with_message & REMINDERS) == 1


@pytest.mark.parametrize("number", TITLES)
def test_the_title_of_a_night_states_the_problem(month: Month, number: int) -> None:
    title = month.messages[number][0].splitlines()[0]
    assert title.startswith(f"lakeaudit shop: {TITLES[number]}"), title
