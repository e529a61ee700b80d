"""The contract of readers of manifests, for each of them."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from lakeaudit.config import (
    FileListManifest,
    IcebergManifest,
    RedshiftUnloadManifest,
    SparkEventLogManifest,
    SparkSinkManifest,
)
from lakeaudit.keys import Location
from tests.builders.event_logs import App, millis
from tests.builders.iceberg_files import Entry, Snapshot, written
from tests.sources.manifest_contract import FILES, WRITTEN, ManifestContract, World, world_of


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


class TestEventLogs(ManifestContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        app = App(at=WRITTEN - timedelta(minutes=1))  # a write takes a minute
        app.write(f"file:{site / 'events'}", dict(enumerate(FILES.values())))
        app.ended().save(site / "records")
        return world_of(
            site,
            SparkEventLogManifest(kind="spark_event_log", location=place(site, "records")),
            SparkEventLogManifest(kind="spark_event_log", location=place(site, "nothing")),
        )


class TestFileLists(ManifestContract):
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
        return world_of(site, SparkSinkManifest(kind="spark_sink"), SparkSinkManifest(kind="spark_sink"))


class TestIceberg(ManifestContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        home = site / "events"
        entries = [Entry(f"file://{home / name}", size, rows) for name, (rows, size) in FILES.items()]
        written(home, {1: Snapshot({"m0": entries}, WRITTEN)})
        return world_of(
            site,
            IcebergManifest(kind="iceberg"),
            IcebergManifest(kind="iceberg"),
        )


class TestUnloads(ManifestContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, site: Path) -> World:
        entries = [
            {"url": str(site / "events" / name), "meta": {"content_length": size, "record_count": rows}}
            for name, (rows, size) in FILES.items()
        ]
        manifest = site / "records" / "events_manifest"
        manifest.write_text(json.dumps({"entries": entries}))
        os.utime(manifest, (WRITTEN.timestamp(), WRITTEN.timestamp()))
        return world_of(
            site,
            RedshiftUnloadManifest(kind="redshift_unload", location=place(site, "records")),
            RedshiftUnloadManifest(kind="redshift_unload", location=place(site, "nothing")),
        )
