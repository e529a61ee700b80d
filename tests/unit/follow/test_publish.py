"""Reports of `follow` in the ledger: no audit is replaced, and a killed process reports once."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import Busy
from lakeaudit.findings import finding_rows
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.follow.publish import Publisher
from lakeaudit.ledger.lease import (
    LONGEST_BRIEF,
    WAIT,
    audit_lease,
    audit_lease_soon,
    leased,
    ledger_lease,
    ledger_lease_when_free,
)
from lakeaudit.results.check_file import check_file
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.change_summary import changes_of
from lakeaudit.results.write import ResultsWriter
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, task_connection
from lakeaudit.runtime.progress import SilentProgress
from lakeaudit.schemas import rows_of

NOW = datetime(2026, 11, 29, 8, tzinfo=UTC)


class KilledError(BaseException):
    """The process ends here."""


@pytest.fixture
def con() -> Iterator[Connection]:
    with task_connection() as opened:
        yield opened


@pytest.fixture
def shop(tmp_path: Path) -> Lake:
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path}/results\n"
        "inventories: [{kind: listing, location: 's3://lake/wh/'}]\n"
        "tables: [{name: orders, location: 's3://lake/wh/orders', manifests: [{kind: delta}]}]\n"
    )
    return load_lake(path, {})


def loss(name: str, **columns: Any) -> dict[str, Any]:
    key = f"wh/orders/{name}"
    return {
        "table_name": "orders", "axis": "content", "kind": "dropped", "severity": "critical", "subject_type": "file",
        "subject": f"s3://lake/{key}", "bucket": "lake", "key": key, "files": 1, "confirmation": "live",
        "cause": "deleted (ObjectRemoved:Delete)", **columns,
    }  # fmt: skip


def publish(
    lake: Lake, con: Connection, run_id: str, *rows: dict[str, Any], at: datetime = NOW
) -> dict[str, int]:
    stamp = RunStamp(run_id, lake.name, at)
    findings = finding_rows.from_plain(con, rows, stamp)
    return dict(Publisher(lake, Clients(), lambda: at).publish(con, findings, stamp))


def results(lake: Lake) -> Results:
    return Results(lake.results, Clients(), lake.name)


def transitions(lake: Lake) -> Counter[str]:
    found = results(lake)
    ids = [row["discrepancy_id"] for row in rows_of(found.discrepancies())]
    return Counter(row["transition"] for row in found.history(ids)) if ids else Counter()


def test_a_loss_is_opened_once_and_no_audit_is_replaced(shop: Lake, con: Connection) -> None:
    assert publish(shop, con, "f1", loss("a"), loss("b")) == {"open": 2}
    assert publish(shop, con, "f2", loss("a"), at=NOW + timedelta(seconds=9)) == {}
    assert publish(shop, con, "f3", loss("a"), loss("c"), at=NOW + timedelta(seconds=18)) == {"open": 1}
    found = results(shop)
    assert (found.runs(), found.last_published(), found.coverage("f1")) == ([], None, [])
    assert [run["run_id"] for run in found.followed()] == ["f1", "f3"]
    assert transitions(shop) == {"opened": 3}
    gate = json.loads(Path(check_file(found).spark_path).read_text())["tables"]["orders"]
    assert gate["open"] == {"critical": 3}, "gates of pipelines see the losses at once"
    assert [(change.number, change.cause) for change in changes_of(found, "f1")] == [
        (2, "deleted (ObjectRemoved:Delete)")
    ]


def test_other_discrepancies_of_the_table_stay_as_they_are(shop: Lake, con: Connection) -> None:
    publish(shop, con, "f1", loss("a"))
    publish(shop, con, "f2", loss("b"), at=NOW + timedelta(days=1))
    rows = {row["key"]: row for row in rows_of(results(shop).discrepancies())}
    assert {key: (row["state"], row["last_run_id"]) for key, row in rows.items()} == {
        "wh/orders/a": ("open", "f1"),
        "wh/orders/b": ("open", "f2"),
    }


def test_evidence_that_is_older_than_a_resolution_opens_nothing(shop: Lake, con: Connection) -> None:
    publish(shop, con, "f1", loss("a"))
    writer = ResultsWriter(results(shop), lambda: None)
    (row,) = rows_of(results(shop).discrepancies())
    resolved = {"state": "resolved", "resolution": "restored", "resolved_at": NOW + timedelta(minutes=9)}
    writer.put_all("discrepancies", [{**row, **resolved, "last_evidence_at": NOW + timedelta(minutes=9)}])
    assert publish(shop, con, "f2", loss("a"), at=NOW + timedelta(minutes=5)) == {}
    assert publish(shop, con, "f3", loss("a"), at=NOW + timedelta(minutes=10)) == {"reopen": 1}


def test_a_held_lease_refuses_the_report(shop: Lake, con: Connection) -> None:
    with leased(shop.results, Clients(), "nightly", SilentProgress()), pytest.raises(Busy):
        publish(shop, con, "f1", loss("a"))
    assert publish(shop, con, "f2", loss("a")) == {"open": 1}


WRITES = ("put", "write", "append", "replace_rows")
"""The writes of a report: the row of the run, findings, transitions, discrepancies, and again the row of the run."""


@pytest.mark.parametrize("after", range(6))
def test_a_process_that_is_killed_while_it_writes_reports_once(
    shop: Lake, con: Connection, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The process ends after so many writes; the next one gets the same events."""
    publish(shop, con, "f0", loss("other"))
    made = 0

    def ending(name: str) -> Callable[..., Any]:
        write = getattr(ResultsWriter, name)

        def with_end(self: ResultsWriter, *args: Any, **more: Any) -> Any:
            nonlocal made
            if made == after:
                raise KilledError
            made += 1
            return write(self, *args, **more)

        return with_end

    with monkeypatch.context() as patched, suppress(KilledError):
        for name in WRITES:
            patched.setattr(ResultsWriter, name, ending(name))
        publish(shop, con, "f1", loss("a"), at=NOW + timedelta(seconds=5))
    assert made == min(after, 5)
    publish(shop, con, "f2", loss("a"), at=NOW + timedelta(minutes=2))
    assert transitions(shop) == {"opened": 2}
    opened = [
        change.number
        for run in results(shop).followed()
        for change in changes_of(results(shop), run["run_id"])
    ]
    assert opened == [1, 1], "each loss is a change of exactly one run, and so of one message"
    assert {run["status"] for run in results(shop).followed()} == {"followed"}


def test_an_audit_waits_for_a_report_and_not_for_another_audit(shop: Lake) -> None:
    holder = ledger_lease(shop.results, Clients(), "follow 20261129T080000Z-1", SilentProgress())
    holder.__enter__()
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        holder.__exit__(None, None, None)

    with leased(shop.results, Clients(), "nightly", SilentProgress(), pause=pause), pytest.raises(Busy):
        audit_lease_soon(shop.results, Clients(), "other", SilentProgress(), pause).__enter__()
    assert waits == [WAIT]


def test_an_audit_that_has_read_for_hours_waits_for_the_alerts_of_follow(shop: Lake) -> None:
    """They may take longer than a minute if a receiver does not answer."""
    waits: list[float] = []
    holder = ledger_lease(shop.results, Clients(), "alert", SilentProgress())
    holder.__enter__()

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if sum(waits) > 2 * LONGEST_BRIEF:
            holder.__exit__(None, None, None)

    with ledger_lease_when_free(shop.results, Clients(), "nightly", SilentProgress(), pause=pause):
        assert sum(waits) > 2 * LONGEST_BRIEF


def test_a_loss_is_reported_while_an_audit_or_a_repair_runs(shop: Lake, con: Connection) -> None:
    publish(shop, con, "f1", loss("a"))
    running = {"run_id": "night", "lake": "shop", "as_of": NOW, "started_at": NOW, "status": "running"}
    ResultsWriter(results(shop), lambda: None).put_run(running)
    with audit_lease(shop.results, Clients(), "night", SilentProgress()):
        assert publish(shop, con, "f2", loss("b")) == {"open": 1}
    assert results(shop).run("night")["status"] == "running", "the audit is alive, and its row stays"
