"""Losses that `follow` reports from the journal table of S3 Metadata, and rows that are read again after a crash."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakeaudit.commands import follow as command
from lakeaudit.commands.doctor_checks import examine
from lakeaudit.commands.status import CommandResult
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import CannotAudit
from lakeaudit.evidence.events.journal import reader
from lakeaudit.evidence.files import File
from lakeaudit.evidence.protocol import Context
from lakeaudit.follow import decide, journal, journal_rows
from lakeaudit.follow.journal import JournalQueue
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import SilentProgress
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.iceberg import IcebergLake
from tests.builders.s3_metadata import JOURNAL, lay
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

if TYPE_CHECKING:
    from lakeaudit.config import Lake

IDLE = timedelta(seconds=0.1)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest state is read for each batch, and the second check of a loss is due at once."""
    monkeypatch.setattr(journal, "POLL", 0.0)
    monkeypatch.setattr(decide, "SECOND_CHECK", 0.0)
    monkeypatch.setattr(decide, "REFRESH", 0.0)


def change(bucket: str, key: str, kind: str = "DELETE", **given: Any) -> dict[str, Any]:
    """A row of the journal."""
    now = datetime.now(UTC).replace(tzinfo=None)
    return {
        "bucket": bucket, "key": key, "record_type": kind, "record_timestamp": now, "sequence_number": "0A",
        "is_delete_marker": False, "requester": "123456789012", "request_id": "C3D13F",
    } | given  # fmt: skip


def rows(*changes: Mapping[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(each) for each in changes], JOURNAL)


class Journaled:
    """A lake whose first audit found nothing, and the journal table of its bucket."""

    def __init__(self, aws: Aws, server: Endpoint, bucket: str, folder: Path) -> None:
        self.shop = Shop(aws.s3, server, bucket)
        self.shop.write("orders")
        place, catalog = f"s3://{bucket}/journal", IcebergLake(aws.s3, server, bucket).catalog
        self.table = catalog.create_table("shop.journal", JOURNAL, location=place)
        self.table.append(rows(change(bucket, self.shop.keys("orders")[0], "CREATE")))
        extra = f"follow: {{journal: '{place}', window: 1s, state: {folder}/state}}\n"
        self.lake: Lake = self.shop.lake(folder, extra=extra)

    def follow(self) -> CommandResult:
        request = command.Request("lake.yaml", once=True)
        return command.run(request, self.lake, clock=lambda: datetime.now(UTC), progress=SilentProgress())

    def delete(self, key: str, **given: Any) -> dict[str, Any]:
        """Delete an object; return its row."""
        self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=key)
        return change(self.shop.bucket, key, **given)


def test_losses_in_the_journal_are_reported_once_and_nothing_else(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    world = Journaled(aws, s3, bucket, tmp_path)
    audited(world.lake, live=True)
    assert world.follow().verdict == "0 events, 0 losses reported", (
        "the first process begins at the newest state"
    )
    first, second, third, present, *_ = world.shop.keys("orders")
    aws.s3.put_object(Bucket=bucket, Key=third, Body=b"PAR1 another content PAR1")
    world.table.append(
        rows(
            world.delete(first, is_delete_marker=True),
            world.delete(second, is_delete_marker=True, requester="s3.amazonaws.com"),
            change(bucket, third, "CREATE"),
            change(bucket, present, "UPDATE_METADATA"),
            change(bucket, present),
            change(bucket, "warehouse/orders/never-committed.parquet"),
            change(bucket, "elsewhere/x"),
        )
    )
    result = world.follow()
    assert (result.exit_code, result.verdict) == (1, "7 events, 3 losses reported")
    found = {
        row["key"]: (row["kind"], row["cause"]) for row in rows_of(results_of(world.lake).discrepancies())
    }
    assert found == {
        first: ("dropped", "deleted (journal: DELETE)"),
        second: ("dropped", "expired by a lifecycle rule (journal: DELETE)"),
        third: ("size_mismatch", "overwritten (journal: CREATE)"),
    }
    assert world.follow().verdict == "0 events, 0 losses reported"


def test_doctor_reads_the_newest_state(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    world = Journaled(aws, s3, bucket, tmp_path)
    checks = {each.about: each for each in examine(world.lake, clients_of(world.lake), {}, datetime.now(UTC))}
    found = checks[f"journal s3://{bucket}/journal"]
    assert (found.state, found.message.partition(", ")[0]) == ("ok", "journal table")


@pytest.fixture
def queue_of(tmp_path: Path) -> Callable[[Path], JournalQueue]:
    """Return queues of the journal in a folder, as processes one after the other have them."""
    clients, engine = Clients(), InProcessEngine()

    def context() -> Context:
        now = datetime.now(UTC) + timedelta(seconds=1)
        return Context(engine, clients, now, now, live=True, rate=1)

    def opened(place: Path) -> JournalQueue:
        return JournalQueue(Location.parse(str(place)), tmp_path / "state", context)

    return opened


def keys_of(queue: JournalQueue) -> list[str]:
    """The keys of one batch, which is then decided."""
    batch = queue.collect(IDLE, IDLE)
    queue.delete(batch.messages)
    return sorted(event.key for event in batch.events)


def test_rows_that_no_process_has_decided_are_read_again(tmp_path: Path, queue_of: Any) -> None:
    table, place = lay(tmp_path, [rows(change("lake", "old"))]), tmp_path / "inventory"
    assert keys_of(queue_of(place)) == []
    table.append(rows(change("lake", "a"), change("lake", "b")))
    killed = queue_of(place)
    assert [event.key for event in killed.collect(IDLE, IDLE).events] == ["a", "b"]
    after = queue_of(place)
    assert keys_of(after) == ["a", "b"]
    table.append(rows(change("lake", "c")))
    assert (keys_of(after), keys_of(after), keys_of(queue_of(place))) == (["c"], [], [])


def test_a_compaction_brings_back_only_rows_of_the_last_hour(tmp_path: Path, queue_of: Any) -> None:
    """Its new files contain the decided rows, too; those of the last hour are recognised by their sequence numbers."""
    old = change("lake", "old", record_timestamp=datetime.fromisoformat("2026-01-01"))
    table, place = lay(tmp_path, [rows(change("lake", "first"))]), tmp_path / "inventory"
    queue = queue_of(place)
    assert keys_of(queue) == []
    table.append(rows(old, change("lake", "a")))
    assert keys_of(queue) == ["a"], "an old row was decided before"
    table.overwrite(rows(old, change("lake", "first"), change("lake", "a"), change("lake", "new")))
    assert keys_of(queue) == ["a", "first", "new"]


def test_a_file_whose_request_fails_is_read_again(
    tmp_path: Path, queue_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the other files are not delayed."""
    table, place = lay(tmp_path, [rows(change("lake", "old"))]), tmp_path / "inventory"
    queue = queue_of(place)
    assert keys_of(queue) == []
    table.append(rows(change("lake", "a")))
    table.append(rows(change("lake", "b")))
    real, failures = reader.tables_of, list[File]()

    def failing(clients: Clients, file: File) -> Iterator[pa.Table]:
        if len(seen) == 1 and not failures:
            failures.append(file)
            raise CannotAudit(file.place.uri, "no answer", "try again", retryable=True)
        seen.append(file)
        return real(clients, file)

    seen: list[File] = []
    monkeypatch.setattr(journal_rows, "tables_of", failing)
    first, second = keys_of(queue), keys_of(queue)
    assert sorted([*first, *second]) == ["a", "b"]
    assert (len(first), len(second), len(failures)) == (1, 1, 1)
    assert keys_of(queue_of(place)) == []


def test_exports_and_rows_that_are_not_understood(tmp_path: Path, queue_of: Any) -> None:
    place = tmp_path / "exports"
    place.mkdir()
    (place / "0.jsonl").write_text(line(change("lake", "old")))
    queue = queue_of(place)
    assert keys_of(queue) == []
    odd = [change("lake", "odd", "RESTORE"), change("lake", ""), change("lake", "b")]
    (place / "1.jsonl").write_text("".join(map(line, odd)) + "no row\n")
    (place / "2.parquet").write_bytes(b"no table")
    batch = queue.collect(IDLE, IDLE)
    assert [event.key for event in batch.events] == ["b"]
    assert len(batch.unknown) == 4
    queue.delete(batch.messages)
    assert keys_of(queue_of(place)) == []


def line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, default=str) + "\n"


@pytest.mark.parametrize(
    "written", ["", "{", "[]", '{"place": "s3://other/x", "files": [], "since": "2026-01-01"}']
)
def test_a_position_that_does_not_count_begins_at_the_newest_state(
    tmp_path: Path, queue_of: Any, written: str
) -> None:
    lay(tmp_path, [rows(change("lake", "old"))])
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / journal.NAME).write_text(written)
    queue = queue_of(tmp_path / "inventory")
    assert keys_of(queue) == []
    assert json.loads((tmp_path / "state" / journal.NAME).read_text())["place"].endswith("inventory")
