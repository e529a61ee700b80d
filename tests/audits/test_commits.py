"""Whole audits of tables whose logs have a commit that was written twice, and of similar healthy ones.

They lie in one versioned bucket, and are audited together: once as they are, and once repaired.
"""

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import time as time_of_day
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeaudit.audit.outcome import Outcome
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import Action, add
from tests.builders.shop import Shop
from tests.conftest import Aws


@dataclass
class Orders:
    """The log of a table of the shop."""

    shop: Shop
    table: str = "orders"

    def key(self, version: int, ending: str = "json") -> str:
        return f"warehouse/{self.table}/_delta_log/{version:020}.{ending}"

    def read(self, version: int) -> bytes:
        return self.shop.s3.get_object(Bucket=self.shop.bucket, Key=self.key(version))["Body"].read()

    def actions(self, version: int) -> list[Action]:
        return [json.loads(line) for line in self.read(version).splitlines()]

    def put(self, version: int, *actions: Action) -> None:
        self.write(version, "".join(json.dumps(action) + "\n" for action in actions).encode())

    def write(self, version: int, body: bytes, ending: str = "json") -> None:
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=self.key(version, ending), Body=body)

    def delete(self, version: int) -> None:
        self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=self.key(version))

    def other(self) -> Action:
        """A file of another writer, which is in storage."""
        key = "day=2026-11-09/other.parquet"
        body = b"x" * 500
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=f"warehouse/{self.table}/{key}", Body=body)
        return add(key, size=len(body), partitionValues={"day": "2026-11-09"})


def info(orders: Orders, version: int) -> Action:
    """The commitInfo of a version, for other actions than its own: without what its writer counted of these."""
    found = next(action for action in orders.actions(version) if "commitInfo" in action)
    found["commitInfo"].pop("operationMetrics", None)
    return found


def adds(orders: Orders, version: int) -> list[Action]:
    return [action for action in orders.actions(version) if "add" in action]


def overwritten(orders: Orders) -> None:
    """Another writer puts a commit of its own over commit 1."""
    orders.put(1, info(orders, 1), orders.other())


def the_same_again(orders: Orders) -> None:
    orders.write(1, orders.read(1))


def the_same_actions_retried(orders: Orders) -> None:
    """A writer that did not hear of its success commits the same files once more."""
    again = info(orders, 1)
    again["commitInfo"]["timestamp"] += 700
    orders.put(1, again, *adds(orders, 1))


def deleted_and_made_anew(orders: Orders) -> None:
    """The table was dropped and written again: its old log lies under delete markers."""
    for version in range(3):
        orders.delete(version)
    for key in orders.shop.keys(f"{orders.table}/"):
        orders.shop.s3.delete_object(Bucket=orders.shop.bucket, Key=key)
    time.sleep(1.1)  # versions and markers have whole seconds
    orders.shop.write(orders.table, commits=3, rows=20)


def an_optimize_overwritten(orders: Orders) -> None:
    """A compaction changes no data, so nothing is lost with it."""
    body = orders.read(1)
    orders.put(1, info(orders, 1), add("compacted.parquet", dataChange=False))
    orders.write(1, body)


HEALTHY: dict[str, Callable[[Orders], None]] = {
    "put_again": the_same_again,
    "committed_again": the_same_actions_retried,
    "made_anew": deleted_and_made_anew,
    "lost_compaction": an_optimize_overwritten,
}


def appended_twice(orders: Orders) -> None:
    """A job that did not hear of its success runs once more."""
    for _ in range(2):
        rows = pa.table({"day": ["2026-11-05"] * 40, "amount": list(range(40))})
        write_deltalake(
            f"s3://{orders.shop.bucket}/warehouse/{orders.table}", rows, mode="append", partition_by=["day"],
            storage_options=orders.shop.options,
        )  # fmt: skip


ENDS: Any = {
    "ID": "old", "Status": "Enabled", "Filter": {"Prefix": "warehouse/kept_for_days/"},
    "NoncurrentVersionExpiration": {"NoncurrentDays": 3},
}  # fmt: skip
HARMED: dict[str, Callable[[Orders], None]] = {
    "lost": overwritten,
    "kept_for_days": overwritten,
    "restored": overwritten,
    "appended": appended_twice,
}


@dataclass(frozen=True)
class Audits:
    """Results of two audits by table; `restored` and `appended` were repaired between them."""

    shop: Shop
    lost: dict[str, list[Action]]
    """The files that commit 1 added at first, by table."""
    outcome: Outcome
    findings: dict[str, list[dict[str, Any]]]
    coverage: list[dict[str, Any]]
    ledger: list[dict[str, Any]]

    def commit_findings(self, table: str, run: str = "first") -> list[dict[str, Any]]:
        return [r for r in self.findings[run] if (r["axis"], r["table_name"]) == ("commit", table)]

    def commit_counts(self, table: str) -> tuple[str, int, int, int]:
        """Return status, consistent, findings and undecided of a table's commits in the first audit."""
        (row,) = (r for r in self.coverage if (r["axis"], r["table_name"]) == ("commit", table))
        return row["status"], row["consistent"], row["findings"], row["undecided"]

    def ends(self, table: str) -> set[tuple[str, str, str | None]]:
        rows = [r for r in self.ledger if (r["axis"], r["table_name"]) == ("commit", table)]
        return {(row["kind"], row["state"], row["resolution"]) for row in rows}


@pytest.fixture(scope="module")
def audits(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Audits:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    aws.s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [ENDS]})
    shop, lost = Shop(aws.s3, s3, bucket), dict[str, list[Action]]()
    for table, harm in (HARMED | HEALTHY).items():
        shop.write(table, commits=3)
        lost[table] = adds(Orders(shop, table), 1)
        harm(Orders(shop, table))
    shop.take_inventory(all_versions=True)
    lake = shop.lake(tmp_path_factory.mktemp("commits"))
    outcome = audited(lake, run_id="first")
    restored, appended = Orders(shop, "restored"), Orders(shop, "appended")
    restored.put(3, info(restored, 2), *lost["restored"])
    path = adds(appended, 4)[0]["add"]["path"]
    appended.put(5, info(appended, 1), {"remove": {"path": path, "dataChange": True}})
    shop.take_inventory(all_versions=True)
    audited(lake, run_id="second")
    results = results_of(lake)
    findings = {run: list(rows_of(results.findings(run))) for run in ("first", "second")}
    ledger = list(rows_of(results.discrepancies()))
    return Audits(shop, lost, outcome, findings, results.coverage("first"), ledger)


def test_a_lost_version_is_reported_with_the_files_that_it_added(audits: Audits) -> None:
    (row,), lost, orders = audits.commit_findings("lost"), audits.lost["lost"], Orders(audits.shop, "lost")
    assert (row["kind"], row["severity"], row["subject_type"], row["commit_id"], row["key"]) == (
        "overwritten_commit", "critical", "commit", "1", orders.key(1),
    )  # fmt: skip
    assert (row["files"], row["rows_at_stake"], row["bytes_at_stake"]) == (
        3, 150, sum(one["add"]["size"] for one in lost),
    )  # fmt: skip
    assert (row["recoverable"], row["recovery"]) == ("yes", "older_version")
    first = orders.shop.s3.get_object(
        Bucket=orders.shop.bucket, Key=orders.key(1), VersionId=row["recovery_version_id"]
    )
    assert adds_of(first["Body"].read()) == lost
    assert lost[0]["add"]["path"].rpartition("/")[2] in row["explanation"]
    assert audits.outcome.summary["findings"]["overwritten_commit"] == 3
    assert audits.commit_counts("lost") == ("complete", 2, 1, 0)
    assert row["recoverable_until"] is None


def test_a_lost_version_is_reported_with_the_day_until_which_it_is_kept(audits: Audits) -> None:
    (row,) = audits.commit_findings("kept_for_days")
    days = row["recoverable_until"] - row["storage_time"]
    assert timedelta(days=3) <= days <= timedelta(days=4)
    assert row["recoverable_until"].time() == time_of_day(0)
    assert row["explanation"].endswith(
        f"on {row['recoverable_until']:%Y-%m-%d} or later, lifecycle rule old deletes the version that can be restored"
    )
    assert audits.outcome.warnings == ()


def adds_of(body: bytes) -> list[Action]:
    return [action for line in body.splitlines() if "add" in (action := json.loads(line))]


def test_what_was_lost_and_added_again_is_restored(audits: Audits) -> None:
    assert [row["kind"] for row in audits.commit_findings("restored")] == ["overwritten_commit"]
    assert audits.commit_findings("restored", "second") == []
    assert audits.ends("restored") == {("overwritten_commit", "resolved", "restored")}


@pytest.mark.parametrize("table", HEALTHY)
def test_a_healthy_log_is_quiet(audits: Audits, table: str) -> None:
    assert audits.commit_findings(table) == []
    assert audits.commit_counts(table) == ("complete", 3, 0, 0)


def test_a_batch_appended_twice_is_named_at_its_younger_commit(audits: Audits) -> None:
    (row,) = audits.commit_findings("appended")
    assert (row["kind"], row["severity"], row["commit_id"], row["related_key"]) == (
        "duplicate_commit", "warning", "4", Orders(audits.shop, "appended").key(3),
    )  # fmt: skip
    assert (row["files"], row["rows_at_stake"]) == (1, 40)
    assert "probably one batch was appended twice" in row["explanation"]
    assert audits.commit_findings("appended", "second") == []
    assert {state for _, state, _ in audits.ends("appended")} == {"resolved"}


def test_without_versions_a_checksum_of_another_transaction_proves_it(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """Commit 1 was put again after commit 2: its checksum file is that of the first writer."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=3)
    orders = Orders(shop)
    mine = info(orders, 1)
    mine["commitInfo"]["txnId"] = "other"
    time.sleep(3.1)  # more than clocks step
    orders.put(1, mine, *adds(orders, 1))
    orders.write(1, b'{"txnId":"first","numFiles":6}', "crc")
    shop.take_inventory()
    lake = shop.lake(tmp_path)
    audited(lake, run_id="first")
    (row,) = [row for row in rows_of(results_of(lake).findings("first")) if row["axis"] == "commit"]
    assert (row["severity"], row["commit_id"], row["recoverable"]) == ("critical", "1", "unknown")
    assert "computed of another transaction" in row["explanation"]
