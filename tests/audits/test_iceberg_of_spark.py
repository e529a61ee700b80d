"""Whole audits of the tables that the Iceberg runtime for Spark wrote (tests/data/iceberg): healthy, and broken."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.pipeline import narrow_reading
from lakeaudit.runtime.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.iceberg import BY_SPARK, NO_WAIT, lake_by_spark, tables_of_spark
from tests.builders.inventory import Version, csv, lay
from tests.conftest import Aws
from tests.data.iceberg.make import STATEMENTS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@pytest.fixture
def names(request: pytest.FixtureRequest, aws: Aws) -> Iterator[tuple[str, ...]]:
    """The tables that a test is marked with, else all."""
    chosen = getattr(request, "param", tuple(STATEMENTS))
    with tables_of_spark(aws.s3, chosen):
        yield chosen


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("names", [names], indirect=True, ids=[""])


def findings(lake: Lake) -> list[dict[str, Any]]:
    return [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]


def test_every_healthy_table_is_quiet_and_fully_decided(
    names: tuple[str, ...], s3: Endpoint, tmp_path: Path
) -> None:
    lake = lake_by_spark(tmp_path, s3, names)
    outcome = audited(lake, run_id="r")
    assert (outcome.exit_code, outcome.warnings) == (0, ())
    assert [(r["table_name"], r["kind"], r["key"], r["explanation"]) for r in findings(lake)] == []
    rows = results_of(lake).coverage("r")
    assert {
        (r["table_name"], r["reason"]) for r in rows if r["axis"] == "content" and r["status"] != "complete"
    } == set()
    assert {r["decided_share"] for r in rows if r["decided_share"] is not None} == {1.0}


def keys_of(s3: "S3Client", part: str) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BY_SPARK)
    return [each["Key"] for page in pages for each in page.get("Contents", []) if part in each["Key"]]


@only("vectors", "merged")
def test_tables_are_found_in_an_inventory(
    names: tuple[str, ...], aws: Aws, s3: Endpoint, tmp_path: Path
) -> None:
    pages = aws.s3.get_paginator("list_objects_v2").paginate(Bucket=BY_SPARK)
    rows = [
        Version(e["Key"], None, Size=e["Size"], LastModifiedDate=e["LastModified"], ETag=e["ETag"].strip('"'),
                Bucket=BY_SPARK)
        for page in pages for e in page.get("Contents", [])
    ]  # fmt: skip

    def put(key: str, body: bytes) -> Any:
        return aws.s3.put_object(Bucket=BY_SPARK, Key=key, Body=body)

    lay(put, [csv(rows)], at=datetime.now(UTC), under="inv", source=BY_SPARK)
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: spark\nresults: {tmp_path / 'results'}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: s3_inventory, location: 's3://{BY_SPARK}/inv/', margin: 0s}}]\n"
        f"tables: [{{discover: {{from: inventory, under: ['s3://{BY_SPARK}/wh/s/'], formats: [delta, iceberg]}}}}]\n"
        f"defaults: {{{NO_WAIT}}}\n"
    )
    lake = load_lake(path, {})
    outcome = audited(lake, run_id="r")
    assert {table.name: table.manifests[0].kind for table in outcome.tables} == dict.fromkeys(
        names, "iceberg"
    )
    assert [(r["kind"], r["key"]) for r in findings(lake)] == []
    (row,) = [r for r in results_of(lake).runs() if r["run_id"] == "r"]
    (source,) = [each for each in row["sources"] if each["role"] == "manifest"]
    assert source["location"] == f"{len(names)} tables, by their newest metadata.json"


def by_task(s3: "S3Client", part: str) -> list[list[str]]:
    """Keys that have `part` somewhere by the task that wrote them, which Spark numbers as it goes."""
    tasks: dict[int, list[str]] = {}
    for key in keys_of(s3, part):
        tasks.setdefault(int(key.rpartition("/")[2].split("-")[1]), []).append(key)
    return [tasks[number] for number in sorted(tasks)]


@only("vectors", "branches", "elsewhere", "staged", "compacted", "merged")
@pytest.mark.parametrize("screened", [False, True])
def test_every_loss_is_named_by_what_it_is(
    names: tuple[str, ...],
    aws: Aws,
    s3: Endpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    screened: bool,
) -> None:
    if screened:
        monkeypatch.setattr(narrow_reading, "SCREEN_FROM", 0)
    lost = {
        "dropped": [
            by_task(aws.s3, "/vectors/data/")[-1][-1],  # deletion vectors
            by_task(aws.s3, "/branches/data/")[1][0],  # of a branch alone
            by_task(aws.s3, "/data_of_elsewhere/")[0][0],
        ],
        "dropped_history": [
            by_task(aws.s3, "/branches/data/")[2][0],  # rolled back
            by_task(aws.s3, "/staged/data/")[-1][0],  # staged, not published
            keys_of(aws.s3, "/compacted/metadata/partition-stats-")[0],
        ],
    }
    torn = by_task(aws.s3, "/merged/data/")[0][0]
    stray = "wh/s/merged/data/day=2026-11-01/stray.parquet"
    for key in [*lost["dropped"], *lost["dropped_history"]]:
        aws.s3.delete_object(Bucket=BY_SPARK, Key=key)
    for key in (torn, stray):
        aws.s3.put_object(Bucket=BY_SPARK, Key=key, Body=b"torn")
        backdate(BY_SPARK, key, datetime.now(UTC) - timedelta(minutes=1))
    lake = lake_by_spark(tmp_path, s3, names)
    audited(lake, run_id="r")
    rows = findings(lake)
    expected = [(kind, key) for kind, keys in lost.items() for key in keys] + [("size_mismatch", torn)]
    assert sorted((r["kind"], r["key"]) for r in rows if r["axis"] == "content") == sorted(expected)
    assert [(r["kind"], r["table_name"]) for r in rows if r["axis"] != "content"] == [
        ("uncommitted", "merged")
    ]
    categories = {r["key"]: r["category"] for r in rows}
    assert categories[lost["dropped"][0]] == "deletes"


def newest_list(s3: "S3Client", table: str) -> str:
    """Key of the list of main's manifests."""
    metadata = max(key for key in keys_of(s3, f"/{table}/metadata/") if key.endswith(".json"))
    told = json.loads(s3.get_object(Bucket=BY_SPARK, Key=metadata)["Body"].read())
    newest = next(each for each in told["snapshots"] if each["snapshot-id"] == told["current-snapshot-id"])
    return str(newest["manifest-list"]).removeprefix(f"s3a://{BY_SPARK}/")


def first_manifest(s3: "S3Client", table: str) -> str:
    """Key of the first of main's manifests."""
    content = s3.get_object(Bucket=BY_SPARK, Key=newest_list(s3, table))["Body"].read()
    records: list[Any] = list(fastavro.reader(io.BytesIO(content)))
    return str(records[0]["manifest_path"]).removeprefix(f"s3a://{BY_SPARK}/")


@only("vectors", "compacted", "merged")
def test_lost_metadata_is_told_with_what_it_hides_and_the_other_tables_are_judged(
    names: tuple[str, ...], aws: Aws, s3: Endpoint, tmp_path: Path
) -> None:
    lost = {"merged": first_manifest(aws.s3, "merged"), "compacted": newest_list(aws.s3, "compacted")}
    gone = by_task(aws.s3, "/vectors/data/")[0][0]
    for key in (*lost.values(), gone):
        aws.s3.delete_object(Bucket=BY_SPARK, Key=key)
    lake = lake_by_spark(tmp_path, s3, names)
    assert audited(lake, run_id="r").exit_code == 3
    rows = {(r["table_name"], r["kind"], r["key"]): r["explanation"] for r in findings(lake)}
    assert rows.keys() == {
        ("merged", "missing_metadata", lost["merged"]),
        ("compacted", "missing_metadata", lost["compacted"]),
        ("vectors", "dropped", gone),
    }
    hides = {key: told for (_, _, key), told in rows.items()}
    assert hides[lost["merged"]] == "it is gone; hides 8 files of main"
    assert hides[lost["compacted"]] == "it is gone; hides 2 data files of main"
