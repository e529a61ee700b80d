"""Iceberg tables: lost files come back; unused files are removed only if everything about them is certain."""

import io
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakeaudit.config import Lake, load_lake
from lakeaudit.reconcile.protocol import METADATA
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited
from tests.builders.backdate import backdate
from tests.builders.iceberg import BY_SPARK, IcebergLake, lake_by_spark, tables_of_spark
from tests.builders.repair_plans import Keys, RepairPlans, actions_of, found_set, keys_of, publish_leftovers
from tests.builders.repair_rows import ledger_row, planned
from tests.builders.shop import Shop
from tests.conftest import Aws

VERSIONED: Any = {"Status": "Enabled"}
DEBRIS = "warehouse/orders/data/day=2026-11-01/part-00000-debris.parquet"


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> IcebergLake:
    """In a bucket that keeps versions."""
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=VERSIONED)
    return IcebergLake(aws.s3, s3, bucket)


@dataclass(frozen=True)
class There:
    """Four tables that lost files: audited, repaired by one plan, audited, and taken back."""

    data: str
    manifest: str
    listed: str
    deletes: str
    """Keys: a data file, a manifest under two markers, the list of a newest snapshot, a file of deletion vectors."""
    kinds: dict[str, str]
    """The kind that the first audit found, by key."""
    actions: dict[str, str]
    statuses: dict[str, str]
    left: set[tuple[Any, ...]]
    """The findings of the second audit."""
    objects: list[Keys]
    """Objects of the first three tables' bucket, before the plan and after the undo."""


@pytest.fixture(scope="module")
def there(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> There:
    """The tables lose a file each; that of deletion vectors was written by Spark, and lies in another bucket."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=VERSIONED)
    shop = IcebergLake(aws.s3, s3, bucket)
    for name in ("orders", "refunds", "stock"):
        table = shop.table(name)
    newest = table.metadata.current_snapshot()
    assert newest is not None
    data, manifest = shop.keys("/orders/data/")[0], shop.keys("/refunds/metadata/")
    manifest = [key for key in manifest if key.endswith("-m0.avro")][:1]
    listed = newest.manifest_list.removeprefix(f"s3://{bucket}/")
    for key in (data, *manifest, *manifest, listed):
        shop.drop(key)
    folder = tmp_path_factory.mktemp("there")
    with tables_of_spark(aws.s3, ("merge_on_read",)):
        aws.s3.put_bucket_versioning(Bucket=BY_SPARK, VersioningConfiguration=VERSIONED)
        of_spark = aws.s3.list_objects_v2(Bucket=BY_SPARK)["Contents"]
        deletes = next(each["Key"] for each in of_spark if "-deletes.parquet" in each["Key"])
        aws.s3.delete_object(Bucket=BY_SPARK, Key=deletes)
        time.sleep(1.1)
        fields = repair_and_undo(RepairPlans(lake_of_both(shop, s3, folder), folder), shop)
        page: Any = aws.s3.list_object_versions(Bucket=BY_SPARK)
        for each in (*page.get("Versions", []), *page.get("DeleteMarkers", [])):
            aws.s3.delete_object(Bucket=BY_SPARK, Key=each["Key"], VersionId=each["VersionId"])
    return There(data, manifest[0], listed, deletes, *fields)


def lake_of_both(shop: IcebergLake, s3: Endpoint, folder: Path) -> Lake:
    """The shop's tables, and that of Spark."""
    lake_by_spark(folder, s3, ("merge_on_read",))
    by_spark = yaml.safe_load((folder / "lake.yaml").read_text())
    shop.lake(folder)
    both = yaml.safe_load((folder / "lake.yaml").read_text())
    for name in ("inventories", "tables"):
        both[name] += by_spark[name]
    (folder / "lake.yaml").write_text(yaml.safe_dump(both))
    return load_lake(folder / "lake.yaml", {})


def repair_and_undo(mending: RepairPlans, shop: IcebergLake) -> tuple[Any, ...]:
    """Repair and undo; return all fields of `There` but the keys."""
    audited(mending.lake, live=True)
    objects = [keys_of(of_bucket := Shop(shop.s3, shop.endpoint, shop.bucket))]
    kinds = {subject.split("/", 3)[3]: kind for _, subject, kind in found_set(mending.lake)}
    mending.plan(io.StringIO())
    assert mending.apply().exit_code == 0
    actions = {row["key"]: row["action"] for row in actions_of(mending.lake)}
    statuses = mending.statuses()
    audited(mending.lake, live=True)
    left = found_set(mending.lake)
    assert mending.undo().exit_code == 0
    objects.append(keys_of(of_bucket))
    return kinds, actions, statuses, left, objects


def test_data_and_metadata_come_back_and_go_again(there: There) -> None:
    """A table loses a data file, one a manifest under two markers, one the list of its newest snapshot."""
    kinds = {there.data: "dropped", there.manifest: METADATA, there.listed: METADATA}
    assert there.kinds == kinds | {there.deletes: "dropped"}
    actions = {
        there.data: "remove_delete_marker", there.manifest: "restore_version", there.listed: "remove_delete_marker",
    }  # fmt: skip
    assert there.actions == actions | {there.deletes: "remove_delete_marker"}
    assert there.left == set()
    assert there.objects[1] == there.objects[0]


def test_a_delete_file_comes_back(there: There) -> None:
    assert there.kinds[there.deletes] == "dropped"
    assert there.statuses[there.deletes] == "applied"
    assert there.left == set()


def test_metadata_of_several_versions_is_for_a_person(shop: IcebergLake, tmp_path: Path) -> None:
    """It is written once: if storage has two versions of it, somebody changed it."""
    shop.table()
    key = next(key for key in shop.keys("/metadata/") if key.endswith("-m0.avro"))
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"by somebody")
    shop.drop(key)
    mending = RepairPlans(shop.lake(tmp_path), tmp_path)
    (step,) = planned(mending, [ledger_row(METADATA, shop.bucket, key)])
    assert step.evidence["why"] == "no version of it matches the record; the lake file names no replica of it"


def test_what_is_lost_for_good_is_taken_out_by_a_person(shop: IcebergLake, tmp_path: Path) -> None:
    """The person uses Iceberg's own call."""
    shop.table()
    key = shop.keys()[0]
    version = shop.s3.head_object(Bucket=shop.bucket, Key=key)["VersionId"]
    shop.s3.delete_object(Bucket=shop.bucket, Key=key, VersionId=version)
    mending = RepairPlans(shop.lake(tmp_path), tmp_path)
    (step,) = planned(
        mending, [ledger_row("dropped", shop.bucket, key)], allow=("restore", "remove_reference")
    )
    assert step.needs_person
    assert f'newDelete().deleteFile("s3://{shop.bucket}/{key}").commit()' in step.evidence["why"]


# --- leftovers ---------------------------------------------------------------------------------------------------


def with_debris(shop: IcebergLake, folder: Path, body: bytes = b"x" * 5000) -> RepairPlans:
    """Write a file that no snapshot lists, record it in the ledger, and plan it."""
    shop.s3.put_object(Bucket=shop.bucket, Key=DEBRIS, Body=body)
    for key in shop.keys(""):
        backdate(shop.bucket, key, datetime.now(UTC) - timedelta(minutes=30))
    lake = shop.lake(folder, extra=f"quarantine: {{location: 's3://{shop.bucket}/quarantine', keep: 30d}}\n")
    mending = RepairPlans(lake, folder)
    of = Shop(shop.s3, shop.endpoint, shop.bucket)
    publish_leftovers(of, lake, "uncommitted", DEBRIS, first_audit=datetime.now(UTC) - timedelta(hours=1))
    mending.plan(io.StringIO())
    return mending


def test_a_leftover_of_a_table_that_is_whole_is_hidden(shop: IcebergLake, tmp_path: Path) -> None:
    shop.table()
    mending = with_debris(shop, tmp_path)
    assert (mending.apply().exit_code, mending.statuses()) == (0, {DEBRIS: "applied"})
    assert DEBRIS not in shop.keys("/data/")
    assert mending.undo().exit_code == 0
    assert DEBRIS in shop.keys("/data/")


def lost_manifest(shop: IcebergLake) -> None:
    shop.drop(next(key for key in shop.keys("/metadata/") if key.endswith("-m0.avro")))


def collects_no_garbage(shop: IcebergLake) -> None:
    with shop.catalog.load_table("shop.orders").transaction() as change:
        change.set_properties({"gc.enabled": "false"})


@pytest.mark.parametrize(
    ("since", "status"), [(lost_manifest, "unknown"), (collects_no_garbage, "unknown")], ids=["torn", "no gc"]
)
def test_a_leftover_of_which_a_table_is_in_doubt_stays(
    shop: IcebergLake, tmp_path: Path, since: Callable[[IcebergLake], None], status: str
) -> None:
    """A manifest is gone since the plan; the table says that nothing of it may be removed (`gc.enabled=false`)."""
    shop.table()
    mending = with_debris(shop, tmp_path)
    since(shop)
    assert (mending.apply().exit_code, mending.statuses()) == (3, {DEBRIS: status})
    assert DEBRIS in shop.keys("/data/")


def test_a_leftover_that_a_snapshot_lists_by_now_stays(shop: IcebergLake, tmp_path: Path) -> None:
    table = shop.table()
    body = shop.s3.get_object(Bucket=shop.bucket, Key=shop.keys()[0])["Body"].read()
    mending = with_debris(shop, tmp_path, body)
    table.add_files([f"s3://{shop.bucket}/{DEBRIS}"])
    assert (mending.apply().exit_code, mending.statuses()) == (0, {DEBRIS: "moved_on"})
    assert DEBRIS in shop.keys("/data/")
