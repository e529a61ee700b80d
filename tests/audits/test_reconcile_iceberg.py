"""Iceberg tables: lost files come back; unused files are removed only if everything about them is certain."""

import io
import time
import uuid
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
from tests.builders.iam_policies import with_printed_policy
from tests.builders.iceberg import BY_SPARK, IcebergLake, lake_by_spark, tables_of_spark
from tests.builders.repair_plans import (
    Keys,
    RepairPlans,
    actions_of,
    found_set,
    keys_of,
    publish_leftover_of_tables,
)
from tests.builders.repair_rows import ledger_row, planned
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

VERSIONED: Any = {"Status": "Enabled"}


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
    """Repair and undo with the printed policies; return all fields of `There` but the keys."""
    file = mending.folder / "lake.yaml"
    with with_printed_policy(file, "audit"):
        audited(mending.lake, live=True)
    objects = [keys_of(of_bucket := Shop(shop.s3, shop.endpoint, shop.bucket))]
    kinds = {subject.split("/", 3)[3]: kind for _, subject, kind in found_set(mending.lake)}
    with with_printed_policy(file):
        mending.plan(io.StringIO())
        assert mending.apply().exit_code == 0
    actions = {row["key"]: row["action"] for row in actions_of(mending.lake)}
    statuses = mending.statuses()
    audited(mending.lake, live=True)
    left = found_set(mending.lake)
    with with_printed_policy(file):
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


LEFT_OF = ("whole", "torn", "no_gc", "listed")
"""Tables with a file that no snapshot lists when it is planned."""


def debris(table: str) -> str:
    return f"warehouse/{table}/data/day=2026-11-01/part-00000-debris.parquet"


@dataclass(frozen=True)
class Leftovers:
    """One plan for the unlisted file of each table: applied while a manifest is lost, applied again, and undone."""

    shop: IcebergLake
    exit_codes: list[int]
    """The exit codes of the first apply, the second one, and the undo."""
    statuses: list[dict[str, str]]
    """What became of each step by each apply, by key."""
    errors: dict[str, str]
    """Why the first apply did not do a step, by key."""
    there: list[set[str]]
    """The unlisted files that readers of storage see after each of these runs."""

    def became(self, table: str) -> list[str]:
        return [each[debris(table)] for each in self.statuses]

    def stays(self, table: str) -> list[bool]:
        """Return whether the file is there after each of these runs."""
        return [debris(table) in each for each in self.there]


@pytest.fixture(scope="module")
def leftovers(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Leftovers:
    """A manifest is lost since the plan; a table collects no garbage; a snapshot lists the file by now."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=VERSIONED)
    shop = IcebergLake(aws.s3, s3, bucket)
    shop.table("template")
    shop.copy("template", *LEFT_OF)
    mending = with_debris(shop, tmp_path_factory.mktemp("leftovers"))
    (manifest, *_) = [key for key in shop.keys("/torn/metadata/") if key.endswith("-m0.avro")]
    marker = aws.s3.delete_object(Bucket=bucket, Key=manifest)["VersionId"]
    with shop.catalog.load_table("shop.no_gc").transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    shop.catalog.load_table("shop.listed").add_files([f"s3://{bucket}/{debris('listed')}"])
    codes, statuses, there = [mending.apply().exit_code], [mending.statuses()], [set(shop.keys("debris"))]
    errors = {row["key"]: row["error"] for row in actions_of(mending.lake)}
    aws.s3.delete_object(Bucket=bucket, Key=manifest, VersionId=marker)
    for run in (mending.apply, mending.undo):
        codes.append(run().exit_code)
        statuses.append(mending.statuses())
        there.append(set(shop.keys("debris")))
    return Leftovers(shop, codes, statuses[:2], errors, there)


def with_debris(shop: IcebergLake, folder: Path) -> RepairPlans:
    """Write a file that no snapshot lists into each table, record it in the ledger, and plan it."""
    body = shop.s3.get_object(Bucket=shop.bucket, Key=shop.keys("/listed/data/")[0])["Body"].read()
    for table in LEFT_OF:
        shop.s3.put_object(Bucket=shop.bucket, Key=debris(table), Body=body)
    for key in shop.keys(""):
        backdate(shop.bucket, key, datetime.now(UTC) - timedelta(minutes=30))
    lake = shop.lake(folder, extra=f"quarantine: {{location: 's3://{shop.bucket}/quarantine', keep: 30d}}\n")
    mending = RepairPlans(lake, folder)
    of = Shop(shop.s3, shop.endpoint, shop.bucket)
    places = {table: (of, debris(table)) for table in LEFT_OF}
    publish_leftover_of_tables(lake, places, first_audit=datetime.now(UTC) - timedelta(hours=1))
    mending.plan(io.StringIO())
    return mending


def test_a_leftover_of_a_table_that_is_whole_is_hidden(leftovers: Leftovers) -> None:
    assert leftovers.became("whole")[1] == "applied"
    assert leftovers.stays("whole")[1:] == [False, True]
    assert leftovers.exit_codes[2] == 0


def test_a_leftover_of_which_a_table_is_in_doubt_stays(leftovers: Leftovers) -> None:
    """A manifest is gone since the plan; the table says that nothing of it may be removed (`gc.enabled=false`)."""
    assert leftovers.exit_codes[:2] == [3, 3]
    assert leftovers.became("torn") == ["unknown", "applied"], "once the manifest is back, it goes"
    assert leftovers.stays("torn")[:2] == [True, False]
    assert "torn: " in leftovers.errors[debris("torn")]
    assert leftovers.became("no_gc")[1] == "unknown"
    assert all(leftovers.stays("no_gc"))


def test_a_leftover_that_a_snapshot_lists_by_now_stays(leftovers: Leftovers) -> None:
    assert leftovers.became("listed")[1] == "moved_on"
    assert all(leftovers.stays("listed"))
