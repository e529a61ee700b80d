"""An Iceberg table whose location has an empty part: Hadoop writes its keys with one slash, other clients with two."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import load_lake
from lakeaudit.evidence.manifest.iceberg.current.collapsed_paths import forms
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.iceberg import NO_WAIT, IcebergLake
from tests.builders.iceberg_files import Entry, Snapshot, relocate, write_metadata
from tests.conftest import Aws

TABLES = {
    "hadoop": ("warehouse//db", "warehouse/db"),
    "other": ("warehouse//db", "warehouse//db"),
    "hadoop_named_by_key": ("warehouse/db", "warehouse/db"),
}
"""The folder of each table in the lake file, and the one in which its writer puts its objects."""


def test_the_forms_of_a_place() -> None:
    assert forms(Location("b", "wh//db/t")) == (Location("b", "wh//db/t"), Location("b", "wh/db/t"))
    assert forms(Location("b", "wh/db/t")) == (Location("b", "wh/db/t"),)
    assert forms(Location("", "tmp//wh")) == (Location("", "tmp/wh"),)


def lay(aws: Aws, bucket: str, writer: str, folder: Path) -> list[str]:
    """A table at `s3://bucket/warehouse//db/WRITER`, whose objects lie where that writer puts them; its data files."""
    home = folder / writer
    names = [f"part-{number}.parquet" for number in range(4)]
    write_metadata(home, {1: Snapshot({"m1": [Entry(name) for name in names]}, at=datetime.now(UTC))})
    (home / "data").mkdir()
    for name in names:
        (home / "data" / name).write_bytes(b"x" * 100)
    sizes: dict[str, int] = {}
    # data files, then manifests, then the list, which says how long these are, then the metadata
    for path in sorted(home.rglob("*.*"), key=lambda path: (path.suffix, path.name)):
        to = f"s3://{bucket}/warehouse//db/{writer}"
        body = relocate(path.read_bytes(), f"file://{home}", to, sizes)
        sizes[f"{to}/{path.relative_to(home)}"] = len(body)
        aws.s3.put_object(
            Bucket=bucket, Key=f"{TABLES[writer][1]}/{writer}/{path.relative_to(home)}", Body=body
        )
    return [f"{TABLES[writer][1]}/{writer}/data/{name}" for name in names]


@pytest.mark.variant
def test_files_count_as_present_in_the_form_that_their_writer_gave_them(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    shop, lost, entries = IcebergLake(aws.s3, s3, bucket), dict[str, str](), []
    for name, (location, _) in TABLES.items():
        lost[name] = lay(aws, bucket, name, tmp_path)[1]
        place = f"s3://{bucket}/{location}/{name}"
        entries.append(f"{{name: {name}, location: '{place}', manifests: [{{kind: iceberg}}]}}")
    time.sleep(1.1)
    lake = shop.lake(tmp_path, entries=entries)
    assert audited(lake, run_id="healthy").exit_code == 0
    assert findings_by_table(lake, "healthy") == {}
    for key in lost.values():
        shop.drop(key)
    audited(lake, run_id="broken")
    assert findings_by_table(lake, "broken") == {name: ("dropped", key) for name, key in lost.items()}
    shares = {row["table_name"]: row["decided_share"] for row in results_of(lake).coverage("broken")
              if row["axis"] == "content"}  # fmt: skip
    assert shares == dict.fromkeys(lost, 1.0)


def findings_by_table(lake: Any, run_id: str) -> dict[str, tuple[str, str]]:
    return {
        row["table_name"]: (row["kind"], row["key"]) for row in rows_of(results_of(lake).findings(run_id))
    }


@pytest.mark.variant
def test_files_of_a_list_count_as_present_under_single_slashes(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """Hadoop wrote what the job named with two slashes; one file is gone and one is there as it is named."""
    names = {"there": "wh/t/there", "raw": "wh//t/raw", "cut": "wh/t/cut", "lost": None}
    rows = [
        {"path": f"s3://{bucket}/wh//t/{name}", "size": 100, "committed_at": datetime.now(UTC).isoformat()}
        for name in names
    ]
    for name, key in names.items():
        if key:
            aws.s3.put_object(Bucket=bucket, Key=key, Body=b"x" * (99 if name == "cut" else 100))
    aws.s3.put_object(Bucket=bucket, Key="lists/a.jsonl", Body="\n".join(map(json.dumps, rows)).encode())
    manifest = f"{{kind: file_list, location: 's3://{bucket}/lists/'}}"
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path / 'results'}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: listing, location: 's3://{bucket}/wh/'}}]\n"
        f"tables: [{{name: t, location: 's3://{bucket}/wh//t', manifests: [{manifest}]}}]\n"
        f"defaults: {{{NO_WAIT}}}\n"
    )
    time.sleep(1.1)
    lake = load_lake(path, {})
    audited(lake, run_id="r")
    keys = [
        (row["kind"], row["key"])
        for row in rows_of(results_of(lake).findings("r"))
        if row["axis"] == "content"
    ]
    assert sorted(keys) == [("dropped", "wh//t/cut"), ("dropped", "wh//t/lost")]
