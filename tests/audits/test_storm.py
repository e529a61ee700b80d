"""Whole audits of a bucket that was restored to the content of yesterday: one loss a table, one finding a table."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake
from lakeaudit.results.read import RowFilter
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders import iceberg
from tests.builders.audits import audited, results_of
from tests.builders.backdate import body_of, present, put
from tests.builders.hudi import unpacked
from tests.builders.repair_plans import RepairPlans
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

DAYS = ("2026-11-01",)
LATER = 2
"""Commits of today."""


FORMATS = ("delta", "iceberg", "hudi")


class Bucket:
    """A bucket with a table of each format; `yesterday` has its earlier content."""

    def __init__(self, aws: Aws, endpoint: Endpoint, folder: Path, name: str) -> None:
        self.name, self.s3, self.bucket = name, aws.s3, f"test-{uuid.uuid4().hex[:12]}"
        self.s3.create_bucket(Bucket=self.bucket)
        if name == "marked":
            self.s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": "Enabled"})
        self.shop = Shop(self.s3, endpoint, self.bucket)
        self.shop.write("delta", days=DAYS, commits=2, rows=4)
        ice = iceberg.IcebergLake(self.s3, endpoint, self.bucket)
        table = ice.table("iceberg")
        hudi = unpacked(folder / name, 1, ["written"]) / "written"
        instants = sorted({p.name[:17] for p in (hudi / ".hoodie").iterdir() if p.name[:17].isdigit()})
        self.upload(hudi, lambda name: not any(each in name for each in instants[1:]))
        self.yesterday = {key: body_of(self.bucket, key) for key in self.keys()}
        self.shop.write("delta", days=DAYS, commits=LATER, rows=4)
        for number in range(LATER):
            table.append(iceberg.rows(9000 + number, DAYS, 4))
        self.upload(hudi, lambda name: any(each in name for each in instants[1:]))

    def upload(self, home: Path, wanted: Callable[[str], bool]) -> None:
        for path in sorted(home.rglob("*")):
            name = str(path.relative_to(home))
            if path.is_file() and wanted(name):
                put(self.bucket, f"warehouse/hudi/{name}", path.read_bytes())

    def keys(self) -> list[str]:
        return present(self.bucket, "warehouse/")

    def hide_what_is_new(self) -> None:
        for key in set(self.keys()) - self.yesterday.keys():
            self.s3.delete_object(Bucket=self.bucket, Key=key)

    def write_anew(self) -> None:
        """Logs first, and data files later than the clocks' step."""
        self.hide_what_is_new()
        for data in (False, True):
            time.sleep(3.2 if data else 0)
            for key, body in sorted(self.yesterday.items()):
                if key.endswith(".parquet") is data:
                    put(self.bucket, key, body)


@dataclass(frozen=True)
class Restored:
    """Two buckets that are one lake; each was restored after an audit that found nothing."""

    marked: Bucket
    again: Bucket
    folder: Path

    def lake(self) -> Lake:
        tables = [
            f"- {{name: {each.name}.{name}, location: 's3://{each.bucket}/warehouse/{name}', "
            f"manifests: [{{kind: {name}}}]}}"
            for each in (self.marked, self.again)
            for name in FORMATS
        ]
        report = f"{{kind: s3_inventory, location: 's3://{self.marked.bucket}/inventories/', margin: 0s}}"
        listing = f"{{kind: listing, location: 's3://{self.again.bucket}/warehouse/'}}"
        return self.marked.shop.lake(self.folder, tables=tables, inventories=f"[{report}, {listing}]")

    def audit(self) -> Outcome:
        self.marked.shop.take_inventory(all_versions=True)
        return audited(self.lake())

    def findings(self, run: Outcome, bucket: Bucket) -> dict[str, dict[str, Any]]:
        """Return the findings of a run in a bucket, by table."""
        found = findings(self.lake(), run).items()
        return {name.partition(".")[2]: row for name, row in found if name.startswith(f"{bucket.name}.")}


def findings(lake: Lake, run: Outcome) -> dict[str, dict[str, Any]]:
    """Return the findings of a run by table; no table has two."""
    rows = list(rows_of(results_of(lake).findings(run.run_id)))
    by_table = {row["table_name"]: row for row in rows}
    assert len(by_table) == len(rows), [(row["table_name"], row["kind"], row["subject"]) for row in rows]
    return by_table


LOST = dict.fromkeys(FORMATS, ("missing_metadata", "critical"))


@pytest.fixture(scope="module")
def restored(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> tuple[Restored, Outcome]:
    folder = tmp_path_factory.mktemp("restored")
    place = Restored(Bucket(aws, s3, folder, "marked"), Bucket(aws, s3, folder, "again"), folder)
    assert findings(place.lake(), place.audit()) == {}
    place.marked.hide_what_is_new()
    place.again.write_anew()
    return place, place.audit()


def test_a_restore_by_delete_markers_is_one_finding_a_table(restored: tuple[Restored, Outcome]) -> None:
    place, run = restored
    found = place.findings(run, place.marked)
    assert {table: (row["kind"], row["severity"]) for table, row in found.items()} == LOST
    assert {table: row["files"] for table, row in found.items()} == {
        "delta": LATER,
        "iceberg": LATER,
        "hudi": 5,
    }
    assert (found["delta"]["rows_at_stake"], found["delta"]["recoverable"]) == (4 * LATER, "yes")
    names = ", ".join(f"{version:020}.json" for version in range(2, 2 + LATER))
    assert (
        f"{LATER} versions of the table are lost together: {names}; storage keeps an object version of "
        f"{LATER} of these {LATER} files" in (found["delta"]["explanation"])
    )
    assert "3 versions of the table are lost together: " in found["hudi"]["explanation"]


def test_a_plan_restores_every_lost_state_of_a_table(restored: tuple[Restored, Outcome]) -> None:
    place, _ = restored
    mending = RepairPlans(place.lake(), place.folder)
    mending.plan(StringIO(), row_filter=RowFilter(tables=[f"marked.{name}" for name in FORMATS]))
    mending.apply()
    done = [key for key, status in mending.statuses().items() if status == "applied"]
    assert {key for key in done if "_delta_log" in key} == {
        f"warehouse/delta/_delta_log/{version:020}.json" for version in range(2, 2 + LATER)
    }
    assert len([key for key in done if "/.hoodie/" in key]) == 3
    (state,) = [key for key in done if "iceberg" in key]
    assert f"/metadata/{2 + LATER:05}-" in state


def test_a_restore_that_writes_everything_again_is_one_finding_a_table(
    restored: tuple[Restored, Outcome],
) -> None:
    place, run = restored
    found = place.findings(run, place.again)
    assert {table: (row["kind"], row["severity"]) for table, row in found.items()} == LOST
    assert {table: row["files"] for table, row in found.items()} == {
        "delta": LATER,
        "iceberg": LATER,
        "hudi": 2,
    }
    again = "2 files were written again since the last audit, perhaps by a restore of the table"
    assert all(found[table]["explanation"].endswith(again) for table in ("delta", "hudi"))
    undecided = {row["table_name"]: row["undecided"] for row in results_of(place.lake()).coverage(run.run_id)
                 if row["axis"] == "content"}  # fmt: skip
    assert undecided["again.delta"] == undecided["again.hudi"] == 2
