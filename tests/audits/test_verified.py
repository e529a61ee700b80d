"""`lakeaudit verified` over audits of a real table: it waits, moves forward, and moves back after a loss."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakeaudit.commands import verified as command
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput
from lakeaudit.results.acknowledgements import Ack, put_ack
from lakeaudit.results.summaries.verified_tables import current_watermarks
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.repair_plans import an_hour_old
from tests.builders.shop import Shop
from tests.conftest import Aws

NOW = datetime.now(UTC)


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    made = Shop(aws.s3, s3, bucket)
    made.write("orders")
    made.write("customers")
    an_hour_old(made)
    return made


def lake_of(shop: Shop, tmp_path: Path, extra: str = "") -> Lake:
    return shop.lake(
        tmp_path, inventories=f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse'}}]", extra=extra
    )


def row_of(lake: Lake) -> dict[str, Any]:
    return current_watermarks(results_of(lake), lake, datetime.now(UTC), named=True)["orders"]


def answers(
    lake: Lake, *tables: str, within: timedelta = timedelta(minutes=30)
) -> dict[str, tuple[str, str]]:
    found = command.verified(lake, results_of(lake), tables, datetime.now(UTC) - within, datetime.now(UTC))
    return {each.table: (each.answer, each.reason) for each in found}


def short(lake: Lake, *tables: str, within: timedelta = timedelta(minutes=30)) -> dict[str, str]:
    return {name: answer for name, (answer, _) in answers(lake, *tables, within=within).items()}


def test_from_the_first_audit_to_a_restored_loss(shop: Shop, tmp_path: Path) -> None:
    lake = lake_of(shop, tmp_path)
    assert short(lake) == {"orders": "unknown", "customers": "unknown"}
    audited(lake)
    assert short(lake) == {"orders": "yes", "customers": "yes"}
    assert short(lake, within=timedelta(0)) == {"orders": "unknown", "customers": "unknown"}

    key = shop.keys("orders")[0]
    body = shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read()
    shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    audited(lake)
    assert short(lake) == {"orders": "no", "customers": "yes"}
    row = row_of(lake)
    assert (row["movement"], row["open_discrepancies"], len(row["blocked_by"])) == ("back", 1, 1)

    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=body)
    audited(lake)
    assert short(lake) == {"orders": "yes", "customers": "yes"}
    assert row_of(lake)["movement"] == "forward"


@pytest.mark.variant
@pytest.mark.parametrize(
    ("rule", "answer"), [("", "yes"), ("ledger: {accepted_stop_verified: true}\n", "no")]
)
def test_an_accepted_loss_counts_if_the_lake_file_says_so(
    shop: Shop, tmp_path: Path, rule: str, answer: str
) -> None:
    lake = lake_of(shop, tmp_path, rule)
    shop.s3.delete_object(Bucket=shop.bucket, Key=shop.keys("orders")[0])
    audited(lake)
    assert short(lake, "orders") == {"orders": "no"}
    results = results_of(lake)
    ids = [row["discrepancy_id"] for row in results.unresolved()]
    put_ack(results, ids, Ack("test", "expected", datetime.now(UTC) + timedelta(days=3)))
    audited(lake)
    assert short(lake, "orders") == {"orders": answer}


@pytest.mark.variant
def test_an_evidence_gap_stops_the_watermark(shop: Shop, tmp_path: Path) -> None:
    lake = lake_of(shop, tmp_path)
    audited(lake)
    before = row_of(lake)["verified_through"]
    log = f"warehouse/orders/_delta_log/{2:020}.json"
    shop.s3.put_object(Bucket=shop.bucket, Key=log, Body=b"{damaged")
    audited(lake)
    row = row_of(lake)
    assert row["verified_through"] is None or row["verified_through"] <= before
    assert row["blocked_by"]
    assert short(lake, "orders", within=timedelta(0))["orders"] in ("unknown", "no")


@pytest.mark.variant
def test_an_audit_of_one_table_moves_only_that_table(shop: Shop, tmp_path: Path) -> None:
    lake = lake_of(shop, tmp_path)
    audited(lake, tables=("orders",))
    assert short(lake) == {"orders": "yes", "customers": "unknown"}


def test_the_document_and_the_exit_codes(shop: Shop, tmp_path: Path) -> None:
    lake = lake_of(shop, tmp_path)
    audited(lake)
    through = datetime.now(UTC) - timedelta(minutes=30)
    found = command.verified(lake, results_of(lake), ("ord*", "nothing"), through, datetime.now(UTC))
    out = StringIO()
    verdict = command.write(lake, found, through, out, "json")
    document = json.loads(out.getvalue())
    until = f"{through:%Y-%m-%d %H:%M:%S}Z"
    assert verdict == f"all commits up to {until} are verified: yes for 1 table, unknown for 1 table"
    assert (document["answer"], [each["table"] for each in document["tables"]]) == (
        "unknown",
        ["orders", "nothing"],
    )
    assert command.exit_code(found) == 3
    assert command.exit_code(found[:1]) == 0


WRONG = {
    ("2026-11-31", None): "is not a timestamp",
    (None, "soon"): "is not a duration",
    ("2026-11-01", "24h"): "does not combine",
}


@pytest.mark.parametrize("given", WRONG)
def test_a_wrong_option_is_refused(shop: Shop, tmp_path: Path, given: tuple[str | None, str | None]) -> None:
    with pytest.raises(BadInput, match=WRONG[given]):
        command.demanded_time(lake_of(shop, tmp_path), *given, NOW)


@pytest.mark.variant
def test_the_ledger_counts_as_it_is_now(shop: Shop, tmp_path: Path) -> None:
    """An audit of a partition opens a discrepancy, and writes no row of the whole table."""
    lake = lake_of(shop, tmp_path)
    audited(lake)
    key = shop.keys("orders")[0]
    shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    audited(lake, tables=("orders",), live=True, partitions=(key.split("/")[2],))
    assert short(lake, "orders") == {"orders": "no"}


@pytest.mark.variant
def test_a_table_at_another_location_is_another_table(shop: Shop, tmp_path: Path) -> None:
    audited(lake_of(shop, tmp_path))
    entry = f"- {{name: orders, location: 's3://{shop.bucket}/warehouse/customers', manifests: [{{kind: delta}}]}}"
    lake = shop.lake(tmp_path, tables=[entry])
    assert short(lake) == {"orders": "unknown"}


@pytest.mark.variant
def test_an_audit_with_a_clock_ahead_proves_nothing(shop: Shop, tmp_path: Path) -> None:
    lake = lake_of(shop, tmp_path)
    audited(lake, clock=lambda: datetime.now(UTC) + timedelta(days=3))
    assert short(lake, "orders") == {"orders": "unknown"}


@pytest.mark.variant
def test_a_lost_file_of_an_unknown_commit_stops_it_while_it_seems_too_young(
    shop: Shop, tmp_path: Path
) -> None:
    """The log was cleaned up to a checkpoint of this minute: no file is known to be older than that."""
    place, log = f"s3://{shop.bucket}/warehouse/orders", "warehouse/orders/_delta_log/"
    DeltaTable(place, storage_options=shop.options).create_checkpoint()
    for each in shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix=log)["Contents"]:
        if each["Key"].endswith(".json"):
            shop.s3.delete_object(Bucket=shop.bucket, Key=each["Key"])
    shop.s3.delete_object(Bucket=shop.bucket, Key=shop.keys("orders")[0])
    listing = f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse'}}]"
    lake = shop.lake(tmp_path, inventories=listing, defaults="grace: 1h")
    audited(lake)
    found = answers(lake, within=timedelta(hours=2))
    assert {table: answer for table, (answer, _) in found.items()} == {
        "orders": "unknown",
        "customers": "yes",
    }
    assert "1 file is too young to judge" in found["orders"][1]


@pytest.mark.variant
def test_faults_within_the_margin_of_a_source_stop_it(shop: Shop, tmp_path: Path) -> None:
    """Without live checks: a file that is overwritten, and one that is lost, restored and lost again."""

    def night(margin: str = "20m") -> dict[str, str]:
        begin = datetime.now(UTC)
        listing = f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse', margin: {margin}}}]"
        lake = shop.lake(tmp_path, inventories=listing, defaults="grace: 0s, confirm: {mode: none}")
        audited(lake)
        found = command.verified(lake, results_of(lake), (), begin - timedelta(minutes=20), datetime.now(UTC))
        return {each.table: each.answer for each in found}

    assert night() == {"orders": "yes", "customers": "yes"}
    lost, overwritten = shop.keys("orders")[0], shop.keys("customers")[0]
    body = shop.s3.get_object(Bucket=shop.bucket, Key=lost)["Body"].read()
    shop.s3.put_object(Bucket=shop.bucket, Key=overwritten, Body=b"half")
    shop.s3.delete_object(Bucket=shop.bucket, Key=lost)
    assert night() == {"orders": "no", "customers": "unknown"}
    shop.s3.put_object(Bucket=shop.bucket, Key=lost, Body=body)
    assert night("0s") == {"orders": "yes", "customers": "no"}
    shop.s3.delete_object(Bucket=shop.bucket, Key=lost)
    assert night() == {"orders": "no", "customers": "no"}
