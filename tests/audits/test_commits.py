"""Whole audits of tables whose logs have a commit that was written twice, and of healthy ones that look alike."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import time as time_of_day
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeaudit.config import Lake
from lakeaudit.runtime.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import Action, add
from tests.builders.shop import Shop
from tests.conftest import Aws


@dataclass
class Orders:
    """The log of the shop's one table."""

    shop: Shop

    def key(self, version: int, ending: str = "json") -> str:
        return f"warehouse/orders/_delta_log/{version:020}.{ending}"

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
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=f"warehouse/orders/{key}", Body=body)
        return add(key, size=len(body), partitionValues={"day": "2026-11-09"})


@pytest.fixture
def orders(aws: Aws, s3: Endpoint, bucket: str) -> Orders:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=3)
    return Orders(shop)


def info(orders: Orders, version: int) -> Action:
    return next(action for action in orders.actions(version) if "commitInfo" in action)


def adds(orders: Orders, version: int) -> list[Action]:
    return [action for action in orders.actions(version) if "add" in action]


def overwritten(orders: Orders) -> None:
    """Another writer puts a commit of its own over commit 1."""
    orders.put(1, info(orders, 1), orders.other())


def told(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    return [row for row in rows if row["axis"] == "commit"]


def test_what_the_lost_version_added_is_told_with_it(orders: Orders, tmp_path: Path) -> None:
    lost = adds(orders, 1)
    overwritten(orders)
    orders.shop.take_inventory(all_versions=True)
    lake = orders.shop.lake(tmp_path)
    outcome = audited(lake, run_id="first")
    (row,) = told(lake, "first")
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
    assert outcome.summary["findings"]["overwritten_commit"] == 1
    assert counted(lake, "first") == ("complete", 2, 1, 0)
    assert row["recoverable_until"] is None


def test_until_when_a_lost_version_is_kept_is_told_with_it(orders: Orders, tmp_path: Path) -> None:
    rule: Any = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""},
                 "NoncurrentVersionExpiration": {"NoncurrentDays": 3}}  # fmt: skip
    orders.shop.s3.put_bucket_lifecycle_configuration(
        Bucket=orders.shop.bucket, LifecycleConfiguration={"Rules": [rule]}
    )
    overwritten(orders)
    orders.shop.take_inventory(all_versions=True)
    lake = orders.shop.lake(tmp_path)
    assert audited(lake, run_id="first").warnings == ()
    (row,) = told(lake, "first")
    days = row["recoverable_until"] - row["storage_time"]
    assert timedelta(days=3) <= days <= timedelta(days=4)
    assert row["recoverable_until"].time() == time_of_day(0)
    assert row["explanation"].endswith(
        f"old deletes that version from {row['recoverable_until']:%Y-%m-%d} on"
    )


def counted(lake: Lake, run_id: str) -> tuple[str, int, int, int]:
    """Status, consistent, findings and undecided of the one table's commits."""
    (row,) = [row for row in results_of(lake).coverage(run_id) if row["axis"] == "commit"]
    return row["status"], row["consistent"], row["findings"], row["undecided"]


def adds_of(body: bytes) -> list[Action]:
    return [action for line in body.splitlines() if "add" in (action := json.loads(line))]


def test_what_was_lost_and_added_again_is_restored(orders: Orders, tmp_path: Path) -> None:
    lost = adds(orders, 1)
    overwritten(orders)
    orders.shop.take_inventory(all_versions=True)
    lake = orders.shop.lake(tmp_path)
    audited(lake, run_id="first")
    orders.put(3, info(orders, 2), *lost)
    orders.shop.take_inventory(all_versions=True)
    audited(lake, run_id="second")
    assert told(lake, "second") == []
    known = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
    states = {(row["kind"], row["state"], row["resolution"]) for row in known if row["axis"] == "commit"}
    assert states == {("overwritten_commit", "resolved", "restored")}


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
    for key in orders.shop.keys("orders"):
        orders.shop.s3.delete_object(Bucket=orders.shop.bucket, Key=key)
    time.sleep(1.1)  # versions and markers have whole seconds
    orders.shop.write("orders", commits=3, rows=20)


def an_optimize_overwritten(orders: Orders) -> None:
    """What compacts files changes no data: nothing is lost with it."""
    body = orders.read(1)
    orders.put(1, info(orders, 1), add("compacted.parquet", dataChange=False))
    orders.write(1, body)


HEALTHY: dict[str, Callable[[Orders], None]] = {
    "the same bytes put again": the_same_again,
    "the same actions committed again": the_same_actions_retried,
    "a table dropped and made anew": deleted_and_made_anew,
    "a compaction that lost": an_optimize_overwritten,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_log_is_quiet(name: str, orders: Orders, tmp_path: Path) -> None:
    HEALTHY[name](orders)
    orders.shop.take_inventory(all_versions=True)
    lake = orders.shop.lake(tmp_path)
    outcome = audited(lake, run_id="first")
    assert told(lake, "first") == []
    assert counted(lake, "first") == ("complete", 3, 0, 0)
    assert not [line for line in outcome.warnings if "commit" in line]


def test_without_versions_a_checksum_of_another_transaction_proves_it(orders: Orders, tmp_path: Path) -> None:
    """Commit 1 was put again after commit 2: its checksum file is that of the first writer."""
    mine = info(orders, 1)
    mine["commitInfo"]["txnId"] = "other"
    time.sleep(3.1)  # more than clocks step
    orders.put(1, mine, *adds(orders, 1))
    orders.write(1, b'{"txnId":"first","numFiles":6}', "crc")
    orders.shop.take_inventory()
    lake = orders.shop.lake(tmp_path)
    audited(lake, run_id="first")
    (row,) = told(lake, "first")
    assert (row["severity"], row["commit_id"], row["recoverable"]) == ("critical", "1", "unknown")
    assert "computed of another transaction" in row["explanation"]


def appended_twice(orders: Orders) -> None:
    """A job that did not hear of its success runs once more."""
    for _ in range(2):
        rows = pa.table({"day": ["2026-11-05"] * 40, "amount": list(range(40))})
        write_deltalake(
            f"s3://{orders.shop.bucket}/warehouse/orders", rows, mode="append", partition_by=["day"],
            storage_options=orders.shop.options,
        )  # fmt: skip


def test_a_batch_appended_twice_is_named_at_its_younger_commit(orders: Orders, tmp_path: Path) -> None:
    appended_twice(orders)
    orders.shop.take_inventory()
    lake = orders.shop.lake(tmp_path)
    audited(lake, run_id="first")
    (row,) = told(lake, "first")
    assert (row["kind"], row["severity"], row["commit_id"], row["related_key"]) == (
        "duplicate_commit", "warning", "4", orders.key(3),
    )  # fmt: skip
    assert (row["files"], row["rows_at_stake"]) == (1, 40)
    assert "probably one batch appended twice" in row["explanation"]
    orders.put(
        5, info(orders, 1), {"remove": {"path": adds(orders, 4)[0]["add"]["path"], "dataChange": True}}
    )
    orders.shop.take_inventory()
    audited(lake, run_id="second")
    assert told(lake, "second") == []
    known = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
    assert {row["state"] for row in known if row["axis"] == "commit"} == {"resolved"}
