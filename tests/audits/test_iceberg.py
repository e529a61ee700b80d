"""Whole audits of Iceberg tables that PyIceberg wrote: the findings, and that healthy tables have none."""

import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.iceberg import IcebergLake, rows
from tests.conftest import Aws

pytestmark = pytest.mark.variant


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> IcebergLake:
    return IcebergLake(aws.s3, s3, bucket)


def audit_findings(lake: Lake, run_id: str = "r") -> list[dict[str, Any]]:
    """Audit the lake and return the findings; storage times have whole seconds, so it waits for the next one."""
    time.sleep(1.1)
    assert audited(lake, run_id=run_id).warnings == ()
    return [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]


def finding_keys(findings: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return sorted((row["kind"], row["severity"], row["key"] or row["subject"]) for row in findings)


def overwritten(table: Table, shop: IcebergLake) -> None:
    table.overwrite(rows(5000))


def dynamic_overwrite(table: Table, shop: IcebergLake) -> None:
    table.dynamic_partition_overwrite(rows(5000, days=("2026-11-02",)))


def rows_deleted(table: Table, shop: IcebergLake) -> None:
    table.delete("amount = 3")


def partition_deleted(table: Table, shop: IcebergLake) -> None:
    table.delete("day = '2026-11-01'")


def everything_deleted(table: Table, shop: IcebergLake) -> None:
    table.delete(AlwaysTrue())


def tag_and_branch(table: Table, shop: IcebergLake) -> None:
    """Leave files that only the tag and the branch list, and main no longer does."""
    table.manage_snapshots().create_tag(table.metadata.snapshots[-1].snapshot_id, "v1").commit()
    table.manage_snapshots().create_branch(table.metadata.snapshots[-1].snapshot_id, "dev").commit()
    table.append(rows(7000), branch="dev")
    table.overwrite(rows(8000))


def rolled_back(table: Table, shop: IcebergLake) -> None:
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().set_current_snapshot(first).commit()


def rolled_back_and_on(table: Table, shop: IcebergLake) -> None:
    rolled_back(table, shop)
    table.append(rows(9000))


def expired(table: Table, shop: IcebergLake) -> None:
    """Expire snapshots and delete the files that only they listed, as maintenance does."""
    table.overwrite(rows(5000))
    before = set(shop.keys()) | set(shop.keys(".avro"))
    table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    for key in before - shop.required_keys(table):
        shop.drop(key)


def merged(table: Table, shop: IcebergLake) -> None:
    """Manifests are rewritten with every commit."""
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    with table.transaction() as change:
        change.set_properties(merging)
    table.append(rows(5000))
    table.append(rows(6000))


def spec_evolved(table: Table, shop: IcebergLake) -> None:
    with table.update_spec() as change:
        change.add_field("on", IdentityTransform(), "on_day")
    table.append(rows(5000))


def schema_evolved(table: Table, shop: IcebergLake) -> None:
    with table.update_schema() as change:
        change.add_column("note", StringType())
    table.append(rows(5000))


def upserted(table: Table, shop: IcebergLake) -> None:
    table.upsert(rows(5, days=("2026-11-01",)), join_cols=["day", "amount"])


def registered(table: Table, shop: IcebergLake) -> None:
    """A file that another job wrote, outside the location."""
    first = shop.keys("/registered/data/")[0]
    there = first.replace("warehouse/registered/data", "warehouse/elsewhere")
    shop.s3.copy_object(Bucket=shop.bucket, Key=there, CopySource=f"{shop.bucket}/{first}")
    table.add_files([f"s3://{shop.bucket}/{there}"])


HEALTHY = (
    *(overwritten, dynamic_overwrite, rows_deleted, partition_deleted, everything_deleted, tag_and_branch),
    *(rolled_back, rolled_back_and_on, expired, merged, spec_evolved, schema_evolved, upserted, registered),
)


@dataclass(frozen=True)
class Audited:
    """One audit of whole tables, of tables that lost a file, and of the effects of writers."""

    lost: dict[str, str]
    findings: list[dict[str, Any]]
    coverage: list[dict[str, Any]]

    def findings_of(self, table: str) -> list[tuple[str, str, str]]:
        return finding_keys([row for row in self.findings if row["table_name"] == table])


@pytest.fixture(scope="module")
def night(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    shop = IcebergLake(aws.s3, s3, bucket)
    place = f"s3://{bucket}/warehouse"
    shop.table("template", version=2)
    shop.copy("template", *(change.__name__ for change in HEALTHY), "whole", "broken")
    for change in HEALTHY:
        change(shop.catalog.load_table(f"shop.{change.__name__}"), shop)
    entries = [
        f"{{name: {table}, location: '{place}/{table}', manifests: [{{kind: iceberg}}]}}"
        for table in shop.tables
    ]
    for table in ("apart", "broken_apart"):
        meta, data = f"{place}/{table}/meta", f"{place}/files_of_{table}"
        shop.table(table, properties={"write.metadata.path": meta, "write.data.path": data})
        entries.append(
            f"{{name: {table}, location: '{place}/{table}', manifests: [{{kind: iceberg, metadata: '{meta}'}}]}}"
        )
    lost = {"broken": shop.keys("/broken/data/")[0], "broken_apart": shop.keys("/files_of_broken_apart/")[0]}
    for key in lost.values():
        shop.drop(key)
    lake = shop.lake(tmp_path_factory.mktemp("iceberg"), entries=entries)
    return Audited(lost, audit_findings(lake), results_of(lake).coverage("r"))


def test_a_deleted_data_file_is_dropped_with_its_rows_and_partition(night: Audited) -> None:
    assert night.findings_of("broken") == [("dropped", "critical", night.lost["broken"])]
    (row,) = (row for row in night.findings if row["table_name"] == "broken")
    assert (row["rows_at_stake"], row["partition_path"], row["confirmation"]) == (
        10, "day=2026-11-01", "live",
    )  # fmt: skip


@pytest.mark.parametrize("table", ["whole", "apart"])
def test_a_healthy_table_is_quiet_and_fully_decided(night: Audited, table: str) -> None:
    assert night.findings_of(table) == []
    axes = {row["axis"]: row for row in night.coverage if row["table_name"] == table}
    assert {axis: axes[axis]["status"] for axis in ("content", "leftover", "duplicate")} == {
        "content": "complete", "leftover": "complete", "duplicate": "complete",
    }  # fmt: skip
    assert axes["content"]["decided_share"] == 1.0


def test_metadata_and_data_may_lie_apart(night: Audited) -> None:
    assert night.findings_of("broken_apart") == [("dropped", "critical", night.lost["broken_apart"])]
    assert {row["table_name"] for row in night.findings} == night.lost.keys()


@pytest.mark.parametrize("table", [change.__name__ for change in HEALTHY])
def test_what_writers_do_is_quiet(night: Audited, table: str) -> None:
    assert night.findings_of(table) == []
    shares = {row["axis"]: row["decided_share"] for row in night.coverage if row["table_name"] == table}
    assert {axis: share for axis, share in shares.items() if share is not None and share < 1} == {}
    assert shares["content"] == 1.0


@pytest.mark.soak
def test_what_writers_do_is_quiet_in_version_1(shop: IcebergLake, tmp_path: Path) -> None:
    for change in (overwritten, rows_deleted, merged):
        change(shop.table(change.__name__, version=1), shop)
    lake = shop.lake(tmp_path)
    assert finding_keys(audit_findings(lake)) == []
    shares = {(r["table_name"], r["axis"]): r["decided_share"] for r in results_of(lake).coverage("r")}
    assert {at: share for at, share in shares.items() if share is not None and share < 1} == {}
