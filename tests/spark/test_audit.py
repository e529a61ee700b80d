"""Whole audits on a real lake: what is found, what cannot be judged, and what the audit says of itself."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakeaudit.aws import Clients, Endpoint
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput, Busy, CannotPublish
from lakeaudit.ledger.lease import leased
from lakeaudit.outcome import Outcome
from lakeaudit.progress import SilentProgress
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws

Audit = Callable[..., Outcome]
LIVE_ONLY = "[{kind: listing, location: 's3://%s/warehouse/'}]"


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    made = Shop(aws.s3, s3, bucket)
    made.write("orders")
    made.write("customers")
    return made


@pytest.fixture
def run(spark: SparkSession) -> Audit:
    return partial(audited, spark)


def found(lake: Lake, run_id: str) -> list[tuple[str, str, str]]:
    """(table, kind, key) of a run's findings."""
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    return sorted((row["table_name"] or "", row["kind"], row["key"] or row["subject"]) for row in rows)


def states(outcome: Outcome, axis: str = "content") -> dict[str, str]:
    return {table: axes[axis]["status"] for table, axes in outcome.summary["coverage"].items()}


def test_each_damage_is_named_by_its_key_and_a_run_again_leaves_the_same_rows(
    shop: Shop, run: Audit, tmp_path: Path
) -> None:
    gone, cut_short = shop.keys("orders")[:2]
    twin = shop.keys("customers")[0]
    copy = twin.replace(".parquet", "-copy.parquet")
    time.sleep(1.1)  # S3 times have whole seconds: the copy has to be younger than the table
    shop.s3.delete_object(Bucket=shop.bucket, Key=gone)
    shop.s3.put_object(Bucket=shop.bucket, Key=cut_short, Body=b"torn")
    shop.s3.copy_object(Bucket=shop.bucket, Key=copy, CopySource=f"{shop.bucket}/{twin}")
    shop.take_inventory()
    lake = shop.lake(tmp_path, defaults="grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1B")
    day, results = twin.split("/")[2], results_of(lake)
    for outcome in (run(lake, run_id="nightly"), run(lake, run_id="nightly")):
        leftovers = results.leftover_files("nightly")
        assert [row["key"] for batch in leftovers for row in batch.to_pylist()] == [copy]
        assert found(lake, "nightly") == [
            ("customers", "duplicate_content", copy),
            ("customers", "uncommitted", f"{day}#uncommitted"),
            ("orders", "dropped", gone),
            ("orders", "size_mismatch", cut_short),
        ]
        assert sum(outcome.summary["findings"].values()) == 4
        assert [row["run_id"] for row in results.runs()] == ["nightly"]
    dropped = next(row for row in results.worst("nightly", 9) if row["kind"] == "dropped")
    assert (dropped["rows_at_stake"], dropped["confirmation"], dropped["partition_path"]) == (
        50, "live", gone.split("/")[2],
    )  # fmt: skip


def test_one_table_alone_still_knows_the_others_references(shop: Shop, run: Audit, tmp_path: Path) -> None:
    shop.s3.delete_object(Bucket=shop.bucket, Key=shop.keys("orders")[0])
    shop.s3.delete_object(Bucket=shop.bucket, Key=shop.keys("customers")[0])
    shop.take_inventory()
    lake = shop.lake(tmp_path)
    outcome = run(lake, tables=("customers",))
    assert [table for table, _, _ in found(lake, outcome.run_id)] == ["customers"]
    assert list(outcome.summary["tables"]) == ["customers"]


def test_a_live_audit_lists_now_and_needs_no_inventory(shop: Shop, run: Audit, tmp_path: Path) -> None:
    lake = shop.lake(tmp_path)
    gone = shop.keys("orders")[0]
    shop.s3.delete_object(Bucket=shop.bucket, Key=gone)
    outcome = run(lake, tables=("orders",), live=True)
    assert found(lake, outcome.run_id) == [("orders", "dropped", gone)]


def test_a_removal_since_the_inventory_is_not_a_loss(shop: Shop, run: Audit, tmp_path: Path) -> None:
    """The report is hours old; meanwhile a file was lost and put back: storage answers now."""
    key = shop.keys("orders")[0]
    body = shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read()
    shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    shop.take_inventory()
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=body)
    lake = shop.lake(tmp_path, defaults="grace: 1h, leftover_age: 0s, max_upload: 0s")
    assert found(lake, run(lake).run_id) == []


Damage = Callable[[Shop], Any]


def _no_report(shop: Shop) -> None:
    shop.take_inventory(checksum=False)


def _stale(shop: Shop) -> None:
    shop.take_inventory(at=datetime.now(UTC) - timedelta(days=9))


@pytest.mark.parametrize(
    ("damage", "exit_code", "content", "kinds"),
    [
        (_no_report, 10, {"orders": "partial", "customers": "partial"}, ["unreadable_evidence"]),
        (_stale, 3, {"orders": "complete", "customers": "complete"}, ["unreadable_evidence"]),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_evidence_with_a_gap_is_partial_and_raises_no_false_alarm(
    shop: Shop, run: Audit, tmp_path: Path, damage: Damage, exit_code: int, content: dict[str, str],
    kinds: Sequence[str],
) -> None:  # fmt: skip
    damage(shop)
    lake = shop.lake(tmp_path)
    outcome = run(lake)
    assert outcome.exit_code == exit_code, outcome.summary["coverage"]
    assert sorted(outcome.summary["findings"]) == sorted(kinds)
    assert {table: state for table, state in states(outcome).items() if table in content} == content


def test_logs_with_gaps_leave_their_own_tables_partial_and_no_other(
    shop: Shop, run: Audit, tmp_path: Path
) -> None:
    """A commit of orders is gone, one of customers torn; stock asks for a feature nobody knows; prices is well."""
    shop.write("orders")
    shop.write("stock", commits=1)
    shop.write("prices", commits=1)
    shop.take_inventory()
    shop.s3.delete_object(Bucket=shop.bucket, Key=commit("orders", 1))
    rewrite(shop, commit("customers", 1), lambda body: body[:-40])
    rewrite(shop, commit("stock", 0), lambda body: body.replace(b'{"protocol":', UNKNOWN + b'{"unread":'))
    outcome = run(shop.lake(tmp_path))
    assert outcome.exit_code == 3
    assert outcome.summary["findings"] == {"missing_metadata": 2}
    assert states(outcome) == {
        "orders": "partial", "customers": "partial", "stock": "partial", "prices": "complete",
    }  # fmt: skip


UNKNOWN = (
    b"""{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timeTurner"],
    "writerFeatures": ["timeTurner"]}}""".replace(b"\n", b"")
    + b"\n"
)


def commit(table: str, version: int) -> str:
    return f"warehouse/{table}/_delta_log/{version:020}.json"


def rewrite(shop: Shop, key: str, change: Callable[[bytes], bytes]) -> None:
    body = shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read()
    assert change(body) != body
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=change(body))


def test_a_hole_in_storage_is_answered_by_a_live_look(shop: Shop, run: Audit, tmp_path: Path) -> None:
    gone = shop.keys("orders")[0]
    shop.s3.delete_object(Bucket=shop.bucket, Key=gone)
    _missing_and_torn_data_files(shop)
    lake = shop.lake(tmp_path)
    looked = run(lake)
    assert (looked.exit_code, looked.summary["findings"]) == (3, {"dropped": 1, "unreadable_evidence": 1})
    assert ("orders", "dropped", gone) in found(lake, looked.run_id)
    blind = shop.lake(tmp_path, defaults="grace: 0s, confirm: {mode: none}")
    outcome = run(blind)
    assert outcome.summary["findings"] == {"unreadable_evidence": 1}
    assert states(outcome)["orders"] == "partial"


def _missing_and_torn_data_files(shop: Shop) -> None:
    laid = shop.take_inventory(files=3)
    shop.s3.put_object(Bucket=shop.bucket, Key=laid.data[0], Body=b"torn")
    shop.s3.delete_object(Bucket=shop.bucket, Key=laid.data[1])


def test_a_table_that_no_source_covers_is_said(shop: Shop, run: Audit, tmp_path: Path) -> None:
    shop.take_inventory()
    covers = f"covers: ['s3://{shop.bucket}/warehouse/orders/']"
    only_orders = (
        f"[{{kind: s3_inventory, location: 's3://{shop.bucket}/inventories/', margin: 0s, {covers}}}]"
    )
    outcome = run(shop.lake(tmp_path, inventories=only_orders))
    assert (outcome.exit_code, states(outcome)) == (3, {"orders": "complete", "customers": "partial"})
    assert outcome.summary["coverage"]["customers"]["content"]["decided_share"] == 0


def test_ignored_and_silenced_findings_are_counted_and_not_written(
    shop: Shop, run: Audit, tmp_path: Path
) -> None:
    shop.s3.delete_object(Bucket=shop.bucket, Key=shop.keys("orders")[0])
    shop.s3.put_object(Bucket=shop.bucket, Key=shop.keys("customers")[0], Body=b"torn")
    shop.take_inventory()
    extra = (
        "severity: {size_mismatch: 'off'}\nignore: [{tables: [orders], kinds: [dropped], reason: known}]\n"
    )
    outcome = run(shop.lake(tmp_path, extra=extra))
    assert outcome.summary["findings"] == {}
    assert outcome.exit_code == 0


def test_results_that_cannot_be_written_end_before_the_audit(shop: Shop, run: Audit, tmp_path: Path) -> None:
    shop.take_inventory()
    lake = shop.lake(tmp_path)
    (tmp_path / "results").write_text("a file where a folder is wanted")
    with pytest.raises(CannotPublish) as told:
        run(lake)
    assert str(told.value).count("\n") == 0
    assert told.value.exit_code == 14


def test_of_two_audits_at_once_the_second_is_refused(shop: Shop, run: Audit, tmp_path: Path) -> None:
    lake = shop.lake(tmp_path)
    with leased(lake.results, Clients(), "nightly", SilentProgress()), pytest.raises(Busy) as told:
        run(lake)
    assert told.value.exit_code == 13
    assert "another audit writes here (nightly)" in str(told.value)
    assert not (tmp_path / "results" / "runs").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tables": ("nobody",)}, "no table nobody"),
        ({"as_of": datetime(2099, 1, 1, tzinfo=UTC)}, "future"),
        ({"as_of": datetime(2026, 1, 1, tzinfo=UTC), "live": True}, "--as-of"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    shop: Shop, run: Audit, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        run(shop.lake(tmp_path), **options)
