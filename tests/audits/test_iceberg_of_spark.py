"""Whole audits of the tables that the Iceberg runtime for Spark wrote (tests/data/iceberg): healthy, and broken."""

import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from lakeaudit.audit import projection_pass
from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.iceberg import BY_SPARK, NO_WAIT, lake_by_spark, tables_of_spark
from tests.builders.inventory import Version, csv, lay
from tests.conftest import Aws
from tests.data.iceberg.make import STATEMENTS

pytestmark = pytest.mark.variant

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class Audited:
    """The results of one audit."""

    outcome: Outcome
    findings: list[dict[str, Any]]
    coverage: list[dict[str, Any]]
    sources: list[dict[str, Any]]


def run_audit(lake: Lake) -> Audited:
    outcome, results = audited(lake, run_id="r"), results_of(lake)
    (row,) = [row for row in results.runs() if row["run_id"] == "r"]
    return Audited(outcome, list(rows_of(results.findings("r"))), results.coverage("r"), row["sources"])


@pytest.fixture(scope="module")
def tables(aws: Aws) -> Iterator[None]:
    """All tables, until the module's end: first they are audited as they are, and then what is broken of them."""
    with tables_of_spark(aws.s3, tuple(STATEMENTS)):
        yield


@pytest.fixture(scope="module")
def healthy(tables: None, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return run_audit(lake_by_spark(tmp_path_factory.mktemp("healthy"), s3, tuple(STATEMENTS)))


def test_every_healthy_table_is_quiet_and_fully_decided(healthy: Audited) -> None:
    assert (healthy.outcome.exit_code, healthy.outcome.warnings) == (0, ())
    assert [(r["table_name"], r["kind"], r["key"], r["explanation"]) for r in healthy.findings] == []
    rows = healthy.coverage
    assert {
        (r["table_name"], r["reason"]) for r in rows if r["axis"] == "content" and r["status"] != "complete"
    } == set()
    assert {r["decided_share"] for r in rows if r["decided_share"] is not None} == {1.0}


def keys_of(s3: "S3Client", part: str) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BY_SPARK)
    return [each["Key"] for page in pages for each in page.get("Contents", []) if part in each["Key"]]


FOUND = ("vectors", "merged")


@pytest.fixture(scope="module")
def by_inventory(tables: None, aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Audit a lake file that names no table, by a report that lists some."""
    pages = aws.s3.get_paginator("list_objects_v2").paginate(Bucket=BY_SPARK)
    rows = [
        Version(e["Key"], None, Size=e["Size"], LastModifiedDate=e["LastModified"], ETag=e["ETag"].strip('"'),
                Bucket=BY_SPARK)
        for page in pages for e in page.get("Contents", []) if e["Key"].startswith(tuple(f"wh/s/{n}/" for n in FOUND))
    ]  # fmt: skip

    def put(key: str, body: bytes) -> Any:
        return aws.s3.put_object(Bucket=BY_SPARK, Key=key, Body=body)

    lay(put, [csv(rows)], at=datetime.now(UTC), under="inv", source=BY_SPARK)
    folder = tmp_path_factory.mktemp("inventory")
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: spark\nresults: {folder / 'results'}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: s3_inventory, location: 's3://{BY_SPARK}/inv/', margin: 0s}}]\n"
        f"tables: [{{discover: {{from: inventory, under: ['s3://{BY_SPARK}/wh/s/'], formats: [delta, iceberg]}}}}]\n"
        f"defaults: {{{NO_WAIT}}}\n"
    )
    return run_audit(load_lake(path, {}))


def test_tables_are_found_in_an_inventory(by_inventory: Audited) -> None:
    assert {table.name: table.manifests[0].kind for table in by_inventory.outcome.tables} == dict.fromkeys(
        FOUND, "iceberg"
    )
    assert [(r["kind"], r["key"]) for r in by_inventory.findings] == []
    (source,) = [each for each in by_inventory.sources if each["role"] == "manifest"]
    assert source["location"] == f"{len(FOUND)} tables, by their newest metadata.json"


def by_task(s3: "S3Client", part: str) -> list[list[str]]:
    """Keys that have `part` somewhere by the task that wrote them, which Spark numbers as it goes."""
    tasks: dict[int, list[str]] = {}
    for key in keys_of(s3, part):
        tasks.setdefault(int(key.rpartition("/")[2].split("-")[1]), []).append(key)
    return [tasks[number] for number in sorted(tasks)]


def newest_list(s3: "S3Client", table: str) -> str:
    """Key of the list of main's manifests."""
    metadata = max(key for key in keys_of(s3, f"/{table}/metadata/") if key.endswith(".json"))
    state = json.loads(s3.get_object(Bucket=BY_SPARK, Key=metadata)["Body"].read())
    newest = next(each for each in state["snapshots"] if each["snapshot-id"] == state["current-snapshot-id"])
    return str(newest["manifest-list"]).removeprefix(f"s3a://{BY_SPARK}/")


def first_manifest(s3: "S3Client", table: str) -> str:
    """Key of the first of main's manifests."""
    content = s3.get_object(Bucket=BY_SPARK, Key=newest_list(s3, table))["Body"].read()
    records: list[Any] = list(fastavro.reader(io.BytesIO(content)))
    return str(records[0]["manifest_path"]).removeprefix(f"s3a://{BY_SPARK}/")


BROKEN = ("vectors", "branches", "elsewhere", "staged", "compacted", "merged", "transforms", "first_version")


@dataclass(frozen=True)
class Broken:
    """Damage to tables that had been audited before."""

    lost: dict[str, list[str]]
    """Keys by kind of finding."""
    torn: str
    metadata: dict[str, str]
    """Lost metadata by table."""


@pytest.fixture(scope="module")
def broken(healthy: Audited, by_inventory: Audited, aws: Aws) -> Broken:
    lost = {
        "dropped": [
            by_task(aws.s3, "/vectors/data/")[-1][-1],  # deletion vectors
            by_task(aws.s3, "/branches/data/")[1][0],  # of a branch alone
            by_task(aws.s3, "/data_of_elsewhere/")[0][0],
        ],
        "dropped_history": [
            by_task(aws.s3, "/branches/data/")[2][0],  # rolled back
            by_task(aws.s3, "/staged/data/")[-1][0],  # staged, not published
        ],
        "missing_metadata": [keys_of(aws.s3, "/compacted/metadata/partition-stats-")[0]],
    }
    torn, stray = by_task(aws.s3, "/transforms/data/")[0][0], "wh/s/transforms/data/stray.parquet"
    metadata = {
        "merged": first_manifest(aws.s3, "merged"),
        "first_version": newest_list(aws.s3, "first_version"),
    }
    for key in [*itertools.chain.from_iterable(lost.values()), *metadata.values()]:
        aws.s3.delete_object(Bucket=BY_SPARK, Key=key)
    for key in (torn, stray):
        aws.s3.put_object(Bucket=BY_SPARK, Key=key, Body=b"torn")
        backdate(BY_SPARK, key, datetime.now(UTC) - timedelta(minutes=1))
    return Broken(lost, torn, metadata)


@pytest.fixture(scope="module", params=[pytest.param(False, marks=pytest.mark.soak), True])
def judged(
    request: pytest.FixtureRequest, broken: Broken, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> Audited:
    """Screened, or not."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param:
            patched.setattr(projection_pass, "PREFILTER_FROM", 0)
        return run_audit(lake_by_spark(tmp_path_factory.mktemp("broken"), s3, BROKEN))


def test_every_loss_is_reported_by_its_kind(judged: Audited, broken: Broken) -> None:
    lost = broken.lost
    rows = [row for row in judged.findings if row["key"] not in broken.metadata.values()]
    expected = [(kind, key) for kind, keys in lost.items() for key in keys] + [("size_mismatch", broken.torn)]
    assert sorted((r["kind"], r["key"]) for r in rows if r["axis"] == "content") == sorted(expected)
    assert [(r["kind"], r["table_name"]) for r in rows if r["axis"] != "content"] == [
        ("uncommitted", "transforms")
    ]
    categories = {r["key"]: r["category"] for r in rows}
    assert categories[lost["dropped"][0]] == "deletes"
    assert [r["severity"] for r in rows if r["kind"] == "missing_metadata"] == ["warning"]


NO_VERSION = "storage keeps no object version of this file"


def test_lost_metadata_is_reported_with_the_hidden_files_and_the_other_tables_are_judged(
    judged: Audited, broken: Broken
) -> None:
    assert judged.outcome.exit_code == 3
    rows = [r for r in judged.findings if (r["kind"], r["severity"]) == ("missing_metadata", "critical")]
    assert {(r["table_name"], r["key"], r["explanation"]) for r in rows} == {
        (
            "merged",
            broken.metadata["merged"],
            f"this file is missing; this hides 8 files of main; {NO_VERSION}",
        ),
        (
            "first_version",
            broken.metadata["first_version"],
            f"this file is missing; this hides 2 data files of main; {NO_VERSION}",
        ),
    }
