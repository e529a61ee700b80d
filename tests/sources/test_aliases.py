"""Claims made under another name of a bucket, or by a mount, are about the bucket's own keys: each reader, once."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.delta import point_lookup
from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.manifest.file_list import FileListManifest
from lakeaudit.evidence.manifest.file_list import point_lookup as list_lookup
from lakeaudit.evidence.manifest.file_list import reader as file_list
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.metastore.s3guard import reader as s3guard
from lakeaudit.evidence.metastore.s3guard.items import ITEM, EntryRules, entry_rows
from lakeaudit.keys import Aliases, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.duck import task_connection
from tests.builders import delta_lake
from tests.builders import s3guard as guard
from tests.conftest import Aws
from tests.sources.metastore_contract import OLD
from tests.sources.test_file_list import context, rows_of
from tests.sources.test_s3guard import options

ALIASES: Aliases = (
    (Location("dbfs:", "mnt/prod"), Location("prod", "root")),
    (Location("prod-s3alias", ""), Location("prod", "")),
)
CLIENTS = Clients(Endpoint(), aliases=ALIASES)
MOVED = Clients(
    Endpoint(),
    aliases=((Location("dbfs:", "mnt/prod"), Location("old", "")),),
    maps=(
        (Location("old", ""), Location("prod", "root")),
        (Location("prod-s3alias", ""), Location("prod", "")),
    ),
)
"""The same names of a lake that was moved since: the mount was of another bucket."""
NAMED = pytest.mark.parametrize("clients", [CLIENTS, MOVED], ids=["other names", "names before a migration"])
KEYS = {("prod", "root/t/a b"), ("prod", "root/t/c"), ("prod", "other/d"), ("elsewhere", "e")}


@NAMED
def test_a_delta_log_names_files_by_mounts_and_access_points(tmp_path: Path, clients: Clients) -> None:
    paths = [
        "dbfs:/mnt/prod/t/a%20b",
        "dbfs:///mnt/prod/t/c",
        "s3a://prod-s3alias/other/d",
        "s3://elsewhere/e",
    ]
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    actions = [delta_lake.protocol(), delta_lake.metadata(), *(delta_lake.add(path) for path in paths)]
    (log / f"{0:020}.json").write_text("\n".join(json.dumps(action) for action in actions))
    table = delta_lake.table("t", tmp_path / "t")
    claims = delta.read([table], delta_lake.context(clients), "m", delta_lake.frozen)
    assert {(row["bucket"], row["key"]) for row in delta_lake.claim_rows(claims)} == KEYS
    assert {
        key for key in [*KEYS, ("prod", "root/t/b")] if _present(point_lookup.read(table, clients, *key))
    } == KEYS


def _present(answer: tuple[str, object, str]) -> bool:
    return answer[0] == "present"


@NAMED
def test_a_plain_writer_manifest_names_files_by_mounts_and_access_points(
    tmp_path: Path, clients: Clients
) -> None:
    paths = ["dbfs:/mnt/prod/t/a b", "dbfs:///mnt/prod/t/c", "s3a://prod-s3alias/other/d", "s3://elsewhere/e"]
    rows = [{"path": path, "size": 1, "committed_at": "2026-11-20T00:00:00Z"} for path in paths]
    for suffix in ("jsonl", "csv"):
        written = tmp_path / suffix / f"list.{suffix}"
        written.parent.mkdir()
        lines = [json.dumps(row) for row in [*rows, {"end": True, "lines": 4}]]
        table_of = [
            "path,size,committed_at",
            *(",".join(str(value) for value in row.values()) for row in rows),
        ]
        written.write_text("\n".join(lines if suffix == "jsonl" else table_of) + "\n")
        place = Location.parse(str(written.parent))
        manifest = FileListManifest(kind="file_list", location=place, complete=True)
        table = Table(name="t", location=Location("prod", "root/t"), manifests=(manifest,))
        claims = file_list.read([table], context(clients), "m")
        assert {(row["bucket"], row["key"]) for row in rows_of(claims)} == KEYS
        assert not claims.holes
        assert {key for key in KEYS if _present(list_lookup.read(table, clients, *key))} == KEYS


@NAMED
def test_iceberg_metadata_names_files_by_mounts_and_access_points(clients: Clients) -> None:
    paths = ["dbfs:/mnt/prod/t/a b", "dbfs:///mnt/prod/t/c", "s3a://prod-s3alias/other/d", "s3://elsewhere/e"]
    assert {place_of(path, clients.names) for path in paths} == {Location(*key) for key in KEYS}


FOREIGN = Clients(
    Endpoint(),
    maps=(
        (Location("hdfs://nn:8020", "wh"), Location("prod", "root")),
        (Location("viewfs://", "data"), Location("prod", "other")),
        (Location("oss://old-bucket", ""), Location("prod", "oss")),
    ),
)
"""A lake that was moved from stores that nothing here can ask."""
OF_OTHER_STORES = {
    "hdfs://nn:8020/wh/t/a b": ("prod", "root/t/a b"),
    "hdfs://nn:8020/wh/t/c": ("prod", "root/t/c"),
    "viewfs:///data/d": ("prod", "other/d"),
    "oss://old-bucket/e": ("prod", "oss/e"),
}


def test_every_reader_knows_places_of_a_store_that_nothing_here_can_ask(tmp_path: Path) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    paths = [path.replace(" ", "%20") for path in OF_OTHER_STORES]
    actions = [delta_lake.protocol(), delta_lake.metadata(), *(delta_lake.add(path) for path in paths)]
    (log / f"{0:020}.json").write_text("\n".join(json.dumps(action) for action in actions))
    table = delta_lake.table("t", tmp_path / "t")
    claims = delta.read([table], delta_lake.context(FOREIGN), "m", delta_lake.frozen)
    keys = set(OF_OTHER_STORES.values())
    assert {(row["bucket"], row["key"]) for row in delta_lake.claim_rows(claims)} == keys
    assert {key for key in keys if _present(point_lookup.read(table, FOREIGN, *key))} == keys
    assert {path: place_of(path, FOREIGN.names) for path in OF_OTHER_STORES} == OF_OTHER_STORES
    for far in ("hdfs://other:8020/wh/t/c", "hdfs://nn:8020/whole/c", "cosn://b/k"):
        assert place_of(far, FOREIGN.names) is None
        assert place_of(far, ()) is None
    _list_of_other_stores(tmp_path / "list.csv")
    manifest = FileListManifest(kind="file_list", location=Location.parse(str(tmp_path / "list.csv")))
    listed = Table(name="t", location=Location("prod", ""), manifests=(manifest,))
    found = file_list.read([listed], context(FOREIGN), "m")
    assert {(row["bucket"], row["key"]) for row in rows_of(found)} == keys
    (hole,) = found.holes
    assert "hdfs://other:8020/x" in hole.reason


def _list_of_other_stores(file: Path) -> None:
    """With one line of a place that no map names."""
    lines = [f"{path},1" for path in (*OF_OTHER_STORES, "hdfs://other:8020/x")]
    file.write_text("\n".join(["path,size", *lines]) + "\n")


def test_a_mount_that_is_not_configured_is_an_evidence_gap(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("path,size\ndbfs:/mnt/else/x,1\n")
    manifest = FileListManifest(kind="file_list", location=Location.parse(str(tmp_path)))
    table = Table(name="t", location=Location("prod", ""), manifests=(manifest,))
    (hole,) = file_list.read([table], context(CLIENTS), "m").holes
    assert "dbfs:/mnt/else/x" in hole.reason


def test_s3guard_knows_a_bucket_by_the_name_of_its_access_point() -> None:
    items = [guard.file("prod-s3alias", "t/x", mod_time=OLD), guard.file("prod", "t/y", mod_time=OLD)]
    columns = {field.name: pa.array([item.get(field.name) for item in items], field.type) for field in ITEM}
    rules = EntryRules("m", Location("prod", "t"), False, None, {"prod-s3alias": "prod"})
    with task_connection() as con:
        rows = duck.rows_of(entry_rows(con, pa.table(columns), rules))
    assert [(row["bucket"], row["parent"], row["key"], row["inside"]) for row in rows] == [
        ("prod", "t", "t/x", True),
        ("prod", "t", "t/y", True),
    ]


def test_a_point_read_of_s3guard_asks_by_every_name(aws: Aws, clients: Clients) -> None:
    guard.create_table(aws.dynamodb, "alias-table", [guard.file("prod-s3alias", "t/x", mod_time=OLD)])
    source = S3Guard(kind="s3guard", table="alias-table", s3=options(clients))
    named = Clients(clients.default, aliases=ALIASES)
    assert s3guard.get_entry(source, named, "prod", "t/x") is not None
    assert s3guard.get_entry(source, clients, "prod", "t/x") is None
