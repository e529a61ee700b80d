"""A plan that tasks make is the one that this process would make: the same rows in the same order."""

import io
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeaudit.commands.repair import reconcile as command
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.engine.spark import SparkEngine
from lakeaudit.reconcile.plans import plan_shares
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.ledger import opened
from tests.builders.repair_plans import RepairPlans, an_hour_old, finding_rows, publish_leftovers
from tests.builders.shop import Shop
from tests.conftest import Aws

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUARANTINE = "quarantine: {location: 's3://BUCKET/quarantine', keep: 30d}"


@pytest.fixture
def repair(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> RepairPlans:
    """Lost and truncated files, unused files of one row, and a row whose files are unknown."""
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=3)
    left = [f"warehouse/orders/day=2026-11-01/left-{n}.parquet" for n in range(7)]
    for key in left:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=b"left")
    an_hour_old(shop)
    lake = shop.lake(tmp_path, extra=QUARANTINE.replace("BUCKET", bucket))
    publish_leftovers(shop, lake, "uncommitted", *left)
    lost = [key for key in shop.keys("orders") if key not in left]
    for key in lost[:5]:
        aws.s3.delete_object(Bucket=bucket, Key=key)
    kinds = dict.fromkeys(lost[:7], "dropped") | {lost[8]: "archived"}
    nobody = {
        "kind": "temporary",
        "subject_type": "partition",
        "table_name": "orders",
        "bucket": bucket,
        "key": "",
    }
    opened(lake, [*finding_rows(shop, kinds), nobody])
    return RepairPlans(lake, tmp_path)


def rows(repair: RepairPlans) -> list[str]:
    """Return the rows of the plan without its id and the ids that contain it."""
    plan_id, *others = repair.plan(io.StringIO(), allow=("restore", "older_than_onboarding")).more.values()
    del plan_id, others
    return repair.file.read_text().splitlines()[1:]


@pytest.mark.parametrize("where", ["tasks of Spark", pytest.param("threads", marks=pytest.mark.soak)])
def test_tasks_make_the_plan_that_this_process_would(
    where: str, request: pytest.FixtureRequest, repair: RepairPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = repair.clock()
    repair.clock = lambda: now
    here = rows(repair)
    assert len(here) == 7 + 7 + 1 + 1

    def engine(_: object) -> object:
        if where == "threads":
            return nullcontext(InProcessEngine())
        session: SparkSession = request.getfixturevalue("spark")
        return nullcontext(SparkEngine(lambda: session, bytes_here=0))

    monkeypatch.setattr(command, "STEPS", 1)
    monkeypatch.setattr(command, "spark_engine", engine)
    monkeypatch.setattr(plan_shares, "ROWS_A_FILE", 3)
    assert rows(repair) == here
    left = [*repair.folder.glob("results/_reconcile/plans/*/*")]
    assert left == [], "what tasks are given and give is removed"
    assert repair.apply().exit_code in (0, 3)
