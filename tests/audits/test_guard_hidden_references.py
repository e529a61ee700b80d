"""`lakeaudit guard` and files that tables need although no path of a known table names them as the list does."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeaudit.config import Lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.protocol import Context
from lakeaudit.guard.known_lake import known_lake
from lakeaudit.guard.newest_claims import NewestClaims
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from tests.audits.test_guard_formats import local_lake, write
from tests.builders.delta_lake import Log, add, metadata, protocol
from tests.builders.glue import GlueCatalog
from tests.builders.guarded import MONTH, clone_of, guard, put
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

LONG_AGO = datetime.now(UTC) - MONTH


def with_clone(folder: Path, path: str) -> tuple[Lake, Path, Log]:
    """A lake of two Delta tables; `clone` lists one file at that path."""
    warehouse = folder / "wh"
    Log(warehouse / "orders").commit(0, protocol(), metadata(), add("live.parquet"), when=LONG_AGO)
    clone = Log(warehouse / "clone").commit(
        0, protocol(), metadata(), add(path.format(wh=warehouse)), when=LONG_AGO
    )
    write(warehouse / "orders", "live.parquet", "dead.parquet", "other.parquet")
    tables = (
        f"{{name: {name}, location: '{warehouse}/{name}', manifests: [{{kind: delta}}]}}"
        for name in ("orders", "clone")
    )
    return local_lake(folder, *tables), warehouse, clone


@pytest.mark.parametrize(
    ("path", "dead", "other"),
    [
        ("file:{wh}/orders/dead.parquet", "referenced", "free"),
        ("file:{wh}//orders/dead.parquet", "referenced", "free"),
        ("file:{wh}/x/../orders/dead.parquet", "referenced", "free"),
        ("{wh}/orders/./dead.parquet", "referenced", "free"),
        ("../orders/dead.parquet", "referenced", "free"),
        ("file:{wh}/orders/%64ead.parquet", "referenced", "free"),
        ("hdfs://nn:8020{wh}/orders/dead.parquet", "unknown", "unknown"),
        ("dbfs:/mnt/lake/orders/dead.parquet", "unknown", "unknown"),
        ("s3://lake-x1-s3alias/orders/dead.parquet", "unknown", "unknown"),
        ("s3://other/orders/dead.parquet", "free", "free"),
    ],
)
def test_a_clone_that_spells_the_path_of_a_file_differently(
    tmp_path: Path, path: str, dead: str, other: str
) -> None:
    """Hadoop resolves a path before it opens the file. A store that the lake file does not know may be one's own."""
    lake, warehouse, _ = with_clone(tmp_path, path)
    files = [f"{warehouse}/orders/{name}.parquet" for name in ("dead", "other", "live")]
    answers = guard(lake, tmp_path, files)
    assert [answers[file] for file in files] == [dead, other, "live"]


def test_the_lost_version_of_a_clone_may_list_files_of_another_table(tmp_path: Path) -> None:
    lake, warehouse, clone = with_clone(tmp_path, "file:{wh}/orders/dead.parquet")
    (clone.folder / "_last_checkpoint").write_text(json.dumps({"version": 4, "size": 3}))
    other = f"{warehouse}/orders/other.parquet"
    answers = guard(lake, tmp_path, [other])
    assert answers == {other: "unknown"}
    assert "version 4" in str(answers.rows[other]["reason"])


def test_commits_that_are_newer_than_the_complete_reading(tmp_path: Path) -> None:
    """`reconcile apply` reads them before each batch."""
    lake, warehouse, clone = with_clone(tmp_path, "x.parquet")
    engine, now = InProcessEngine(), datetime.now(UTC)
    known = known_lake(lake, Context(engine, clients_of(lake), now, now, live=True))
    keys = [Location.parse(f"{warehouse}/orders/{name}.parquet") for name in ("dead", "other")]
    claims = NewestClaims(known, engine, keys, everybody=True)
    answers = []
    for version, path in enumerate(
        ("y.parquet", f"file:{warehouse}/z/..//orders/dead.parquet", "hdfs://nn/x"), 1
    ):
        clone.commit(version, add(path))
        found = claims.of(keys)
        answers.append([{each.answer for each in found[key]} for key in keys])
    assert answers == [[set(), set()], [{"live"}, set()], [{"live", "unknown"}, {"unknown"}]]


@pytest.mark.parametrize("requests", [0, 100])
def test_a_folder_with_an_object_of_its_own(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, requests: int
) -> None:
    """Programs that delete such an object may delete the files below it, too."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    root = "warehouse/orders"
    day = shop.keys("orders")[0].rpartition("/")[0]
    put(aws.s3, bucket, f"{root}/data/x.parquet")
    names = (day, f"{day}/", f"{root}/", f"{root}/data", f"{root}/empty/", f"{day}_$folder$")
    files = [put(aws.s3, bucket, name, body=b"") for name in names]
    shop.take_inventory()
    answers = guard(shop.lake(tmp_path), tmp_path, files, max_requests=requests)
    of_markers = ["free", "free"] if requests else ["unknown", "unknown"]
    assert [answers[file] for file in files] == ["unknown"] * 4 + of_markers


def test_tables_and_partitions_that_only_a_catalog_names(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    cloned, part, dead = (
        put(aws.s3, bucket, f"warehouse/orders/{name}.parquet") for name in ("cloned", "old/part", "dead")
    )
    clone_of(shop, "elsewhere/clone", cloned)
    catalog = GlueCatalog(clients_of(shop.lake(tmp_path)), bucket.replace("-", "_"))
    catalog.table(
        "clone", f"s3://{bucket}/elsewhere/clone", parameters={"spark.sql.sources.provider": "delta"}
    )
    catalog.table("plain", f"s3://{bucket}/elsewhere/plain", ["day"])
    catalog.partition("plain", ["old"], f"s3://{bucket}/warehouse/orders/old")
    catalog.partition("plain", ["new"], f"s3://{bucket}/elsewhere/plain/day=new")
    assert set(guard(shop.lake(tmp_path), tmp_path, [cloned, part, dead]).values()) == {"free"}
    lake = shop.lake(tmp_path, extra=f"metastores: [{{kind: glue, databases: [{catalog.database}]}}]")
    answers = guard(lake, tmp_path, [cloned, part, dead])
    assert answers == {cloned: "referenced", part: "unknown", dead: "free"}
    assert "partition of the plain table" in str(answers.rows[part]["reason"])


@pytest.mark.parametrize(
    ("selection", "is_new"),
    [("exclude: [tmp*]", False), ("exclude: [none]", True), ("formats: [iceberg]", False)],
)
def test_a_clone_that_discover_does_not_find(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, selection: str, is_new: bool
) -> None:
    """It is left out by the lake file, or newer than the inventory report."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    cloned, dead = (put(aws.s3, bucket, f"warehouse/orders/{name}.parquet") for name in ("cloned", "dead"))
    if is_new:
        shop.take_inventory()
    clone_of(shop, "warehouse/db/tmp_clone", cloned)
    if not is_new:
        shop.take_inventory()
    tables = [
        f"- {{name: orders, location: 's3://{bucket}/warehouse/orders', manifests: [{{kind: delta}}]}}",
        f"- {{discover: {{from: inventory, under: ['s3://{bucket}/warehouse/'], {selection}}}}}",
    ]
    lake = shop.lake(tmp_path, tables=tables)
    assert guard(lake, tmp_path, [cloned, dead]) == {cloned: "referenced", dead: "free"}


def test_the_log_of_a_streaming_sink(tmp_path: Path) -> None:
    """Readers of a folder with `_spark_metadata` use the files that its log lists, also those of a compacted batch."""
    root = tmp_path / "wh" / "sink"
    names = ("compacted.parquet", "listed.parquet", "removed.parquet", "unlisted.parquet")
    write(root, *names)

    def entry(name: str, action: str = "add") -> str:
        values = {"path": f"file://{root}/{name}", "size": 4, "isDir": False, "modificationTime": 1,
                  "blockReplication": 1, "blockSize": 4, "action": action}  # fmt: skip
        return json.dumps(values)

    log = root / "_spark_metadata"
    log.mkdir()
    compacted = [entry("compacted.parquet"), entry("removed.parquet")]
    (log / "9.compact").write_text("\n".join(["v1", *compacted]))
    (log / "10").write_text("\n".join(["v1", entry("listed.parquet"), entry("removed.parquet", "delete")]))
    write(root, "_spark_metadata/9.compact", "_spark_metadata/10")
    lake = local_lake(tmp_path, f"{{name: sink, location: '{root}', manifests: [{{kind: spark_sink}}]}}")
    files = [str(root / name) for name in (*names, "_spark_metadata/9.compact", "_spark_metadata/10")]
    answers = guard(lake, tmp_path, files)
    assert [answers[file] for file in files] == ["live", "live", "free", "free", "live", "live"]


def test_the_free_files_of_a_local_lake_are_a_list(tmp_path: Path) -> None:
    lake, warehouse, _ = with_clone(tmp_path, "x.parquet")
    write(warehouse / "orders", "day=a%20b/odd, name.parquet")
    files = [f"{warehouse}/orders/{name}" for name in ("dead.parquet", "day=a%20b/odd, name.parquet")]
    safe = tmp_path / "safe.csv"
    assert guard(lake, tmp_path, [*files, f"{warehouse}/orders/live.parquet"], output=safe)
    assert guard(lake, tmp_path, str(safe)) == dict.fromkeys(files, "free")


def test_the_longest_times_of_tables_that_share_a_location_count(tmp_path: Path) -> None:
    """A writer of either table may still commit the file."""
    root = tmp_path / "wh" / "orders"
    Log(root).commit(0, protocol(), metadata(), add("live.parquet"), when=LONG_AGO)
    write(root, "live.parquet", "young.parquet")
    young = str(root / "young.parquet")
    for ages in (("3d", "60d"), ("60d", "3d")):
        tables = (
            f"{{name: {kind}, leftover_age: {age}, location: '{root}', manifests: [{{kind: {kind}}}]}}"
            for kind, age in zip(("delta", "iceberg"), ages, strict=True)
        )
        assert guard(local_lake(tmp_path, *tables), tmp_path, [young]) == {young: "being_written"}
