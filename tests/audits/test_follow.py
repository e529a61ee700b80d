"""Losses that `follow` reports from the events of a queue, and what the audits before and after make of them."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.commands import follow as command
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake
from lakeaudit.follow import decide
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.progress import SilentProgress
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.catcher import Catcher, catching
from tests.builders.event_queue import create_queue, send, sqs_client
from tests.builders.object_events import notification, record
from tests.builders.shop import Shop
from tests.conftest import Aws


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second check of a loss is due at once, and commits are read whenever an object waits for them."""
    monkeypatch.setattr(decide, "SECOND_CHECK", 0.0)
    monkeypatch.setattr(decide, "REFRESH", 0.0)


class Followed:
    """A lake of two tables whose first audit found nothing, with a queue and a receiver of alerts."""

    def __init__(self, aws: Aws, server: Endpoint, bucket: str, folder: Path, caught: Catcher) -> None:
        self.shop = Shop(aws.s3, server, bucket)
        self.shop.write("orders")
        self.shop.write("lines", commits=1)
        self.server, self.caught = server, caught
        self.queue = create_queue(server)
        os.environ["FOLLOW_TEST_HOOK"] = caught.url
        extra = f"follow: {{queue: '{self.queue}', region: us-east-1, window: 1s, state: {folder}/state}}\n"
        extra += "alerts: [{kind: webhook, url_env: FOLLOW_TEST_HOOK}]\n"
        self.lake: Lake = self.shop.lake(folder, extra=extra)

    def keys(self, table: str = "orders") -> list[str]:
        return self.shop.keys(table)

    def delete(self, key: str, change: str = "ObjectRemoved:Delete", **about: Any) -> None:
        """Delete an object, and send its event."""
        self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=key)
        self.tell(change, key, **about)

    def tell(self, name: str, *keys: str, **about: Any) -> None:
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        records = [record(name, self.shop.bucket, key, **{"at": at, **about}) for key in keys]
        send(self.server, self.queue, [notification(*records)])

    def follow(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> CommandResult:
        request = command.Request("lake.yaml", once=True)
        return command.run(request, self.lake, clock=clock, progress=SilentProgress())

    def open(self) -> dict[str, dict[str, Any]]:
        """The open discrepancies by key."""
        return {row["key"]: row for row in rows_of(results_of(self.lake).discrepancies(["open"]))}

    def left(self) -> int:
        """The number of messages in the queue."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = sqs_client(self.server).get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)
        return sum(int(found["Attributes"][name]) for name in names)


@pytest.fixture
def world(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Iterator[Followed]:
    with catching() as caught:
        yield Followed(aws, s3, bucket, tmp_path, caught)


def test_a_deleted_live_file_is_one_open_discrepancy_with_its_cause_and_one_message(world: Followed) -> None:
    audited(world.lake, run_id="first", live=True)
    lost, present = world.keys()[:2]
    world.delete(lost, sequencer="0A")
    world.tell("ObjectRemoved:Delete", present, "warehouse/orders/never-committed.parquet", "elsewhere/x")
    world.tell("ObjectCreated:Put", "warehouse/orders/new.parquet", world.keys()[2])
    result = world.follow()
    assert (result.exit_code, result.verdict) == (1, "6 events, 1 loss reported")
    (row,) = world.open().values()
    expected = {
        "key": lost, "kind": "dropped", "table_name": "orders", "confirmation": "live", "severity": "critical",
        "cause": "deleted (ObjectRemoved:Delete)", "cause_principal": "AWS:AIDA",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert "by request C3D13F" in row["explanation"]
    (message,) = world.caught.posts
    assert lost.rpartition("/")[2] in str(message)
    assert world.left() == 0

    # the ledger knows it: the same events again change nothing
    world.tell("ObjectRemoved:Delete", lost, sequencer="0A")
    assert world.follow().verdict == "1 event, 0 losses reported"
    assert len(world.caught.posts) == 1

    # no audit was replaced, and the next one continues the discrepancy
    results = results_of(world.lake)
    assert [run["run_id"] for run in results.runs()] == ["first"]
    assert [run["status"] for run in results.followed()] == ["followed"]
    outcome = audited(world.lake, run_id="second", live=True)
    assert outcome.summary["findings"] == {"dropped": 1}
    again = world.open()[lost]
    assert (again["discrepancy_id"], again["first_run_id"]) == (row["discrepancy_id"], row["first_run_id"])
    history = results_of(world.lake).history([row["discrepancy_id"]])
    assert [each["transition"] for each in history] == ["opened"]
