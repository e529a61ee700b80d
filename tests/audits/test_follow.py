"""Losses that `follow` reports from the events of a queue, and what the audits before and after make of them."""

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.api.lake import LakeHandle
from lakeaudit.audit import run as run_module
from lakeaudit.audit.match_and_confirm import match_and_confirm
from lakeaudit.commands import follow as command
from lakeaudit.commands.status import CommandResult
from lakeaudit.follow import decide
from lakeaudit.follow.losses import Judge, Judged
from lakeaudit.follow.queue import Batch, EventQueue
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.duck import Connection
from lakeaudit.runtime.progress import Counts, SilentProgress, StageLog
from lakeaudit.schemas import rows_of
from tests.builders import hudi
from tests.builders.audits import audited, results_of
from tests.builders.backdate import present
from tests.builders.catcher import Catcher, catching
from tests.builders.event_queue import create_queue, send, sqs_client
from tests.builders.iceberg import IcebergLake
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

    def __init__(
        self,
        aws: Aws,
        server: Endpoint,
        bucket: str,
        folder: Path,
        caught: Catcher,
        tables: Sequence[str] | None = None,
    ) -> None:
        self.shop = Shop(aws.s3, server, bucket)
        self.shop.write("orders")
        self.shop.write("lines", commits=1)
        self.server, self.caught = server, caught
        self.queue = create_queue(server)
        os.environ["FOLLOW_TEST_HOOK"] = caught.url
        extra = f"follow: {{queue: '{self.queue}', region: us-east-1, window: 1s, state: {folder}/state}}\n"
        extra += "alerts: [{kind: webhook, url_env: FOLLOW_TEST_HOOK}]\n"
        self.lake = self.shop.lake(folder, extra=extra, tables=tables)

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


@pytest.mark.variant
def test_losses_of_every_format_and_kind_of_change_are_reported_and_nothing_else(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """Most objects of the tables get an event; those that are in place, or that no table needs, are not reported."""
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    ice = IcebergLake(aws.s3, s3, bucket)
    ice.table("ice")
    upload(aws, hudi.unpacked(tmp_path, 1, [HUDI]) / HUDI, bucket, "warehouse/trips")
    aws.s3.put_object(Bucket=bucket, Key="warehouse/plain/a.csv", Body=b"12345")
    listed = [
        {"path": f"s3://{bucket}/warehouse/plain/a.csv", "size": 5, "committed_at": "2026-11-01T00:00:00Z"}
    ]
    lines = [*listed, {"end": True, "lines": 1}]
    aws.s3.put_object(Bucket=bucket, Key="lists/1.jsonl", Body="\n".join(map(json.dumps, lines)).encode())
    kinds = {"orders": "delta", "lines": "delta", "ice": "iceberg", "trips": "hudi"}
    kinds["plain"] = f"file_list, location: 's3://{bucket}/lists/', complete: true"
    tables = [
        f"- {{name: {name}, location: 's3://{bucket}/warehouse/{name}', manifests: [{{kind: {kind}}}]}}"
        for name, kind in kinds.items()
    ]
    with catching() as caught:
        world = Followed(aws, s3, bucket, tmp_path, caught, tables)
        orders, iceberg = world.keys("orders"), ice.keys()
        trip = next(key for key in world.keys("trips/") if "/.hoodie/" not in key)
        world.delete(orders[0], "ObjectRemoved:DeleteMarkerCreated")
        world.delete(orders[1], "LifecycleExpiration:DeleteMarkerCreated")
        aws.s3.put_object(Bucket=bucket, Key=orders[2], Body=b"PAR1 another content PAR1")
        world.tell("ObjectCreated:Copy", orders[2])
        world.delete(iceberg[0])
        world.delete(trip)
        world.delete("warehouse/plain/a.csv")
        world.tell(
            "ObjectRemoved:Delete", *orders[3:], "lists/1.jsonl", *iceberg[1:], "warehouse/plain/b.csv"
        )
        result = world.follow()
        found = {key: (row["table_name"], row["kind"], row["cause"]) for key, row in world.open().items()}
        assert found == {
            orders[0]: ("orders", "dropped", "deleted (ObjectRemoved:DeleteMarkerCreated)"),
            orders[1]: (
                "orders",
                "dropped",
                "expired by a lifecycle rule (LifecycleExpiration:DeleteMarkerCreated)",
            ),
            orders[2]: ("orders", "size_mismatch", "overwritten by a copy (ObjectCreated:Copy)"),
            iceberg[0]: ("ice", "dropped", "deleted (ObjectRemoved:Delete)"),
            trip: ("trips", "dropped_history", "deleted (ObjectRemoved:Delete)"),
            "warehouse/plain/a.csv": ("plain", "dropped", "deleted (ObjectRemoved:Delete)"),
        }
        assert (result.exit_code, world.left()) == (1, 0)
        assert {row["recoverable"] for row in world.open().values() if row["table_name"] == "orders"} == {
            "yes"
        }


HUDI = "written"


def upload(aws: Aws, folder: Path, bucket: str, prefix: str) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            key = f"{prefix}/{path.relative_to(folder)}"
            aws.s3.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())


@pytest.fixture
def world(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Iterator[Followed]:
    with catching() as caught:
        yield Followed(aws, s3, bucket, tmp_path, caught)


@pytest.mark.variant
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


def test_a_table_that_cannot_be_judged_does_not_delay_the_losses_of_others(
    world: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, (lost,) = Judge.judge, world.keys()[:1]

    def refusing(self: Judge, con: Connection, tables: Collection[str], *more: Any) -> Judged:
        if "lines" in tables:
            raise ValueError("damaged")
        return judge(self, con, tables, *more)

    monkeypatch.setattr(Judge, "judge", refusing)
    monkeypatch.setattr(decide, "GIVE_UP", 0.0)
    world.delete(lost)
    world.delete(world.keys("lines")[0])
    assert (world.follow().exit_code, [*world.open()]) == (1, [lost])


@pytest.mark.variant
def test_a_loss_is_reported_while_an_audit_of_inventories_reads_and_the_audit_keeps_it(
    world: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.shop.take_inventory()
    lost, sent = world.keys()[0], list[int]()

    def matching(*args: Any) -> Any:
        world.delete(lost)
        assert world.follow().exit_code == 1
        sent.append(len(world.caught.posts))
        return match_and_confirm(*args)

    monkeypatch.setattr(run_module, "match_and_confirm", matching)
    audited(world.lake, run_id="night", live=False)
    assert sent == [1], "the message did not wait for the audit"
    row = world.open()[lost]
    assert (row["first_run_id"], row["kind"]) == (results_of(world.lake).followed()[0]["run_id"], "dropped")
    history = results_of(world.lake).history([row["discrepancy_id"]])
    assert [each["transition"] for each in history] == ["opened"]
    assert [run["status"] for run in results_of(world.lake).runs()] == ["complete"]


@pytest.mark.variant
def test_a_file_that_was_deleted_before_its_commit_is_reported_when_the_commit_arrives(
    world: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3, bucket = world.shop.s3, world.shop.bucket
    log = "warehouse/orders/_delta_log/"
    before, commits = {*world.keys()}, {*present(bucket, log)}
    world.shop.write("orders", commits=1, days=["2026-11-09"])
    (commit,) = {*present(bucket, log)} - commits
    (lost,) = {*world.keys()} - before
    body = s3.get_object(Bucket=bucket, Key=commit)["Body"].read()
    s3.delete_object(Bucket=bucket, Key=commit)

    def arrive() -> None:
        s3.put_object(Bucket=bucket, Key=commit, Body=body)
        world.tell("ObjectCreated:Put", commit)

    steps, collect = [lambda: world.delete(lost), arrive], EventQueue.collect

    def collecting(self: EventQueue, *times: Any) -> Batch:
        if steps:
            steps.pop(0)()
        return collect(self, *times)

    monkeypatch.setattr(EventQueue, "collect", collecting)
    assert world.follow().verdict == "2 events, 1 loss reported"
    (row,) = world.open().values()
    assert (row["key"], row["cause"]) == (lost, "deleted (ObjectRemoved:Delete)")


@dataclass
class Lines(SilentProgress):
    """Stores the lines of progress."""

    lines: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLog]:  # noqa: ARG002 - the protocol's name
        yield _Log(self.lines)


class _Log(Counts):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def say(self, text: str, **_: object) -> None:
        self._lines.append(text)


@pytest.mark.variant
def test_discovered_tables_that_are_not_watched_are_named_and_the_delay_needs_no_local_clock(
    world: Followed, s3: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LINE", 0.0)
    world.shop.take_inventory()
    discover = f"- {{discover: {{from: inventory, under: ['s3://{world.shop.bucket}/warehouse/'], formats: [delta]}}}}"
    queue, progress = create_queue(s3), Lines()
    lake = world.shop.lake(
        tmp_path,
        extra=f"follow: {{queue: '{queue}', region: us-east-1, window: 1s, state: {tmp_path}/other}}\n",
        tables=[discover],
        defaults="confirm: {mode: none}",
    )
    send(s3, queue, [notification(record("ObjectRemoved:Delete", world.shop.bucket, world.keys()[0]))])
    ahead = lambda: datetime.now(UTC) + timedelta(hours=1)  # noqa: E731
    handle = LakeHandle(lake, str(tmp_path / "lake.yaml"), clock=ahead, progress=progress)
    assert handle.follow().verdict == "1 event, 0 losses reported"
    named = sorted(line for line in progress.lines if line.startswith("losses"))
    why = "confirm.mode none forbids requests for its objects"
    assert named == [f"losses of {name} are not reported: {why}" for name in ("lines", "orders")]
    delays = [int(line.split()[-3]) for line in progress.lines if line.endswith(" s behind")]
    assert delays
    assert max(delays) < 60
