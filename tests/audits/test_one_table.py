"""One table by all that knows of it: Iceberg manifests, REST catalog, Hive Metastore, S3 Inventory and access log.

The REST catalog and the metastore are the stand-ins of `tests.builders`.
"""

import json
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from lakeaudit import cli
from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders import access_logs
from tests.builders.access_logs import LIFECYCLE, Line, content, expired, write_line
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.hive_metastore import MetastoreStandIn
from tests.builders.hive_metastore import served as metastore_served
from tests.builders.iceberg import NO_WAIT, IcebergLake
from tests.builders.inventory import Version, csv, into, lay
from tests.builders.rest_catalog import RestCatalog, served
from tests.conftest import Aws


class OneTable:
    """A bucket with one table, the catalogs that name it, and the newest pictures of both."""

    def __init__(
        self, aws: Aws, s3: Endpoint, bucket: str, folder: Path, rest: RestCatalog, hive: MetastoreStandIn
    ) -> None:
        self.s3, self.folder, self.rest, self.hive = aws.s3, folder, rest, hive
        self.shop = IcebergLake(aws.s3, s3, bucket)
        self.table = self.shop.table()
        self.registered(self.table, bucket)
        self.logged(
            write_line("elsewhere/report.csv", datetime.now(UTC).replace(microsecond=0), bucket=bucket), "0"
        )

    def registered(self, table: Table, bucket: str) -> None:
        """Register the table in both catalogs, at its present state."""
        self.rest.tables["shop", "orders"] = table
        pointer = {"table_type": "ICEBERG", "metadata_location": table.metadata_location}
        self.hive.table("orders", f"s3a://{bucket}/warehouse/orders", parameters=pointer, database="shop")

    def write_inventory(self, bucket: str) -> None:
        """Write an S3 Inventory report of a bucket as it is now."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="warehouse/")
        rows = [
            Version(each["Key"], None, Size=each["Size"], LastModifiedDate=each["LastModified"],
                    ETag=each["ETag"].strip('"'), Bucket=bucket)
            for page in pages for each in page.get("Contents", [])
        ]  # fmt: skip
        at = datetime.now(UTC)
        lay(into(self.folder / f"inventory-{bucket}"), [csv(rows)], at=at, source=bucket)

    def expired(self, key: str) -> None:
        """A lifecycle rule deletes an object; the log says so."""
        self.shop.drop(key)
        now = datetime.now(UTC).replace(microsecond=0)
        self.logged(expired(key, now, bucket=self.shop.bucket), "1")

    def logged(self, line: Line, unique: str) -> None:
        """A file of the access log that was delivered then."""
        name = f"logs/{access_logs.name(line.at, unique)}"
        self.s3.put_object(Bucket=self.shop.bucket, Key=name, Body=content([line]))

    def lake(self, bucket: str, extra: str = "") -> Lake:
        """The table in a bucket by everything that knows of it; the log is that of the bucket it was made in."""
        path = self.folder / "lake.yaml"
        location = f"s3://{bucket}/warehouse/orders"
        manifest = "{kind: iceberg, catalog: prod, table: shop.orders}"
        path.write_text(
            f"version: 1\nlake: shop\nresults: {self.folder / 'results'}\n"
            f"s3: {{endpoint: '{self.shop.endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{{kind: s3_inventory, location: '{self.folder}/inventory-{bucket}/inv', margin: 0s}}]\n"
            f"metastores: [{{kind: iceberg_rest, name: prod, uri: '{self.rest.uri}'}},"
            f" {{kind: hive, name: warehouse, uri: '{self.hive.uri}'}}]\n"
            f"events: [{{kind: s3_access_log, location: 's3://{self.shop.bucket}/logs/'}}]\n"
            f"tables: [{{name: shop.orders, location: '{location}', manifests: [{manifest}]}}]\n"
            f"defaults: {{{NO_WAIT}}}\n{extra}"
        )
        return load_lake(path, {})


@pytest.fixture
def one(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Iterator[OneTable]:
    rest, hive = RestCatalog(), MetastoreStandIn()
    with served(rest), metastore_served(hive):
        yield OneTable(aws, s3, bucket, tmp_path, rest, hive)


def findings_of(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    return [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]


def covered(lake: Lake, run_id: str) -> dict[str, tuple[str, float | None]]:
    """Return status and decided share of the table, by axis."""
    return {row["axis"]: (row["status"], row["decided_share"]) for row in results_of(lake).coverage(run_id)}


def test_a_file_that_a_lifecycle_rule_deleted_is_one_finding_of_all_that_is_known(one: OneTable) -> None:
    bucket = one.shop.bucket
    time.sleep(1.1)  # times of storage and log have whole seconds
    one.write_inventory(bucket)
    lake = one.lake(bucket)
    healthy = audited(lake, run_id="healthy")
    assert (findings_of(lake, "healthy"), healthy.exit_code, healthy.warnings) == ([], 0, ())
    assert {covered(lake, "healthy")[axis] for axis in ("content", "pointer")} == {("complete", 1.0)}
    kinds = [source["kind"] for source in healthy.summary["sources"]]
    assert sorted(kinds) == ["hive", "iceberg", "s3_access_log", "s3_inventory"]
    assert one.rest.paths("/tables/orders")  # manifests are those that this catalog points at

    lost = one.shop.keys()[0]
    one.expired(lost)
    time.sleep(1.1)
    one.write_inventory(bucket)
    audited(lake, run_id="broken")
    (row,) = findings_of(lake, "broken")
    assert (row["kind"], row["severity"], row["key"]) == ("dropped", "critical", lost)
    assert (row["cause"], row["cause_principal"]) == (
        "expired by a lifecycle rule (S3.EXPIRE.OBJECT)",
        LIFECYCLE,
    )
    assert (row["rows_at_stake"], row["partition_path"]) == (10, f"day={lost.split('day=')[1][:10]}")
    assert row["bytes_at_stake"] > 0
    assert {covered(lake, "broken")[axis] for axis in ("content", "pointer")} == {("complete", 1.0)}


def test_its_move_to_another_bucket_ends_in_a_certificate_and_then_in_a_refusal(
    one: OneTable, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The metadata still names the old bucket; catalogs name the table's new place."""
    old, new = one.shop.bucket, f"new-{uuid.uuid4().hex[:12]}"
    one.s3.create_bucket(Bucket=new)
    moved_at = datetime.now(UTC) + timedelta(seconds=1)
    for key in one.shop.keys(""):
        body = one.s3.get_object(Bucket=old, Key=key)["Body"].read()
        one.s3.put_object(Bucket=new, Key=key, Body=body)
        backdate(new, key, moved_at)
    one.registered(one.table, new)
    time.sleep(2.1)
    one.write_inventory(new)
    lake = one.lake(new, extra=f"maps: [{{from: 's3://{old}/', to: 's3://{new}/'}}]\n")
    monkeypatch.chdir(one.folder)
    moved = audited(lake, run_id="moved")
    assert (findings_of(lake, "moved"), moved.exit_code) == ([], 0), [
        (r["axis"], r["status"], r["reason"]) for r in results_of(lake).coverage("moved")
    ]
    assert cli.main(["report", "lake.yaml", "--certificate"]) == 0
    stated = json.loads((one.folder / "certificate.json").read_text())
    assert stated["files_agreed"] == stated["files"] > 4
    assert {each["kind"] for each in stated["evidence"]} >= {"iceberg", "s3_inventory"}
    capsys.readouterr()

    (lost, *_) = one.shop.keys()
    one.s3.delete_object(Bucket=new, Key=lost)
    one.write_inventory(new)
    audited(lake, run_id="lost")
    assert [(row["kind"], row["key"]) for row in findings_of(lake, "lost")] == [("dropped", lost)]
    (one.folder / "certificate.json").unlink()
    assert cli.main(["report", "lake.yaml", "--certificate"]) == 1
    printed = capsys.readouterr()
    assert "shop.orders: files of the table: 1 file with a finding" in printed.err
    assert "no certificate" in printed.err
    assert not (one.folder / "certificate.json").exists()
