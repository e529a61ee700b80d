"""Iceberg folders that hold a copy of another table's metadata.json: a table's own metadata says what it is."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.iceberg import IcebergLake
from tests.conftest import Aws

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


@pytest.mark.parametrize("number", ["99999", "00000"])
def test_the_own_metadata_of_a_folder_wins(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, number: str
) -> None:
    """`mixed` holds the metadata of `other` beside its own, newer or older, and has lost a file; `copied` is a copy."""
    lake = IcebergLake(aws.s3, s3, bucket)
    for name in ("mixed", "other", "plain"):
        lake.table(name)
    _copy(lake, _metadata(lake, "other"), f"warehouse/mixed/metadata/{number}-{uuid.uuid4()}.metadata.json")
    for key in lake.keys("warehouse/plain/"):
        _copy(lake, key, key.replace("/plain/", "/copied/"))
    gone = lake.keys("warehouse/mixed/data/")[0]
    aws.s3.delete_object(Bucket=bucket, Key=gone)
    loaded = _lake_of(tmp_path, s3, bucket, "mixed", "other", "plain", "copied")
    audited(loaded, live=True, run_id="one")
    results = results_of(loaded)
    found = [row for row in rows_of(results.findings("one")) if row["severity"] != "info"]
    assert [(row["table_name"], row["kind"], row["key"]) for row in found] == [("mixed", "dropped", gone)]
    rows = {(row["table_name"], row["axis"]): row for row in results.coverage("one") if row["axis"] in JUDGED}
    status = {name: tuple(rows[name, axis]["status"] for axis in JUDGED) for name, _ in rows}
    assert status == {
        "mixed": ("complete", "partial"),
        "other": ("complete", "complete"),
        "plain": ("complete", "complete"),
        "copied": ("complete", "partial"),
    }
    assert rows["copied", "leftover"]["reason"] == (
        f"its metadata says that the table lies in s3://{bucket}/warehouse/plain"
    )
    assert "is of another table" in rows["mixed", "leftover"]["reason"]


def test_the_reason_names_the_files_that_end_the_doubt_about_a_dropped_table(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """`orders` was dropped without PURGE and created again in place; then the named files are moved away."""
    lake = IcebergLake(aws.s3, s3, bucket)
    lake.table("orders")
    old, data = (lake.keys(f"warehouse/orders/{folder}/") for folder in ("metadata", "data"))
    old = [key for key in old if key.endswith(".metadata.json")]
    IcebergLake(aws.s3, s3, bucket).table("orders")
    loaded = _lake_of(tmp_path, s3, bucket, "orders")

    def leftover(run: str) -> dict[str, Any]:
        audited(loaded, live=True, run_id=run)
        (row,) = (row for row in results_of(loaded).coverage(run, ["orders"]) if row["axis"] == "leftover")
        return row

    one = leftover("one")
    assert (one["status"], one["findings"]) == ("partial", 0)
    assert all(key.rpartition("/")[2] in one["reason"] for key in old), one["reason"]
    for key in old:
        _copy(lake, key, key.replace("warehouse/orders/metadata/", "dropped/"))
        aws.s3.delete_object(Bucket=bucket, Key=key)
    two = leftover("two")
    assert (two["status"], two["undecided"]) == ("complete", 0), two["reason"]
    assert two["findings"] >= len(data)
    above_info = [row for row in rows_of(results_of(loaded).findings("two")) if row["axis"] != "leftover"]
    assert above_info == []
