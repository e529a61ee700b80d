"""The contract of readers of manifests, for each of them."""

import json
import os
import pickle
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.evidence.manifest.committers import ManifestCommitterManifest, S3ACommitterManifest
from lakeaudit.evidence.manifest.databricks_commits import DatabricksCommitsManifest
from lakeaudit.evidence.manifest.delta import DeltaManifest
from lakeaudit.evidence.manifest.file_list import FileListManifest
from lakeaudit.evidence.manifest.hudi import HudiManifest
from lakeaudit.evidence.manifest.iceberg import IcebergManifest
from lakeaudit.evidence.manifest.previous import PreviousManifest
from lakeaudit.evidence.manifest.previous.snapshot_store import FILE, StorageSnapshot, publish, write_rows
from lakeaudit.evidence.manifest.redshift_unload import RedshiftUnloadManifest
from lakeaudit.evidence.manifest.replica_source import InventoryManifest, ListingManifest
from lakeaudit.evidence.manifest.spark_event_log import SparkEventLogManifest
from lakeaudit.evidence.manifest.spark_sink import SparkSinkManifest
from lakeaudit.evidence.manifest.symlink import SymlinkManifest
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import plain_time
from tests.builders.event_logs import App, millis
from tests.builders.hudi import commit, instant_text, stat, write_timeline
from tests.builders.iceberg_files import Entry, Snapshot, write_metadata
from tests.builders.inventory import Version, csv, into, lay
from tests.builders.records import JOB, success, task_manifest
from tests.sources.manifest_contract import (
    FILES,
    NOW,
    WRITTEN,
    ManifestContract,
    World,
    claim_table,
    world_of,
)

BY_MANIFESTS = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter"


@pytest.fixture(scope="class")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the table, written when the job ended."""
    folder = tmp_path_factory.mktemp("lake")
    (folder / "events").mkdir()
    (folder / "records").mkdir()
    for name, (_, size) in FILES.items():
        (folder / "events" / name).write_bytes(b"x" * size)
        os.utime(folder / "events" / name, (WRITTEN.timestamp(), WRITTEN.timestamp()))
    return folder


def place(folder: Path, name: str) -> Location:
    return Location.parse(str(folder / name))


def record(path: Path, content: str) -> None:
    """Write a record as a writer leaves it at the end of its job."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (WRITTEN.timestamp(), WRITTEN.timestamp()))


class TestEventLogs(ManifestContract):
    kind = "spark_event_log"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        app = App(at=WRITTEN - timedelta(minutes=1))  # a write takes a minute
        app.write(f"file:{site / 'events'}", dict(enumerate(FILES.values())))
        app.end().save(site / "records")
        return world_of(
            site,
            SparkEventLogManifest(kind="spark_event_log", location=place(site, "records")),
            SparkEventLogManifest(kind="spark_event_log", location=place(site, "nothing")),
        )


class TestDeltaLogs(ManifestContract):
    kind = "delta"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        actions = [
            {"commitInfo": {"timestamp": millis(WRITTEN), "operation": "WRITE"}},
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": {"id": "1", "format": {"provider": "parquet", "options": {}}, "schemaString": "{}",
                          "partitionColumns": [], "configuration": {}, "createdTime": millis(WRITTEN)}},
            *({"add": {"path": name, "partitionValues": {}, "size": size, "dataChange": True,
                       "modificationTime": millis(WRITTEN)}} for name, (_, size) in FILES.items()),
        ]  # fmt: skip
        commit = "".join(json.dumps(action) + "\n" for action in actions)
        record(site / "events" / "_delta_log" / f"{0:020}.json", commit)
        return world_of(site, DeltaManifest(kind="delta"))


class TestFileLists(ManifestContract):
    kind = "file_list"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        at = WRITTEN.isoformat()
        lines = [
            {"path": str(site / "events" / name), "size": size, "records": rows, "committed_at": at}
            for name, (rows, size) in FILES.items()
        ]
        ended = [*lines, {"end": True, "lines": len(lines)}]
        (site / "records" / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ended))
        return world_of(
            site,
            FileListManifest(kind="file_list", location=place(site, "records")),
            FileListManifest(kind="file_list", location=place(site, "nothing")),
        )


class TestStreamingSinks(ManifestContract):
    kind = "spark_sink"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        log = site / "events" / "_spark_metadata"
        log.mkdir()
        files = [
            {"path": f"file://{site / 'events' / name}", "size": size, "isDir": False, "action": "add",
             "modificationTime": millis(WRITTEN), "blockReplication": 1, "blockSize": 33554432}
            for name, (_, size) in FILES.items()
        ]  # fmt: skip
        (log / "0").write_text("\n".join(["v1", *map(json.dumps, files)]))
        return world_of(site, SparkSinkManifest(kind="spark_sink"))


class TestSymlinks(ManifestContract):
    kind = "symlink"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        paths = [f"file:{site / 'events' / name}" for name in FILES]
        record(site / "events" / "_symlink_format_manifest" / "manifest", "\n".join(paths))
        return world_of(site, SymlinkManifest(kind="symlink"), sized=False)


class TestS3ACommitters(ManifestContract):
    kind = "s3a_committer"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        home = place(site, "events")
        ended: dict[str, Any] = {
            "timestamp": millis(WRITTEN),
            "iostatistics": {"counters": {"committer_commits_completed": 3}},
        }
        record(site / "events" / "_SUCCESS", json.dumps(success(home, tuple(FILES), **ended)))
        return world_of(site, S3ACommitterManifest(kind="s3a_committer"), sized=False, unrecorded="nothing")


class TestManifestCommitters(ManifestContract):
    kind = "manifest_committer"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        """As a job leaves it whose clean-up failed: the manifest of its task is still there."""
        home = place(site, "events")
        counters = {"committer_files_committed": 3, "committer_bytes_committed": 3003}
        ended: dict[str, Any] = {"timestamp": millis(WRITTEN), "iostatistics": {"counters": counters}}
        marker = success(home, tuple(FILES), BY_MANIFESTS, **ended)
        marker["filenames"] = [f"file:{site / 'events' / name}" for name in FILES]
        record(site / "events" / "_SUCCESS", json.dumps(marker))
        files = [
            {"s": "file:/tmp/x", "d": f"file:{site / 'events' / name}", "z": size}
            for name, (_, size) in FILES.items()
        ]
        task = site / "events" / "_temporary" / JOB / "00" / "manifests" / "task_1-manifest.json"
        record(task, json.dumps(task_manifest(home, (), files=files)))
        return world_of(site, ManifestCommitterManifest(kind="manifest_committer"), unrecorded="nothing")


class TestDatabricksCommits(ManifestContract):
    kind = "databricks_commits"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        record(site / "events" / "_started_8617", "")
        record(site / "events" / "_committed_8617", json.dumps({"added": [*FILES], "removed": []}))
        return world_of(
            site, DatabricksCommitsManifest(kind="databricks_commits"), sized=False, unrecorded="nothing"
        )


class TestOtherPlaces(ManifestContract):
    kind = "listing"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        there = site / "there" / "events"
        shutil.copytree(site / "events", there)
        for name in FILES:
            os.utime(there / name, (WRITTEN.timestamp(), WRITTEN.timestamp()))
        maps = ((place(site, "there"), place(site, "")),)
        original = ListingManifest(kind="listing", location=place(site, "there/events"))
        return world_of(site, original, clients=Clients(maps=maps))


class TestReportsOfOtherPlaces(ManifestContract):
    kind = "s3_inventory"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        held = [
            Version(f"wh/events/{name}", Size=size, LastModifiedDate=WRITTEN)
            for name, (_, size) in FILES.items()
        ]
        lay(into(site), [csv(held)])
        report = InventoryManifest(kind="s3_inventory", location=place(site, "inv"))
        return world_of(
            site,
            report,
            clients=Clients(maps=((Location("lake", "wh"), place(site, "")),)),
            unrecorded="nothing",
        )

    def test_its_parts_travel_to_other_processes(self, world: World) -> None:
        (parts,) = world.claims.rows
        assert isinstance(parts, tuple)
        sent = replace(world.claims, rows=(pickle.loads(pickle.dumps(parts)),))
        assert claim_table(sent).num_rows == len(FILES)


class TestStorageSnapshots(ManifestContract):
    kind = "previous"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        """A storage snapshot of a day later, half a day before the audit."""
        home, folder, seen = place(site, "events"), place(site, "pictures"), NOW - timedelta(hours=12)
        rows = [
            (
                "events",
                home.bucket,
                home.join(name).key,
                size,
                None,
                *map(plain_time, (WRITTEN, WRITTEN, seen)),
                False,
            )
            for name, (_, size) in FILES.items()
        ]
        with task_connection() as con:
            file = write_rows(Clients(), folder, duck.relation(con, duck.small(FILE, rows)))
        publish(Clients(), folder, StorageSnapshot("r1", seen, True, {"events": home.uri}, (file,)))
        return world_of(site, PreviousManifest(kind="previous", settled=timedelta(0)), unrecorded="not yet")


class TestIceberg(ManifestContract):
    kind = "iceberg"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        home = site / "events"
        entries = [Entry(f"file://{home / name}", size, rows) for name, (rows, size) in FILES.items()]
        write_metadata(home, {1: Snapshot({"m0": entries}, WRITTEN)})
        return world_of(site, IcebergManifest(kind="iceberg"))


class TestHudi(ManifestContract):
    kind = "hudi"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        stats = [stat(name, size, rows) for name, (rows, size) in FILES.items()]
        write_timeline(site / "events", {f"{instant_text(WRITTEN)}.commit": commit(*stats)})
        return world_of(site, HudiManifest(kind="hudi"))


class TestUnloads(ManifestContract):
    kind = "redshift_unload"

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        entries = [
            {"url": str(site / "events" / name), "meta": {"content_length": size, "record_count": rows}}
            for name, (rows, size) in FILES.items()
        ]
        record(site / "records" / "events_manifest", json.dumps({"entries": entries}))
        return world_of(
            site,
            RedshiftUnloadManifest(kind="redshift_unload", location=place(site, "records")),
            RedshiftUnloadManifest(kind="redshift_unload", location=place(site, "nothing")),
        )


def test_every_kind_is_held_to_the_contract() -> None:
    assert {suite.kind for suite in ManifestContract.__subclasses__()} == set(MANIFESTS)
