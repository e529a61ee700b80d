"""Tables by all that knows of them: Iceberg manifests, REST catalog, Hive Metastore, S3 Inventory and access log.

The REST catalog and the metastore are the stand-ins of `tests.builders`.
"""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders import access_logs
from tests.builders.access_logs import LIFECYCLE, Line, content, expired, write_line
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate, body_of, put
from tests.builders.hive_metastore import MetastoreStandIn
from tests.builders.hive_metastore import served as metastore_served
from tests.builders.iceberg import NO_WAIT, IcebergLake
from tests.builders.inventory import Version, csv, into, lay
from tests.builders.rest_catalog import RestCatalog, served
from tests.conftest import Aws

pytestmark = pytest.mark.variant


class TwoTables:
    """A table that stayed in its bucket and one that was moved to another, with all that knows of them.

    The metadata of the moved table names the old bucket; catalogs name the new location.
    """

    def __init__(
        self, aws: Aws, s3: Endpoint, folder: Path, rest: RestCatalog, hive: MetastoreStandIn
    ) -> None:
        self.s3, self.folder, self.rest, self.hive = aws.s3, folder, rest, hive
        self.old, self.new = (f"{name}-{uuid.uuid4().hex[:12]}" for name in ("old", "new"))
        for bucket in (self.old, self.new):
            self.s3.create_bucket(Bucket=bucket)
        self.shop = IcebergLake(aws.s3, s3, self.old)
        for name, bucket in (("orders", self.old), ("moved", self.new)):
            self.register(name, bucket)
        self.move()
        self.add_log(
            write_line("elsewhere/report.csv", datetime.now(UTC).replace(microsecond=0), bucket=self.old), "0"
        )

    def register(self, name: str, bucket: str) -> None:
        """Create a table and register it in both catalogs, at its present state."""
        table = self.shop.table(name)
        self.rest.tables["shop", name] = table
        pointer = {"table_type": "ICEBERG", "metadata_location": table.metadata_location}
        self.hive.table(name, f"s3a://{bucket}/warehouse/{name}", parameters=pointer, database="shop")

    def move(self) -> None:
        """Copy all files of the table to the new bucket."""
        moved_at = datetime.now(UTC) + timedelta(seconds=1)
        for key in self.shop.keys("/moved/"):
            put(self.new, key, body_of(self.old, key))
            backdate(self.new, key, moved_at)

    def write_inventories(self) -> None:
        """Write an S3 Inventory report of each bucket as it is now."""
        for name, bucket in (("orders", self.old), ("moved", self.new)):
            pages = self.s3.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=f"warehouse/{name}/"
            )
            rows = [
                Version(each["Key"], None, Size=each["Size"], LastModifiedDate=each["LastModified"],
                        ETag=each["ETag"].strip('"'), Bucket=bucket)
                for page in pages for each in page.get("Contents", [])
            ]  # fmt: skip
            at = datetime.now(UTC)
            lay(into(self.folder / f"inventory-{bucket}"), [csv(rows)], at=at, source=bucket)

    def expire(self, key: str) -> None:
        """A lifecycle rule deletes an object; the log says so."""
        self.shop.drop(key)
        now = datetime.now(UTC).replace(microsecond=0)
        self.add_log(expired(key, now, bucket=self.old), "1")

    def add_log(self, line: Line, unique: str) -> None:
        """Add a file of the access log that was delivered at the time of its line."""
        put(self.old, f"logs/{access_logs.name(line.at, unique)}", content([line]))

    def lake(self) -> Lake:
        """The tables by everything that knows of them; the log is that of the old bucket."""
        path = self.folder / "lake.yaml"
        places = {"orders": self.old, "moved": self.new}
        tables = ", ".join(
            f"{{name: shop.{name}, location: 's3://{bucket}/warehouse/{name}', "
            f"manifests: [{{kind: iceberg, catalog: prod, table: shop.{name}}}]}}"
            for name, bucket in places.items()
        )
        reports = ", ".join(
            f"{{kind: s3_inventory, location: '{self.folder}/inventory-{bucket}/inv', margin: 0s}}"
            for bucket in places.values()
        )
        path.write_text(
            f"version: 1\nlake: shop\nresults: {self.folder / 'results'}\n"
            f"s3: {{endpoint: '{self.shop.endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{reports}]\n"
            f"metastores: [{{kind: iceberg_rest, name: prod, uri: '{self.rest.uri}'}},"
            f" {{kind: hive, name: warehouse, uri: '{self.hive.uri}'}}]\n"
            f"events: [{{kind: s3_access_log, location: 's3://{self.old}/logs/'}}]\n"
            f"maps: [{{from: 's3://{self.old}/warehouse/moved/', to: 's3://{self.new}/warehouse/moved/'}}]\n"
            f"tables: [{tables}]\ndefaults: {{{NO_WAIT}}}\n"
        )
        return load_lake(path, {})


@pytest.fixture(scope="module")
def pair(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoTables]:
    rest, hive = RestCatalog(), MetastoreStandIn()
    with served(rest), metastore_served(hive):
        yield TwoTables(aws, s3, tmp_path_factory.mktemp("pair"), rest, hive)


def findings_of(lake: Lake, run_id: str) -> dict[str, dict[str, Any]]:
    """Return the findings by table; no table has two."""
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    by_table = {row["table_name"]: row for row in rows}
    assert len(by_table) == len(rows), rows
    return by_table


def judged(lake: Lake, run_id: str) -> set[tuple[str, str, str, float | None]]:
    """Return table, axis, status and decided share for files and pointers."""
    rows = results_of(lake).coverage(run_id)
    return {(row["table_name"], row["axis"], row["status"], row["decided_share"]) for row in rows
            if row["axis"] in ("content", "pointer")}  # fmt: skip


ALL_JUDGED = {
    (f"shop.{table}", axis, "complete", 1.0)
    for table in ("orders", "moved")
    for axis in ("content", "pointer")
}


@dataclass(frozen=True)
class Healthy:
    """The tables after an audit without findings."""

    pair: TwoTables
    lake: Lake
    outcome: Outcome


@pytest.fixture(scope="module")
def healthy(pair: TwoTables) -> Healthy:
    time.sleep(2.1)  # times of storage and log have whole seconds, and the copies are a second younger
    pair.write_inventories()
    lake = pair.lake()
    return Healthy(pair, lake, audited(lake, run_id="healthy"))


@dataclass(frozen=True)
class Broken:
    """The tables after each lost a file, and the keys of these: one expired, and one was deleted without a log."""

    expired: str
    deleted: str


@pytest.fixture(scope="module")
def broken(healthy: Healthy) -> Broken:
    pair = healthy.pair
    lost = Broken(pair.shop.keys("/orders/data/")[0], pair.shop.keys("/moved/data/")[0])
    pair.expire(lost.expired)
    pair.s3.delete_object(Bucket=pair.new, Key=lost.deleted)
    time.sleep(1.1)
    pair.write_inventories()
    audited(healthy.lake, run_id="broken")
    return lost


def certify(pair: TwoTables, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(pair.folder)
    return cli.main(["report", "lake.yaml", "--certificate"])


def test_a_table_and_its_move_to_another_bucket_end_in_a_certificate(
    healthy: Healthy, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, lake, outcome = healthy.pair, healthy.lake, healthy.outcome
    assert (findings_of(lake, "healthy"), outcome.exit_code, outcome.warnings) == ({}, 0, ())
    assert judged(lake, "healthy") == ALL_JUDGED
    kinds = {source["kind"] for source in outcome.summary["sources"]}
    assert kinds == {"hive", "iceberg", "s3_access_log", "s3_inventory"}
    for name in ("orders", "moved"):  # manifests are those that this catalog points at
        assert pair.rest.paths(f"/tables/{name}")
    assert certify(pair, monkeypatch) == 0
    stated = json.loads((pair.folder / "certificate.json").read_text())
    assert stated["files_agreed"] == stated["files"] > 8
    assert {each["kind"] for each in stated["evidence"]} >= {"iceberg", "s3_inventory"}


def test_the_result_table_of_tables_names_format_and_catalogs(healthy: Healthy) -> None:
    rows = {row["table_name"]: row for row in results_of(healthy.lake).tables()}
    assert rows.keys() == {"shop.orders", "shop.moved"}
    for row in rows.values():
        assert (row["format"], row["catalog"]) == ("iceberg", "hive warehouse, iceberg_rest prod")
        assert row["location"].endswith(f"/warehouse/{row['table_name'].removeprefix('shop.')}")
        assert row["files"] > 2
        assert row["rows"] == 10 * row["files"]
        assert row["bytes"] > row["rows"]


def test_a_file_that_a_lifecycle_rule_deleted_is_one_finding_of_all_that_is_known(
    healthy: Healthy, broken: Broken
) -> None:
    row = findings_of(healthy.lake, "broken")["shop.orders"]
    assert (row["kind"], row["severity"], row["key"]) == ("dropped", "critical", broken.expired)
    assert (row["cause"], row["cause_principal"]) == (
        "expired by a lifecycle rule (S3.EXPIRE.OBJECT)",
        LIFECYCLE,
    )
    day = broken.expired.split("day=")[1][:10]
    assert (row["rows_at_stake"], row["partition_path"]) == (10, f"day={day}")
    assert row["bytes_at_stake"] > 0
    assert judged(healthy.lake, "broken") == ALL_JUDGED


def test_a_file_that_a_moved_table_loses_ends_in_a_refusal(
    healthy: Healthy, broken: Broken, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = findings_of(healthy.lake, "broken")["shop.moved"]
    assert (row["kind"], row["key"]) == ("dropped", broken.deleted)
    (healthy.pair.folder / "certificate.json").unlink(missing_ok=True)
    assert certify(healthy.pair, monkeypatch) == 1
    printed = capsys.readouterr()
    for name in ("orders", "moved"):
        assert f"shop.{name}: files of the table: 1 file with a finding" in printed.err
    assert "no certificate" in printed.err
    assert not (healthy.pair.folder / "certificate.json").exists()
