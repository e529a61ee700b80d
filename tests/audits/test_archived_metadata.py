"""Whole audits of tables whose own metadata lies in an archive class: lost under a delete marker, or there and unread.

One versioned bucket, whose store refuses to read what is archived, as S3 does.
"""

import io
import itertools
import json
import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.advice import next_steps
from lakeaudit.config import Lake
from lakeaudit.reconcile.key_state import KeyReader
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.threads import Pacer
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.healthy_hudi import HudiHistory
from tests.builders.iceberg import IcebergLake
from tests.builders.odd_stores import Request, Response, habit
from tests.builders.repair_plans import RepairPlans
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

COLD = ("GLACIER", "DEEP_ARCHIVE")
REFUSED = b"<Error><Code>InvalidObjectState</Code><Message>The storage class refuses it</Message></Error>"
OF_XML = {"content-type": "application/xml"}
RESTORED = 'ongoing-request="false", expiry-date="Fri, 01 Jan 2100 00:00:00 GMT"'
LOST: dict[str, tuple[str, str]] = {
    "delta_deep": (".json", "DEEP_ARCHIVE"),
    "delta_instant": (".json", "GLACIER_IR"),
    "ice_manifest": ("-m0.avro", "DEEP_ARCHIVE"),
    "ice_metadata": (".metadata.json", "GLACIER"),
    "hudi_lost": (".commit", "DEEP_ARCHIVE"),
}
"""By table which file of its metadata is lost, the last with this end, and the class of the version that is left."""
THERE = ("ice_list", "hudi_newest", "ice_old_metadata")
"""Tables of which a file of the metadata is archived where it lies."""
HOURS = {
    "DEEP_ARCHIVE": "12 hours, or 48 at the bulk rate",
    "GLACIER": "3 to 5 hours, or 5 to 12 at the bulk rate",
}


@dataclass
class Archive:
    """The bucket, the versions in it that no reader can read, and those of which a copy can be read for some days."""

    shop: Shop
    cold: set[tuple[str, str]] = field(default_factory=set)
    restored: set[tuple[str, str]] = field(default_factory=set)
    current: dict[str, str] = field(default_factory=dict)

    def keys(self, table: str, part: str) -> list[str]:
        found = self.shop.s3.list_objects_v2(Bucket=self.shop.bucket, Prefix=f"warehouse/{table}/")[
            "Contents"
        ]
        return sorted(each["Key"] for each in found if each["Key"].endswith(part))

    def put(self, key: str, storage_class: Any) -> None:
        """The only version of an object, in another class."""
        at: Any = {"Bucket": self.shop.bucket, "Key": key}
        body = self.shop.s3.get_object(**at)["Body"].read()
        before = self.shop.s3.head_object(**at)["VersionId"]
        version = self.shop.s3.put_object(**at, Body=body, StorageClass=storage_class)["VersionId"]
        self.shop.s3.delete_object(**at, VersionId=before)
        if storage_class in COLD:
            self.cold.add((key, version))
            self.current[key] = version

    @contextmanager
    def refusing(self) -> Iterator[None]:
        def answer(request: Request, response: Response) -> Response:
            version = (request.key, request.asked.get("versionId") or self.current.get(request.key, ""))
            if request.method == "HEAD" and version in self.restored:
                return replace(response, headers={**response.headers, "x-amz-restore": RESTORED})
            if request.method != "GET" or version not in self.cold or not response.status.startswith("2"):
                return response
            return replace(response, status="403 Forbidden", headers=OF_XML, body=REFUSED)

        with habit(answer):
            yield


@dataclass
class Audited:
    archive: Archive
    lake: Lake
    lost: dict[str, str]
    by_table: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def audit(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    bucket, folder = f"test-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("archived")
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop = Shop(aws.s3, s3, bucket)
    archive, kinds = Archive(shop), dict[str, str]()
    for name in ("delta_deep", "delta_instant"):
        shop.write(name, commits=2, rows=4, days=("2026-11-10",))
        kinds[name] = "delta"
    ice = IcebergLake(aws.s3, s3, bucket)
    ice.table("template")
    tables = ("ice_manifest", "ice_metadata", "ice_list", "ice_old_metadata")
    ice.copy("template", *tables)
    kinds |= dict.fromkeys(tables, "iceberg")
    for name in ("hudi_lost", "hudi_newest"):
        table = HudiHistory(shop, name, random.Random(1), itertools.count(1), 1, timedelta(minutes=10))
        table.begin()
        table.insert()
        kinds[name] = "hudi"
    entries = [
        f"- {{name: {name}, location: 's3://{bucket}/warehouse/{name}', manifests: [{{kind: {kind}}}]}}"
        for name, kind in kinds.items()
    ]
    listing = f"[{{kind: listing, location: 's3://{bucket}/warehouse/'}}]"
    lake = shop.lake(folder, tables=entries, inventories=listing, defaults="grace: 0s, leftover_age: 3d")
    audited(lake, live=True, run_id="before")
    lost = {}
    for name, (part, storage_class) in LOST.items():
        lost[name] = archive.keys(name, part)[-1]
        archive.put(lost[name], storage_class)
        shop.s3.delete_object(Bucket=bucket, Key=lost[name])
    lists = [str(each.manifest_list) for each in ice.catalog.load_table("shop.ice_list").snapshots()]
    lost["ice_list"] = lists[-1].removeprefix(f"s3://{bucket}/")
    lost["hudi_newest"] = archive.keys("hudi_newest", ".commit")[-1]
    lost["ice_old_metadata"] = archive.keys("ice_old_metadata", ".metadata.json")[0]
    for name in THERE:
        archive.put(lost[name], "GLACIER")
    with archive.refusing():
        audited(lake, live=True, run_id="after")
    by_table: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(results_of(lake).findings("after")):
        by_table.setdefault(row["table_name"], []).append(row)
    return Audited(archive, lake, lost, by_table)


@pytest.mark.parametrize("table", LOST)
def test_a_lost_version_in_an_archive_is_restored_first(audit: Audited, table: str) -> None:
    storage_class = LOST[table][1]
    (row,) = (row for row in audit.by_table[table] if row["kind"] == "missing_metadata")
    assert (row["key"], row["severity"], row["recoverable"]) == (audit.lost[table], "critical", "yes")
    step = next_steps.way_back(row)
    assert step is not None
    if storage_class not in COLD:
        assert row["storage_class"] is None
        assert "must be restored first" not in row["explanation"]
        assert "delete-object" in step.command
        return
    assert row["storage_class"] == storage_class
    takes = f"which takes {HOURS[storage_class]}"
    sentence = f"the version to restore is in {storage_class} and must be restored first, {takes}"
    assert sentence in row["explanation"]
    assert step.command.startswith("aws s3api restore-object ")
    assert HOURS[storage_class] in step.what
    assert row["recovery_version_id"] in step.command


@pytest.mark.parametrize("table", ["ice_list", "hudi_newest"])
def test_a_newest_state_that_is_archived_is_critical(audit: Audited, table: str) -> None:
    (row,) = (row for row in audit.by_table[table] if row["kind"] == "missing_metadata")
    assert (row["key"], row["severity"], row["storage_class"]) == (audit.lost[table], "critical", "GLACIER")
    assert "the file is in GLACIER and must be restored first" in row["explanation"]
    assert "storage keeps no" not in row["explanation"]
    step = next_steps.way_back(row)
    assert step is not None
    assert step.command.startswith("aws s3api restore-object ")
    assert "--version-id" not in step.command


def test_an_archived_older_state_is_not_a_finding(audit: Audited) -> None:
    assert "ice_old_metadata" not in audit.by_table


def test_a_plan_waits_for_the_archive_and_then_copies(audit: Audited, tmp_path: Path) -> None:
    """A marker is never removed over an archived version: its copy could be read for some days only."""
    deep = audit.lost["delta_deep"]
    mending = RepairPlans(audit.lake, tmp_path)
    (tmp_path / "lake.yaml").write_text(
        (Path("/") / audit.lake.results.key).parent.joinpath("lake.yaml").read_text()
    )
    with audit.archive.refusing():
        mending.plan(io.StringIO())
        before = {row["table_name"]: row for row in _rows(mending)}
        for table, (_, storage_class) in LOST.items():
            step = before[table]
            if storage_class not in COLD:
                assert step["action"] == "remove_delete_marker"
                continue
            assert step["action"] == "needs_person"
            why = step["evidence"]["why"]
            assert f"is in {storage_class}: first restore that version" in why
            assert HOURS[storage_class] in why
        for table in ("ice_list", "hudi_newest"):
            assert "is in GLACIER: first restore that version" in before[table]["evidence"]["why"]
    (version,) = (version for key, version in audit.archive.cold if key == deep)
    audit.archive.cold.discard((deep, version))
    audit.archive.restored.add((deep, version))
    with audit.archive.refusing():
        mending.plan(io.StringIO())
        assert {row["table_name"]: row for row in _rows(mending)}["delta_deep"]["action"] == "restore_version"
        assert mending.apply().exit_code == 3, "the tests' server still refuses to copy the version"
    assert (mending.statuses()[deep], mending.statuses()[audit.lost["delta_instant"]]) == (
        "failed",
        "applied",
    )
    assert deep not in audit.archive.keys("delta_deep", ".json")


@pytest.mark.parametrize("versioned", [False, True])
def test_the_only_version_of_a_key_is_archived(
    aws: Aws, s3: Endpoint, bucket: str, *, versioned: bool
) -> None:
    if versioned:
        aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    aws.s3.put_object(Bucket=bucket, Key="cold", Body=b"x", StorageClass="GLACIER")
    state = KeyReader(Clients(s3), Pacer(100)).read(bucket, "cold")
    assert state.current is not None
    assert "is in GLACIER: first restore that version" in state.unreadable(state.current.version_id)


def _rows(mending: RepairPlans) -> list[dict[str, Any]]:
    return [json.loads(line) for line in mending.file.read_text().splitlines()[1:]]
