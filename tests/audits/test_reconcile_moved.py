"""Live files that somebody moved: their copies look like debris, and no plan touches what may be the only copy."""

import io
from pathlib import Path

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited
from tests.builders.repair_plans import RepairPlans, an_hour_old
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

DEBRIS = "warehouse/stock/day=2026-11-01/part-00000-debris.parquet"


def moved(shop: Shop, key: str, to: str) -> str:
    """A copy of the file in another folder; the file itself is deleted."""
    shop.s3.copy_object(Bucket=shop.bucket, Key=to, CopySource={"Bucket": shop.bucket, "Key": key})
    shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    return to


@pytest.mark.parametrize("audited_before", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_the_only_copies_of_lost_files_stay_where_they_are(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, *, audited_before: bool
) -> None:
    """In the table's own folder, under another name, and in another table's folder; debris beside them goes."""
    shop = Shop(aws.s3, s3, bucket)
    for table, rows in (("orders", 40), ("stock", 90)):
        shop.write(table, rows=rows, commits=3, days=("2026-11-01",))
    an_hour_old(shop)
    extra = f"quarantine: {{location: 's3://{bucket}/quarantine', keep: 30d}}"
    inventories = f"[{{kind: listing, location: 's3://{bucket}/warehouse/'}}]"
    mending = RepairPlans(shop.lake(tmp_path, inventories=inventories, extra=extra, tables=None), tmp_path)
    if audited_before:
        audited(mending.lake)
    first, second, third = shop.keys("orders")
    copies = {
        moved(shop, first, first.replace("orders/", "orders/archive/")),
        moved(shop, second, "warehouse/orders/fixed.parquet"),
        moved(shop, third, third.replace("orders/", "stock/moved/")),
    }
    aws.s3.put_object(Bucket=bucket, Key=DEBRIS, Body=b"x" * 50_000)
    an_hour_old(shop)
    audited(mending.lake)
    mending.plan(io.StringIO(), allow=("older_than_onboarding",))
    mending.apply()
    there = set(shop.keys())
    assert copies <= there
    assert DEBRIS not in there
