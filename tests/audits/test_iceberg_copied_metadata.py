"""Iceberg folders that hold a copy of another table's metadata.json: a table is recognized by its own metadata."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.iceberg import IcebergLake
from tests.conftest import Aws

pytestmark = pytest.mark.variant

NOW = "grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1MiB"
JUDGED = ("content", "leftover")


def _metadata(lake: IcebergLake, name: str) -> str:
    """The key of a table's newest metadata.json."""
    return max(key for key in lake.keys(f"warehouse/{name}/metadata/") if key.endswith(".metadata.json"))


def _copy(lake: IcebergLake, key: str, to: str) -> None:
    lake.s3.copy_object(Bucket=lake.bucket, Key=to, CopySource={"Bucket": lake.bucket, "Key": key})


def _lake_of(folder: Path, s3: Endpoint, bucket: str, *names: str) -> Lake:
    tables = ", ".join(
        f"{{name: {name}, location: 's3://{bucket}/warehouse/{name}', manifests: [{{kind: iceberg}}]}}"
        for name in names
    )
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: copies\nresults: {folder / 'results'}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: listing, location: 's3://{bucket}/'}}]\ntables: [{tables}]\ndefaults: {{{NOW}}}\n"
    )
    return load_lake(path, {})


MIXED = {"mixed_newer": "99999", "mixed_older": "00000"}
"""Tables that hold the metadata of `other` beside their own, and the number of that file."""


@dataclass(frozen=True)
class Copies:
    """Two audits of one lake: before the second one the metadata of the dropped `orders` was moved away."""

    bucket: str
    results: Results
    lost: dict[str, str]
    """The key of the lost data file, by table."""
    old: list[str]
    """Keys of the metadata of the dropped `orders`."""
    data: list[str]
    """Keys of its data files."""

    def above_info(self, run: str) -> list[dict[str, Any]]:
        return [row for row in rows_of(self.results.findings(run)) if row["severity"] != "info"]

    def coverage(self, run: str) -> dict[tuple[str, str], dict[str, Any]]:
        rows = self.results.coverage(run)
        return {(row["table_name"], row["axis"]): row for row in rows if row["axis"] in JUDGED}


@pytest.fixture(scope="module")
def copies(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Copies:
    """`copied` is a copy of `plain`, and `orders` was dropped without PURGE and created again in place."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    lake = IcebergLake(aws.s3, s3, bucket)
    for name in (*MIXED, "other", "plain", "orders"):
        lake.table(name)
    for name, number in MIXED.items():
        _copy(
            lake, _metadata(lake, "other"), f"warehouse/{name}/metadata/{number}-{uuid.uuid4()}.metadata.json"
        )
    for key in lake.keys("warehouse/plain/"):
        _copy(lake, key, key.replace("/plain/", "/copied/"))
    lost = {name: lake.keys(f"warehouse/{name}/data/")[0] for name in MIXED}
    for key in lost.values():
        lake.drop(key)
    old = [key for key in lake.keys("warehouse/orders/metadata/") if key.endswith(".metadata.json")]
    data = lake.keys("warehouse/orders/data/")
    for key in old:  # storage records whole seconds; of two files with one number the younger one is current
        backdate(bucket, key, datetime.now(UTC) - timedelta(seconds=5))
    IcebergLake(aws.s3, s3, bucket).table("orders")
    loaded = _lake_of(
        tmp_path_factory.mktemp("copies"), s3, bucket, *MIXED, "other", "plain", "copied", "orders"
    )
    audited(loaded, live=True, run_id="one")
    for key in old:
        _copy(lake, key, key.replace("warehouse/orders/metadata/", "dropped/"))
        lake.drop(key)
    audited(loaded, live=True, run_id="two")
    return Copies(bucket, results_of(loaded), lost, old, data)


@pytest.mark.parametrize("name", MIXED)
def test_the_own_metadata_of_a_folder_wins(copies: Copies, name: str) -> None:
    """The table has lost a file of its own, which is reported whether the other metadata is newer or older."""
    found = [row for row in copies.above_info("one") if row["table_name"] == name]
    assert [(row["kind"], row["key"]) for row in found] == [("dropped", copies.lost[name])]
    rows = copies.coverage("one")
    assert (rows[name, "content"]["status"], rows[name, "leftover"]["status"]) == ("complete", "partial")
    assert "is of another table" in rows[name, "leftover"]["reason"]


def test_only_the_tables_whose_metadata_is_copied_are_in_doubt(copies: Copies) -> None:
    assert {row["table_name"] for row in copies.above_info("one")} == {*MIXED}
    rows = copies.coverage("one")
    status = {name: tuple(rows[name, axis]["status"] for axis in JUDGED) for name, _ in rows}
    assert status == {
        **dict.fromkeys(MIXED, ("complete", "partial")),
        "other": ("complete", "complete"),
        "plain": ("complete", "complete"),
        "copied": ("complete", "partial"),
        "orders": ("complete", "partial"),
    }
    assert rows["copied", "leftover"]["reason"] == (
        f"its metadata says that the table is at s3://{copies.bucket}/warehouse/plain"
    )


def test_the_reason_names_the_files_that_end_the_doubt_about_a_dropped_table(copies: Copies) -> None:
    one, two = (copies.coverage(run)["orders", "leftover"] for run in ("one", "two"))
    assert (one["status"], one["findings"]) == ("partial", 0)
    assert all(key.rpartition("/")[2] in one["reason"] for key in copies.old), one["reason"]
    assert (two["status"], two["undecided"]) == ("complete", 0), two["reason"]
    assert two["findings"] >= len(copies.data)
    found = [row for row in rows_of(copies.results.findings("two")) if row["table_name"] == "orders"]
    assert [row for row in found if row["axis"] != "leftover"] == []
