"""Whole audits of a bucket that was restored to the content of yesterday: one loss a table, one finding a table."""

import time
import uuid
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake
from lakeaudit.runtime.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders import iceberg
from tests.builders.audits import audited, results_of
from tests.builders.hudi import unpacked
from tests.builders.mending import Mending
from tests.builders.shop import Shop
from tests.conftest import Aws

DAYS = ("2026-11-01",)
LATER = 2
"""Commits of today."""


class Bucket:
    """A bucket that keeps versions, with a table of each format; `yesterday` has what it held then."""

    def __init__(self, aws: Aws, endpoint: Endpoint, folder: Path, *, versioned: bool) -> None:
        self.s3, self.bucket, self.folder = aws.s3, f"test-{uuid.uuid4().hex[:12]}", folder
        self.s3.create_bucket(Bucket=self.bucket)
        if versioned:
            self.s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": "Enabled"})
        self.versioned = versioned
        self.shop = Shop(self.s3, endpoint, self.bucket)
        self.shop.write("delta", days=DAYS, commits=2, rows=4)
        ice = iceberg.IcebergLake(self.s3, endpoint, self.bucket)
        table = ice.table("iceberg")
        hudi = unpacked(folder, 1, ["written"]) / "written"
        instants = sorted({p.name[:17] for p in (hudi / ".hoodie").iterdir() if p.name[:17].isdigit()})
        self.upload(hudi, lambda name: not any(each in name for each in instants[1:]))
        self.yesterday = self.content()
        self.shop.write("delta", days=DAYS, commits=LATER, rows=4)
        for number in range(LATER):
            table.append(iceberg.rows(9000 + number, DAYS, 4))
        self.upload(hudi, lambda name: any(each in name for each in instants[1:]))

    def upload(self, home: Path, wanted: Callable[[str], bool]) -> None:
        for path in sorted(home.rglob("*")):
            name = str(path.relative_to(home))
            if path.is_file() and wanted(name):
                self.s3.put_object(Bucket=self.bucket, Key=f"warehouse/hudi/{name}", Body=path.read_bytes())

    def keys(self) -> set[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix="warehouse/")
        return {each["Key"] for page in pages for each in page.get("Contents", [])}

    def content(self) -> dict[str, bytes]:
        return {key: self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in self.keys()}

    def hide_what_is_new(self) -> None:
        for key in self.keys() - self.yesterday.keys():
            self.s3.delete_object(Bucket=self.bucket, Key=key)

    def write_anew(self) -> None:
        """Logs first, and data files later than the clocks' step."""
        self.hide_what_is_new()
        for data in (False, True):
            time.sleep(3.2 if data else 0)
            for key, body in sorted(self.yesterday.items()):
                if key.endswith(".parquet") is data:
                    self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def lake(self) -> Lake:
        tables = [
            f"- {{name: {name}, location: 's3://{self.bucket}/warehouse/{name}', manifests: [{{kind: {name}}}]}}"
            for name in ("delta", "iceberg", "hudi")
        ]
        listing = f"[{{kind: listing, location: 's3://{self.bucket}/warehouse/'}}]"
        return self.shop.lake(self.folder, tables=tables, inventories=None if self.versioned else listing)

    def audit(self) -> Outcome:
        if self.versioned:
            self.shop.take_inventory(all_versions=True)
        return audited(self.lake())


def findings(lake: Lake, run: Outcome) -> dict[str, dict[str, Any]]:
    """What a run found, by table: no two findings are about one table."""
    rows = list(rows_of(results_of(lake).findings(run.run_id)))
    by_table = {row["table_name"]: row for row in rows}
    assert len(by_table) == len(rows), [(row["table_name"], row["kind"], row["subject"]) for row in rows]
    return by_table


LOST = dict.fromkeys(("delta", "iceberg", "hudi"), ("missing_metadata", "critical"))


@pytest.fixture(scope="module")
def marked_bucket(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> tuple[Bucket, Outcome]:
    place = Bucket(aws, s3, tmp_path_factory.mktemp("marked_bucket"), versioned=True)
    assert findings(place.lake(), place.audit()) == {}
    place.hide_what_is_new()
    return place, place.audit()


def test_a_restore_by_delete_markers_is_one_finding_a_table(marked_bucket: tuple[Bucket, Outcome]) -> None:
    found = findings(marked_bucket[0].lake(), marked_bucket[1])
    assert {table: (row["kind"], row["severity"]) for table, row in found.items()} == LOST
    assert {table: row["files"] for table, row in found.items()} == {
        "delta": LATER,
        "iceberg": LATER,
        "hudi": 5,
    }
    assert (found["delta"]["rows_at_stake"], found["delta"]["recoverable"]) == (4 * LATER, "yes")
    names = ", ".join(f"{version:020}.json" for version in range(2, 2 + LATER))
    assert (
        f"{LATER} states are lost together: {names}; storage keeps a version of {LATER} of {LATER}"
        in (found["delta"]["explanation"])
    )
    assert "3 states are lost together: " in found["hudi"]["explanation"]


def test_a_plan_restores_every_lost_state_of_a_table(marked_bucket: tuple[Bucket, Outcome]) -> None:
    place, _ = marked_bucket
    mending = Mending(place.lake(), place.folder)
    mending.plan(StringIO())
    mending.apply()
    done = [key for key, status in mending.statuses().items() if status == "applied"]
    assert {key for key in done if "_delta_log" in key} == {
        f"warehouse/delta/_delta_log/{version:020}.json" for version in range(2, 2 + LATER)
    }
    assert len([key for key in done if "/.hoodie/" in key]) == 3
    (state,) = [key for key in done if "iceberg" in key]
    assert f"/metadata/{2 + LATER:05}-" in state


def test_a_restore_that_writes_everything_again_is_one_finding_a_table(
    aws: Aws, s3: Endpoint, tmp_path: Path
) -> None:
    place = Bucket(aws, s3, tmp_path, versioned=False)
    assert findings(place.lake(), place.audit()) == {}
    place.write_anew()
    run = place.audit()
    found = findings(place.lake(), run)
    assert {table: (row["kind"], row["severity"]) for table, row in found.items()} == LOST
    assert {table: row["files"] for table, row in found.items()} == {
        "delta": LATER,
        "iceberg": LATER,
        "hudi": 2,
    }
    again = "2 files were written again since the last audit, as by a restore of the table"
    assert all(found[table]["explanation"].endswith(again) for table in ("delta", "hudi"))
    undecided = {row["table_name"]: row["undecided"] for row in results_of(place.lake()).coverage(run.run_id)
                 if row["axis"] == "content"}  # fmt: skip
    assert undecided["delta"] == undecided["hudi"] == 2
