"""An applied plan is undone whatever happened to the lake file since."""

import io
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.backdate import backdate, put_versions, versions
from tests.builders.repair_plans import RepairPlans, keys_of, publish_leftovers
from tests.builders.shop import Shop
from tests.conftest import Aws

LEFT = "warehouse/orders/day=2026-11-01/part-00000-left.parquet"


def renamed(file: Path) -> None:
    """The table has another name, and the lake another one, too."""
    file.write_text(
        file.read_text().replace("name: orders", "name: sales").replace("lake: shop", "lake: store")
    )


def without_quarantine(file: Path) -> None:
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "quarantine:" not in line))


def another_table(file: Path) -> None:
    file.write_text(file.read_text().replace("warehouse/orders'", "warehouse/others'"))


def removed(file: Path) -> None:
    file.unlink()


def torn(file: Path) -> None:
    file.write_text("version: 1\nlake: [")


def results_moved(file: Path) -> None:
    """The folder of the results was renamed, and the lake file says so."""
    before = file.parent / "results"
    before.rename(file.parent / "moved")
    file.write_text(file.read_text().replace(str(before), str(file.parent / "moved")))


@dataclass(frozen=True)
class Applied:
    """A plan that moved a file away; the folder of the lake and the file's delete marker as they were then."""

    shop: Shop
    mending: RepairPlans
    before: Any
    saved: Path
    versions: list[Any]

    def restore(self) -> None:
        """Make the plan applied again, whatever was done since."""
        shutil.rmtree(self.mending.folder)
        shutil.copytree(self.saved, self.mending.folder)
        if self.versions:
            put_versions(self.shop.bucket, LEFT, self.versions)
        else:
            self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=LEFT)


def apply_one(
    aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory, *, versions_kept: bool
) -> Applied:
    bucket, place = f"test-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("undo")
    aws.s3.create_bucket(Bucket=bucket)
    if versions_kept:
        aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop, folder = Shop(aws.s3, s3, bucket), place / "lake"
    folder.mkdir()
    shop.write("orders", commits=1)
    aws.s3.put_object(Bucket=bucket, Key=LEFT, Body=b"rows of a job")
    backdate(bucket, LEFT, datetime.now(UTC) - timedelta(minutes=30))
    quarantine = f"quarantine: {{location: 's3://{bucket}/quarantine', keep: 30d}}\n"
    mending = RepairPlans(shop.lake(folder, extra=quarantine), folder)
    publish_leftovers(shop, mending.lake, "uncommitted", LEFT)
    before = keys_of(shop)[LEFT][0][1:]
    mending.plan(io.StringIO(), allow=("older_than_onboarding",))
    assert mending.apply().exit_code == 0
    assert LEFT not in shop.keys("orders")
    return Applied(shop, mending, before, shutil.copytree(folder, place / "saved"), versions(bucket, LEFT))


@pytest.fixture(scope="module")
def hidden(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Applied:
    return apply_one(aws, s3, tmp_path_factory, versions_kept=True)


@pytest.fixture(scope="module")
def moved(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Applied:
    """The file is in a quarantine."""
    return apply_one(aws, s3, tmp_path_factory, versions_kept=False)


@pytest.mark.parametrize("change", [renamed, without_quarantine, another_table, torn, removed, results_moved])
def test_an_applied_plan_is_undone_whatever_happened_to_the_lake_file(
    hidden: Applied, change: Callable[[Path], None]
) -> None:
    is_undone_after(hidden, change)


@pytest.mark.parametrize("change", [renamed, without_quarantine])
def test_a_file_comes_back_from_a_quarantine_that_the_lake_file_does_not_name(
    moved: Applied, change: Callable[[Path], None]
) -> None:
    is_undone_after(moved, change)


def is_undone_after(applied: Applied, change: Callable[[Path], None]) -> None:
    applied.restore()
    assert LEFT not in applied.shop.keys("orders")
    mending = applied.mending
    change(mending.folder / "lake.yaml")
    assert cli.main(["reconcile", "undo", str(mending.file)]) == 0
    assert keys_of(applied.shop)[LEFT][0][1:] == applied.before
    assert cli.main(["reconcile", "apply", str(mending.file)]) == 2, "what is undone is not applied again"
