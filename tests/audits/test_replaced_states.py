"""Files of Iceberg and Hudi states that were written twice, of which only an older version shows the first content.

No audit has read the tables before. They lie in one bucket that keeps versions, and a report lists all of these.
"""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.hudi import unpacked
from tests.builders.iceberg import IcebergLake
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

Content = dict[str, Any]


@dataclass
class Versioned:
    """One table's metadata in a bucket that keeps versions."""

    s3: Any
    bucket: str
    table: str

    def put(self, key: str, content: Content | bytes) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def read(self, key: str) -> Content:
        content: Content = json.loads(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())
        return content

    def state(self, number: int) -> str:
        return f"warehouse/{self.table}/metadata/v{number}.metadata.json"

    def written_first(self, key: str, first: Content | bytes) -> None:
        """The file had that content, and has its own since."""
        content = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        self.put(key, first)
        self.put(key, content)

    def named_by_numbers(self, keys: list[str]) -> None:
        """The metadata.json files get the names that tables without a catalog have."""
        names = {
            f"s3://{self.bucket}/{key}": f"s3://{self.bucket}/{self.state(n)}" for n, key in enumerate(keys)
        }
        for number, key in enumerate(keys):
            content = self.read(key)
            for each in content.get("metadata-log", ()):
                each["metadata-file"] = names[each["metadata-file"]]
            self.put(self.state(number), content)
            for one in self.s3.list_object_versions(Bucket=self.bucket, Prefix=key)["Versions"]:
                self.s3.delete_object(Bucket=self.bucket, Key=key, VersionId=one["VersionId"])


def with_snapshot(content: Content, id_: int) -> Content:
    """The same with one more snapshot, of the files of the last one."""
    *_, last = content["snapshots"]
    more = {**last, "snapshot-id": id_, "parent-snapshot-id": last["snapshot-id"]}
    return {**content, "snapshots": [*content["snapshots"], more], "current-snapshot-id": id_, "refs": {}}


def snapshot_lost(table: Versioned) -> None:
    table.written_first(table.state(1), with_snapshot(table.read(table.state(1)), 777))


def newest_snapshot_lost(table: Versioned) -> None:
    table.written_first(table.state(2), with_snapshot(table.read(table.state(2)), 778))


def property_lost(table: Versioned) -> None:
    content = table.read(table.state(2))
    table.written_first(table.state(2), {**content, "properties": {**content["properties"], "owner": "shop"}})


def same_bytes(table: Versioned) -> None:
    key = table.state(2)
    table.written_first(key, table.s3.get_object(Bucket=table.bucket, Key=key)["Body"].read())


def retried(table: Versioned) -> None:
    content = table.read(table.state(2))
    table.written_first(table.state(2), {**content, "last-updated-ms": content["last-updated-ms"] - 5})


def torn_at_first(table: Versioned) -> None:
    table.written_first(table.state(2), b'{"format-version": 2, "table-uu')


def of_another_table(table: Versioned) -> None:
    other = {**with_snapshot(table.read(table.state(1)), 779), "table-uuid": str(uuid.UUID(int=7))}
    table.written_first(table.state(1), other)


def committed_again(table: Versioned) -> None:
    """The snapshot was lost from state 1, and is in the newest one."""
    newest = table.read(table.state(2))["snapshots"][-1]["snapshot-id"]
    table.written_first(table.state(1), with_snapshot(table.read(table.state(1)), newest))


def removed_between(table: Versioned) -> None:
    key = table.state(1)
    content = table.read(key)
    table.put(key, with_snapshot(content, 780))
    table.s3.delete_object(Bucket=table.bucket, Key=key)
    table.put(key, content)


def hudi_files_lost(table: Versioned) -> None:
    key = hudi_commit(table)
    content = table.read(key)
    stats = content["partitionToWriteStats"]
    folder = min(stats)
    lost = {**stats[folder][0], "path": f"{folder}/aaaaaaaa-0_9-9-9_20261123153843042.parquet"}
    table.written_first(key, {**content, "partitionToWriteStats": {**stats, folder: [lost]}})


def hudi_written_equal(table: Versioned) -> None:
    key = hudi_commit(table)
    table.written_first(key, {**table.read(key), "extraMetadata": {}})


def hudi_index_file_gone(table: Versioned) -> None:
    """A file of the metadata table, which is compared with the same report as all files."""
    prefix = f"warehouse/{table.table}/.hoodie/metadata/files/files-"
    (file,) = table.s3.list_objects_v2(Bucket=table.bucket, Prefix=prefix)["Contents"]
    table.s3.delete_object(Bucket=table.bucket, Key=file["Key"])


def hudi_commit(table: Versioned) -> str:
    prefix = f"warehouse/{table.table}/.hoodie/"
    listed = table.s3.list_objects_v2(Bucket=table.bucket, Prefix=prefix)["Contents"]
    return min(str(each["Key"]) for each in listed if each["Key"].endswith("042.commit"))


Fate = Callable[[Versioned], None]
REPLACED = [("overwritten_commit", "critical")]
FATES: dict[Fate, list[tuple[str, str]]] = {
    snapshot_lost: REPLACED,
    newest_snapshot_lost: REPLACED,
    property_lost: REPLACED,
    same_bytes: [],
    retried: [],
    torn_at_first: [],
    of_another_table: [],
    committed_again: [],
    removed_between: [],
    hudi_files_lost: REPLACED,
    hudi_written_equal: [],
    hudi_index_file_gone: [("missing_metadata", "error")],
}


@pytest.fixture(scope="module")
def findings_by_fate(
    aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    bucket, folder = f"test-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("replaced")
    aws.s3.create_bucket(Bucket=bucket)
    tables, entries = IcebergLake(aws.s3, s3, bucket), []
    unpacked(folder, 1, ["written", "restored"])
    tables.table("template")
    tables.copy("template", *(fate.__name__ for fate in FATES if not fate.__name__.startswith("hudi")))
    for fate in FATES:
        table = Versioned(aws.s3, bucket, fate.__name__)
        kind = "hudi" if table.table.startswith("hudi") else "iceberg"
        home = folder / "wh" / ("restored" if fate is hudi_index_file_gone else "written")
        for path in home.rglob("*") if kind == "hudi" else ():
            if path.is_file():
                table.put(f"warehouse/{table.table}/{path.relative_to(home)}", path.read_bytes())
        place = f"s3://{bucket}/warehouse/{table.table}"
        entries.append(f"- {{name: {table.table}, location: '{place}', manifests: [{{kind: {kind}}}]}}")
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for fate in FATES:
        table = Versioned(aws.s3, bucket, fate.__name__)
        states = [key for key in tables.keys(f"/{table.table}/metadata/") if key.endswith(".metadata.json")]
        table.named_by_numbers(states)
        fate(table)
    shop = Shop(aws.s3, s3, bucket)
    shop.take_inventory(all_versions=True)
    lake = shop.lake(folder, tables=entries)
    audited(lake, run_id="r")
    rows = [row for row in rows_of(results_of(lake).findings("r")) if row["severity"] != "info"]
    return {fate.__name__: [row for row in rows if row["table_name"] == fate.__name__] for fate in FATES}


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
def test_a_state_that_was_written_twice_is_reported_if_the_table_lacks_its_files(
    findings_by_fate: dict[str, list[dict[str, Any]]], fate: Fate
) -> None:
    rows = findings_by_fate[fate.__name__]
    assert [(row["kind"], row["severity"]) for row in rows] == FATES[fate], [r["explanation"] for r in rows]
    for row in rows:
        assert (row["recoverable"], bool(row["recovery"])) == ("yes", True)


def test_files_that_the_lost_state_added_are_named(findings_by_fate: dict[str, list[dict[str, Any]]]) -> None:
    (iceberg,), (hudi,) = findings_by_fate["snapshot_lost"], findings_by_fate["hudi_files_lost"]
    assert "snapshot 777" in iceberg["explanation"]
    assert iceberg["rows_at_stake"] > 0
    assert "aaaaaaaa-0_9-9-9_20261123153843042.parquet" in hudi["explanation"]
    assert (hudi["files"], hudi["rows_at_stake"]) == (1, 5)
