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
from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.backdate import backdate, restore_objects, saved_objects
from tests.builders.repair_plans import RepairPlans, keys_of, publish_leftover_of_tables
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

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
    """A plan that moved a file away in each of two buckets; the lake's folder and both buckets as they were then."""

    shops: tuple[Shop, Shop]
    """One hides the file below a delete marker; the other one has no versions and moved it to a quarantine."""
    mending: RepairPlans
    before: list[Any]
    saved: Path
    objects: list[bytes]

    def restore(self) -> None:
        """Make the plan applied again, whatever was done since."""
        shutil.rmtree(self.mending.folder)
        shutil.copytree(self.saved, self.mending.folder)
        for shop, objects in zip(self.shops, self.objects, strict=True):
            restore_objects(shop.bucket, objects)

    def left(self) -> list[Any]:
        """Return ETag and size of the newest version of the file in each bucket."""
        return [keys_of(shop)[LEFT][0][1:] for shop in self.shops]


def shop_with_debris(aws: Aws, s3: Endpoint, *, versions_kept: bool) -> Shop:
    """A bucket with a table, and a file that no commit of it lists."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    if versions_kept:
        aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=1)
    aws.s3.put_object(Bucket=bucket, Key=LEFT, Body=b"rows of a job")
    backdate(bucket, LEFT, datetime.now(UTC) - timedelta(minutes=30))
    return shop


def lake_of(hidden: Shop, moved: Shop, folder: Path) -> Lake:
    """The lake file of both tables, and the results of an audit that reported both files."""
    shops = {"orders": hidden, "orders_moved": moved}
    tables = [
        f"- {{name: {name}, location: 's3://{shop.bucket}/warehouse/orders', manifests: [{{kind: delta}}]}}"
        for name, shop in shops.items()
    ]
    quarantine = f"quarantine: {{location: 's3://{moved.bucket}/quarantine', keep: 30d}}\n"
    lake = hidden.lake(folder, extra=quarantine, tables=tables)
    places = {name: (shop, LEFT) for name, shop in shops.items()}
    publish_leftover_of_tables(lake, places, first_audit=datetime.now(UTC))
    return lake


@pytest.fixture(scope="module")
def applied(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Applied:
    place = tmp_path_factory.mktemp("undo")
    (folder := place / "lake").mkdir()
    shops = (shop_with_debris(aws, s3, versions_kept=True), shop_with_debris(aws, s3, versions_kept=False))
    mending = RepairPlans(lake_of(*shops, folder), folder)
    before = [keys_of(shop)[LEFT][0][1:] for shop in shops]
    mending.plan(io.StringIO(), allow=("older_than_onboarding",))
    assert mending.apply().exit_code == 0
    saved = shutil.copytree(folder, place / "saved")
    return Applied(shops, mending, before, saved, [saved_objects(shop.bucket) for shop in shops])


@pytest.mark.parametrize("change", [renamed, without_quarantine, another_table, torn, removed, results_moved])
def test_an_applied_plan_is_undone_whatever_happened_to_the_lake_file(
    applied: Applied, change: Callable[[Path], None]
) -> None:
    """Below a delete marker as from a quarantine, and also from one that the lake file does not name."""
    applied.restore()
    assert not any(LEFT in shop.keys("orders") for shop in applied.shops)
    mending = applied.mending
    change(mending.folder / "lake.yaml")
    assert cli.main(["reconcile", "undo", str(mending.file)]) == 0
    assert applied.left() == applied.before
    assert cli.main(["reconcile", "apply", str(mending.file)]) == 2, "what is undone is not applied again"
