"""`reconcile` leaves unused files that tables need although no path of a known table names them, as `guard` does."""

import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.commands.repair import purge
from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import SilentProgress
from tests.builders.audits import results_of
from tests.builders.glue import GlueCatalog
from tests.builders.guarded import clone_of, put
from tests.builders.iam_policies import enforced, printed_policy, with_printed_policy
from tests.builders.repair_plans import RepairPlans, actions_of, keys_of, publish_leftovers
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

HOUR = timedelta(hours=1)
ROOT = "warehouse/orders/day=2026-11-01"


@dataclass
class Unused:
    """A table `orders` with files that an audit called unused, written an hour ago, and plans for them."""

    shop: Shop
    folder: Path

    def leave(self, *names: str) -> list[str]:
        """Write unused files; return their URIs."""
        return [put(self.shop.s3, self.shop.bucket, f"{ROOT}/{name}", age=HOUR) for name in names]

    def plans(
        self, *names: str, extra: str = "", more: tuple[str, ...] = (), inventories: str = ""
    ) -> RepairPlans:
        """Plan the removal of these files by a lake file with more tables."""
        bucket = self.shop.bucket
        place = f"quarantine: {{location: 's3://{bucket}/quarantine', keep: 30d}}\n{extra}"
        listing = f"[{{kind: listing, location: 's3://{bucket}/warehouse/'}}]"
        lake = self.shop.lake(
            self.folder, extra=place, inventories=inventories or listing, tables=[self.orders, *more]
        )
        keys = [f"{ROOT}/{name}" for name in names]
        publish_leftovers(self.shop, lake, "uncommitted", *keys, first_audit=datetime.now(UTC) - 2 * HOUR)
        plans = RepairPlans(lake, self.folder)
        plans.plan(io.StringIO(), allow=("older_than_onboarding",))
        return plans

    @property
    def orders(self) -> str:
        return self.table("orders", "warehouse/orders")

    def table(self, name: str, key: str) -> str:
        return f"- {{name: {name}, location: 's3://{self.shop.bucket}/{key}', manifests: [{{kind: delta}}]}}"

    def left(self) -> set[str]:
        """Return the names of the files that are still in their place."""
        return {key.rpartition("/")[2] for key in self.shop.keys("orders") if key.endswith(".parquet")}


@pytest.fixture
def unused(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Unused:
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=1)
    return Unused(shop, tmp_path)


def reasons(lake: Lake) -> dict[str, tuple[str, str]]:
    """By name of a file the status of its step, and the reason."""
    return {
        str(row["key"]).rpartition("/")[2]: (row["status"], str(row["error"] or ""))
        for row in actions_of(lake)
    }


def purged(lake: Lake) -> str:
    """Purge everything that is in the quarantine; return what is printed."""
    out, later = io.StringIO(), datetime.now(UTC) + timedelta(days=40)
    purge.purge(lake, results_of(lake), out, yes=True, now=later, progress=SilentProgress())
    return out.getvalue()


def test_files_that_clones_and_partitions_of_catalogs_need_since_the_plan(unused: Unused) -> None:
    shop, names = unused.shop, ("cloned.parquet", "old/part.parquet", "spelled.parquet", "dead.parquet")
    cloned, _, _, dead = unused.leave(*names)
    bucket, elsewhere = shop.bucket, f"s3://{shop.bucket}/elsewhere"
    catalog = GlueCatalog(clients_of(shop.lake(unused.folder)), bucket.replace("-", "_"))
    plans = unused.plans(
        *names,
        extra=f"metastores: [{{kind: glue, databases: [{catalog.database}], location: '{elsewhere}/'}}]",
        more=(unused.table("spelled", "elsewhere/spelled"),),
    )
    clone_of(
        shop, "elsewhere/spelled", f"s3://{bucket}//warehouse/./x/../orders/day=2026-11-01/spelled.parquet"
    )
    clone_of(shop, "elsewhere/clone", cloned)
    delta = {"spark.sql.sources.provider": "delta"}
    catalog.table("clone", f"{elsewhere}/clone", parameters=delta)
    catalog.table("plain", f"{elsewhere}/plain", ["day"])
    catalog.partition("plain", ["old"], f"s3://{bucket}/{ROOT}/old")
    with with_printed_policy(unused.folder / "lake.yaml"):
        plans.apply()
    told = reasons(plans.lake)
    assert {name: status for name, (status, _) in told.items()} == {
        "cloned.parquet": "moved_on", "spelled.parquet": "moved_on",
        "part.parquet": "unknown", "dead.parquet": "applied",
    }  # fmt: skip
    assert "clone" in told["cloned.parquet"][1]
    assert told["spelled.parquet"][1] == "spelled lists the file"
    assert "partition of the plain table" in told["part.parquet"][1]
    assert unused.left() >= {"cloned.parquet", "part.parquet", "spelled.parquet"}
    clone_of(shop, "elsewhere/later", dead)
    catalog.table("later", f"{elsewhere}/later", parameters=delta)
    assert "lists the file" in purged(plans.lake)
    assert reasons(plans.lake)["dead.parquet"][0] == "applied"


@pytest.mark.parametrize("path", ["hdfs://nn:8020/lake/x.parquet", "s3://lake-x1-s3alias/orders/x.parquet"])
def test_a_clone_that_lists_files_in_a_store_that_the_lake_file_does_not_know(
    unused: Unused, path: str
) -> None:
    """Each file may be one of them."""
    unused.leave("dead.parquet")
    plans = unused.plans("dead.parquet", more=(unused.table("clone", "elsewhere/clone"),))
    clone_of(unused.shop, "elsewhere/clone", path)
    plans.apply()
    status, why = reasons(plans.lake)["dead.parquet"]
    assert (status, "dead.parquet" in unused.left()) == ("unknown", True)
    assert "which the lake file does not map to a location" in why


@pytest.mark.parametrize(
    ("selection", "is_new"),
    [("exclude: [tmp*]", False), ("exclude: [none]", True), ("formats: [iceberg]", False)],
)
def test_a_clone_that_discover_does_not_find(unused: Unused, selection: str, is_new: bool) -> None:
    """It is left out by the lake file, or newer than the inventory report."""
    shop = unused.shop
    cloned, _ = unused.leave("cloned.parquet", "dead.parquet")
    if is_new:
        shop.take_inventory()
    clone_of(shop, "warehouse/db/tmp_clone", cloned)
    if not is_new:
        shop.take_inventory()
    below = f"discover: {{from: inventory, under: ['s3://{shop.bucket}/warehouse/'], {selection}}}"
    report = f"[{{kind: s3_inventory, location: 's3://{shop.bucket}/inventories/', margin: 0s}}]"
    plans = unused.plans("cloned.parquet", "dead.parquet", more=(f"- {{{below}}}",), inventories=report)
    with enforced(printed_policy(unused.folder / "lake.yaml", "reconcile")) as seen:
        plans.apply()
    assert {each for each in seen.refused if ":::reports/" not in each.resource} == set(), (
        "the manifest of the inventory also names the bucket in which the report was written"
    )
    told = reasons(plans.lake)
    assert {name: status for name, (status, _) in told.items()} == {
        "cloned.parquet": "moved_on", "dead.parquet": "applied",
    }  # fmt: skip
    assert "lists the file" in told["cloned.parquet"][1]
    assert unused.left() >= {"cloned.parquet"}


def test_a_lost_version_of_a_clone_stops_every_removal(unused: Unused) -> None:
    cloned, _ = unused.leave("cloned.parquet", "dead.parquet")
    plans = unused.plans("dead.parquet", more=(unused.table("clone", "elsewhere/clone"),))
    clone_of(unused.shop, "elsewhere/clone", cloned)
    put(
        unused.shop.s3,
        unused.shop.bucket,
        "elsewhere/clone/_delta_log/_last_checkpoint",
        body=b'{"version": 4, "size": 3}',
    )
    plans.apply()
    status, why = reasons(plans.lake)["dead.parquet"]
    assert (status, "dead.parquet" in unused.left()) == ("unknown", True)
    assert "version 4" in why


def test_a_catalog_that_cannot_be_read_stops_every_removal(unused: Unused) -> None:
    """It may name a clone."""
    unused.leave("dead.parquet")
    plans = unused.plans("dead.parquet", extra="metastores: [{kind: hive, uri: 'thrift://127.0.0.1:1'}]")
    plans.apply()
    assert (reasons(plans.lake)["dead.parquet"][0], "dead.parquet" in unused.left()) == ("unknown", True)


def test_the_longest_times_of_tables_that_share_a_location_count(unused: Unused) -> None:
    """A writer of either table may still commit the file."""
    unused.leave("young.parquet")
    slow = unused.table("slow", "warehouse/orders").replace(
        "manifests: [{kind: delta}]", "leftover_age: 60d, manifests: [{kind: iceberg}]"
    )
    plans = unused.plans("young.parquet", more=(slow,))
    (step,) = map(json.loads, plans.file.read_text().splitlines()[1:])
    assert step["action"] == "needs_person"
    assert "younger than leftover_age" in step["evidence"]["why"]


def test_an_object_that_is_also_the_name_of_a_folder(unused: Unused) -> None:
    """Other objects are below it, already at the time of the plan or only later."""
    for name in ("before", "since"):
        put(unused.shop.s3, unused.shop.bucket, f"{ROOT}/{name}", age=HOUR, body=b"")
    unused.leave("before/live.parquet")
    plans = unused.plans("before", "since")
    unused.leave("since/live.parquet")
    plans.apply()
    assert {name: status for name, (status, _) in reasons(plans.lake).items()} == {"since": "changed"}
    assert {f"{ROOT}/before", f"{ROOT}/since"} <= keys_of(unused.shop).keys()
