"""Whole audits of Iceberg tables through a catalog (a stand-in over real HTTP, `tests.builders.rest_catalog`)."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.iceberg import IcebergLake, rows
from tests.builders.rest_catalog import RestCatalog, served
from tests.conftest import Aws

pytestmark = pytest.mark.variant


@pytest.fixture
def server() -> Iterator[RestCatalog]:
    with served(RestCatalog()) as rest:
        yield rest


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> IcebergLake:
    return IcebergLake(aws.s3, s3, bucket)


def lake_of(shop: IcebergLake, server: RestCatalog, folder: Path, *names: str) -> Lake:
    entries = [
        f"{{name: {name}, location: 's3://{shop.bucket}/warehouse/{name}', "
        f"manifests: [{{kind: iceberg, catalog: prod, table: shop.{name}}}]}}"
        for name in names
    ]
    catalog = f"metastores: [{{kind: iceberg_rest, name: prod, uri: '{server.uri}'}}]"
    return shop.lake(folder, entries=entries, extra=catalog)


def findings(lake: Lake, run_id: str) -> list[tuple[str, str, str]]:
    found = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    return sorted((row["kind"], row["severity"], row["key"] or row["subject"]) for row in found)


def run(lake: Lake, run_id: str) -> Outcome:
    time.sleep(1.1)  # times of storage have whole seconds
    return audited(lake, run_id=run_id)


def refusals(lake: Lake, run_id: str) -> dict[str, str]:
    coverage: list[dict[str, Any]] = results_of(lake).coverage(run_id)
    return {
        row["table_name"]: row["reason"] for row in coverage if row["axis"] == "content" and row["reason"]
    }


def write_uncommitted_metadata(shop: IcebergLake, table: Table) -> None:
    """Write a newer, uncommitted metadata.json without a snapshot: by the folder a live file would be unused."""
    folder = f"warehouse/orders/metadata/00099-{'0' * 8}-1111-2222-3333-{'4' * 12}.metadata.json"
    losing = json.loads(table.metadata.model_dump_json())
    losing |= {"snapshots": losing["snapshots"][:1], "current-snapshot-id": losing["snapshots"][0]["snapshot-id"],
               "last-updated-ms": losing["last-updated-ms"] + 60_000, "refs": {}}  # fmt: skip
    shop.s3.put_object(Bucket=shop.bucket, Key=folder, Body=json.dumps(losing).encode())


def wrong(lake: Lake, run_id: str) -> list[tuple[str, str, str]]:
    return [each for each in findings(lake, run_id) if each[1] != "info"]


def test_what_the_catalog_points_at_is_audited_and_a_table_that_it_cannot_answer_for_says_why(
    shop: IcebergLake, server: RestCatalog, tmp_path: Path
) -> None:
    """The latter's folder has a newest metadata.json, and a file of it is lost: that is not reported."""
    orders = server.tables["shop", "orders"] = shop.table("orders")
    shop.table("visits")
    write_uncommitted_metadata(shop, orders)
    (lost, *_), (unknown, *_) = shop.keys("/orders/data/"), shop.keys("/visits/data/")
    for key in (lost, unknown):
        shop.drop(key)
    orders.append(rows(9000))
    lake = lake_of(shop, server, tmp_path, "orders", "visits")
    outcome = run(lake, "r")
    assert outcome.exit_code == 3
    assert wrong(lake, "r") == [("dropped", "critical", lost)]
    assert "prod shop.visits: the catalog answers 404: does not exist" in refusals(lake, "r")["visits"]
    assert set(refusals(lake, "r")) == {"visits"}


def test_tables_that_a_catalog_names_are_audited_and_retired_when_it_names_them_no_more(
    shop: IcebergLake, server: RestCatalog, tmp_path: Path
) -> None:
    """A catalog that does not answer for a moment retires nothing; of `orders` no race that was lost is audited."""
    orders = shop.table("orders")
    server.tables |= {("shop", "orders"): orders, ("shop", "visits"): shop.table("visits")}
    write_uncommitted_metadata(shop, orders)
    (lost, *_) = shop.keys("/visits/data/")
    shop.drop(lost)
    found = ["discover: {from: iceberg_rest, catalog: prod}"]
    catalog = f"metastores: [{{kind: iceberg_rest, name: prod, uri: '{server.uri}'}}]"
    lake = shop.lake(tmp_path, entries=[f"{{{each}}}" for each in found], extra=catalog)
    first = run(lake, "first")
    assert {table.name for table in first.tables} == {"shop.orders", "shop.visits"}
    assert wrong(lake, "first") == [("dropped", "critical", lost)]
    assert (first.exit_code, first.warnings) == (0, ())
    content = [row for row in results_of(lake).coverage("first") if row["axis"] == "content"]
    assert {row["table_name"]: (row["status"], row["decided_share"]) for row in content} == {
        "shop.orders": ("complete", 1.0), "shop.visits": ("complete", 1.0),
    }  # fmt: skip
    server.faults.append(lambda _, path, __: (403, {}) if path.endswith("/tables/visits") else None)
    missed = run(lake, "missed")
    assert missed.exit_code == 3
    assert any("tables may be missed: prod: shop.visits: " in warning for warning in missed.warnings)
    assert ledger_states(lake) == [("shop.visits", "open", None)]
    server.faults.clear()
    del server.tables["shop", "visits"]
    gone = run(lake, "gone")
    assert ledger_states(lake) == [("shop.visits", "resolved", "retired")]
    assert gone.exit_code == 0
    assert "audited before, and no catalog names it now: shop.visits" in gone.warnings


def ledger_states(lake: Lake) -> list[tuple[str, str, str | None]]:
    rows_ = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
    return [(row["table_name"], row["state"], row["resolution"]) for row in rows_ if row["kind"] == "dropped"]
