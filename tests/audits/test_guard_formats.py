"""`lakeaudit guard` on what healthy tables of each format have in their folders: it stops these, not others."""

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.protocol import Context
from lakeaudit.evidence.references import FREE
from lakeaudit.guard.known_lake import known_lake
from lakeaudit.guard.newest_claims import NewestClaims
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from tests.builders import hudi
from tests.builders.backdate import age_all
from tests.builders.delta_lake import (
    Log,
    add,
    change,
    features,
    metadata,
    protocol,
    remove,
    vector,
    vector_file,
)
from tests.builders.glue import GlueCatalog
from tests.builders.guarded import MONTH, guard, put
from tests.builders.hive_lake import HiveLake
from tests.builders.iceberg import BY_SPARK, lake_by_spark, tables_of_spark
from tests.builders.shop import Shop
from tests.builders.two_formats import TwoFormats
from tests.conftest import Aws

pytestmark = pytest.mark.variant

NOW = datetime.now(UTC)


def local_lake(folder: Path, *tables: str, extra: str = "") -> Lake:
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: local\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/wh/'}}]\n"
        f"tables: [{', '.join(tables)}]\n{extra}"
    )
    return load_lake(path, {})


def removable(lake: Lake, uri: str) -> bool:
    """Return whether `reconcile` may remove an unused file, as far as the manifests decide."""
    key = Location.parse(uri)
    engine = InProcessEngine()
    context = Context(engine, clients_of(lake), NOW, NOW, live=True)
    found = NewestClaims(known_lake(lake, context), engine, [key], everybody=True).of([key])
    return {each.answer for each in found[key]} <= {FREE}


def write(root: Path, *names: str, age: timedelta = MONTH) -> None:
    at = (NOW - age).timestamp()
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(b"PAR1")
        os.utime(path, (at, at))


DELTA = {
    "_delta_log/00000000000000000000.json": "unknown",
    f"_delta_log/{1:020}.json": "unknown",
    f"_delta_log/{2:020}.checkpoint.00000000-0000-0000-0000-000000000002.json": "live",
    "_delta_log/_sidecars/2-0.parquet": "live",
    "_delta_log/_sidecars/2-1.parquet": "live",
    "_delta_log/_sidecars/other.parquet": "unknown",
    f"_delta_log/{3:020}.json": "live",
    "day=2026-11-01/live.parquet": "live",
    "day=2026-11-01 10%3A00/live.parquet": "live",
    "day=100%25/live.parquet": "live",
    "day=a b/live.parquet": "live",
    "Zx/part-column-mapping.parquet": "live",
    vector_file(1): "live",
    "ab/" + vector_file(2): "live",
    vector_file(3): "promised",
    vector_file(4): "free",
    "removed-yesterday.parquet": "promised",
    "removed-long-ago.parquet": "free",
    "never-listed.parquet": "free",
    "day=2026-11-01 10:00/live.parquet": "free",
    "_change_data/cdc-new.parquet": "promised",
    "_change_data/cdc-unlisted.parquet": "free",
}
"""By file below a Delta table the answer: its newest version is 3, its newest checkpoint has sidecars."""


def test_a_delta_table(tmp_path: Path) -> None:
    root = tmp_path / "wh" / "orders"
    long_ago, lately = NOW - MONTH, NOW - timedelta(days=1)
    encoded = {
        "day=2026-11-01/live.parquet": "day=2026-11-01/live.parquet",
        "day=2026-11-01 10%3A00/live.parquet": "day=2026-11-01%2010%253A00/live.parquet",
        "day=100%25/live.parquet": "day=100%2525/live.parquet",
        "day=a b/live.parquet": "day=a%20b/live.parquet",
        "Zx/part-column-mapping.parquet": "Zx/part-column-mapping.parquet",
    }
    live = [add(path) for path in encoded.values()]
    log = Log(root)
    log.commit(0, features("deletionVectors", "v2Checkpoint"), metadata(), *live[:3], when=long_ago)
    removed = (add("removed-long-ago.parquet", vector(4)), add("removed-yesterday.parquet"))
    log.commit(1, *live[3:], *removed, when=long_ago)
    log.commit(2, remove("removed-long-ago.parquet", vector(4), removed=long_ago), when=long_ago)
    top = [features("deletionVectors", "v2Checkpoint"), metadata()]
    log.sidecar_checkpoint(2, *top, *live, add("removed-yesterday.parquet", vector(3)), form="json")
    for path in (root / "_delta_log").rglob("*"):
        os.utime(path, (long_ago.timestamp(), long_ago.timestamp()))
    log.commit(
        3,
        add("with-vector.parquet", vector(1)), add("with-vector-2.parquet", vector(2, prefix="ab")),
        remove("removed-yesterday.parquet", vector(3), removed=lately), change("_change_data/cdc-new.parquet"),
        when=lately,
    )  # fmt: skip
    write(root, *(name for name in DELTA if not (root / name).exists()))
    lake = local_lake(tmp_path, f"{{name: orders, location: '{root}', manifests: [{{kind: delta}}]}}")
    answers = guard(lake, tmp_path, [str(root / name) for name in DELTA])
    assert {text.removeprefix(f"{root}/"): status for text, status in answers.items()} == DELTA


ICEBERG = {
    "compacted": {"table statistics": "referenced", "partition statistics": "referenced"},
    "vectors": {"deletion vector": "live"},
    "branches": {"data of a tag and a branch": "live"},
    "staged": {"data of a staged snapshot": "promised"},
    "expired": {},
    "first_version": {},
    "transforms": {},
    "elsewhere": {},
}
NAMES = {
    "table statistics": r"\.stats$",
    "partition statistics": r"/metadata/partition-stats[^/]*$",
    "deletion vector": r"\.puffin$",
}


@pytest.fixture(scope="module")
def of_spark(aws: Aws) -> Iterator[None]:
    with tables_of_spark(aws.s3, tuple(ICEBERG)):
        for name in ICEBERG:
            put(aws.s3, BY_SPARK, f"wh/s/{name}/data/day=2026-11-01/dead.parquet")
        yield


def test_iceberg_tables_of_spark(aws: Aws, s3: Endpoint, of_spark: None, tmp_path: Path) -> None:
    """Healthy tables have no other file: with statistics, vectors, branches, tags, staged snapshots, odd partitions."""
    answers = guard(lake_by_spark(tmp_path, s3, tuple(ICEBERG)), tmp_path, f"s3://{BY_SPARK}/wh/")
    assert {text for text, status in answers.items() if status == "free"} == {
        f"wh/s/{name}/data/day=2026-11-01/dead.parquet" for name in ICEBERG
    }
    assert set(answers.values()) == {"live", "promised", "referenced", "free"}
    found = {
        name: {answers[key] for key in answers if re.search(pattern, key)} for name, pattern in NAMES.items()
    }
    assert found == {
        "table statistics": {"referenced"}, "partition statistics": {"referenced"}, "deletion vector": {"live"},
    }  # fmt: skip


@pytest.mark.parametrize("layout", hudi.LAYOUTS)
def test_hudi_tables(tmp_path: Path, layout: int) -> None:
    """The timeline lists base and log files; the metadata table and its log are its own. Unused files are free."""
    names = hudi.names_of(layout)
    wh = hudi.unpacked(tmp_path, layout)
    for name in names:
        write(wh / name, "day=2026-11-01/dead.parquet")
    answers = guard(hudi.lake_of(tmp_path, names), tmp_path, f"{wh}/")
    free = {text.partition("/wh/")[2] for text, status in answers.items() if status == "free"}
    assert free == {f"{name}/day=2026-11-01/dead.parquet" for name in names}


def test_two_formats_at_one_root(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    """The lake file names one of the formats; the other one has files of its own."""
    two = TwoFormats(Shop(aws.s3, s3, bucket))
    for append in (two.append_delta, two.append_iceberg):
        append()
    dead = two.leave("dead")
    age_all(bucket, MONTH)
    delta = {uri.partition(f"{bucket}/")[2] for uri in two.delta_files}
    iceberg = two.keys - delta - {dead}
    lines = [f"s3://{bucket}/{key}" for key in (*delta, *iceberg, dead)]
    for kind in ("delta", "iceberg"):
        folder = tmp_path / kind
        folder.mkdir()
        answers = guard(two.lake(folder, kind), folder, lines)
        assert answers == dict.fromkeys(lines[:-1], "live") | {lines[-1]: "free"}


def test_symlink_manifests_that_the_lake_file_does_not_name(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """Athena and Presto read the files that a manifest lists, which may be older than the Delta table."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    old = put(aws.s3, bucket, "warehouse/orders/day=2026-11-01/listed-by-a-manifest.parquet")
    dead = put(aws.s3, bucket, "warehouse/orders/day=2026-11-01/dead.parquet")
    folder = "warehouse/orders/_symlink_format_manifest/day=2026-11-01"
    manifest = put(aws.s3, bucket, f"{folder}/manifest", body=old.encode())
    age_all(bucket, MONTH)
    lake = shop.lake(tmp_path, defaults="grace: 1h")
    assert guard(lake, tmp_path, [old, dead, manifest]) == {old: "live", dead: "free", manifest: "live"}
    assert (removable(lake, old), removable(lake, dead)) == (False, True)


def test_symlink_manifests_of_the_lake_file(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    old, dead = (
        put(aws.s3, bucket, f"warehouse/orders/day=2026-11-01/{name}.parquet") for name in ("old", "dead")
    )
    put(
        aws.s3, bucket, "warehouse/orders/_symlink_format_manifest/day=2026-11-01/manifest", body=old.encode()
    )
    age_all(bucket, MONTH)
    entries = [
        f"- {{name: {kind}, location: 's3://{bucket}/warehouse/orders', manifests: [{{kind: {kind}}}]}}"
        for kind in ("delta", "symlink")
    ]
    answers = guard(shop.lake(tmp_path, tables=entries, defaults="grace: 1h"), tmp_path, [old, dead])
    assert answers == {old: "live", dead: "free"}


def test_a_plain_table_is_read_by_folder(
    aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """Hive, Spark and Athena read every visible file of a registered folder."""
    hive = HiveLake(aws, clients, s3, bucket, tmp_path)
    orders = hive.table("orders", "day")
    hive.partition("orders", ["2026-11-01"], f"{orders}/day=2026-11-01")
    hive.partition("orders", ["2026-11-02"], "elsewhere/day=2026-11-02")
    files = {
        f"{orders}/day=2026-11-01/part-0.parquet": "live",
        f"{orders}/day=2026-11-03/not-registered.parquet": "live",
        f"{orders}/day=2026-11-01/_SUCCESS": "unknown",
        f"{orders}/day=2026-11-01/_temporary/0/part-1.parquet": "unknown",
        "elsewhere/day=2026-11-02/part-0.parquet": "unknown",
    }
    for key in files:
        hive.put(key)
    answers = guard(hive.lake(), tmp_path, [hive.uri(key) for key in files])
    assert {text.partition(f"{bucket}/")[2]: status for text, status in answers.items()} == files


def test_another_table_of_a_catalog_at_the_same_location(
    aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """The catalog names a plain table in the folder of a Delta table that the lake file names."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    dead = put(aws.s3, bucket, "warehouse/orders/day=2026-11-01/dead.parquet")
    age_all(bucket, MONTH)
    catalog = GlueCatalog(clients, bucket.replace("-", "_"))
    lake = shop.lake(
        tmp_path,
        defaults="grace: 1h",
        extra=f"metastores: [{{kind: glue, databases: [{catalog.database}]}}]\n",
    )
    assert guard(lake, tmp_path, [dead]) == {dead: "free"}
    assert removable(lake, dead)
    catalog.table("by_athena", f"s3://{bucket}/warehouse/orders", ["day"])
    catalog.partition(
        "by_athena", ["2026-11-01"], f"s3://{bucket}/warehouse/orders/day=2026-11-01", NOW - MONTH
    )
    assert guard(lake, tmp_path, [dead]) == {dead: "unknown"}
    assert not removable(lake, dead)


def test_discovered_tables(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    shop.write("customers")
    dead = put(aws.s3, bucket, "warehouse/customers/dead.parquet")
    age_all(bucket, MONTH)
    live = f"s3://{bucket}/{shop.keys('orders')[0]}"
    shop.take_inventory()
    discover = [f"- {{discover: {{from: inventory, under: ['s3://{bucket}/warehouse/'], formats: [delta]}}}}"]
    lake = shop.lake(tmp_path, tables=discover, defaults="grace: 1h")
    assert guard(lake, tmp_path, [live, dead]) == {live: "live", dead: "free"}


def test_discovery_that_may_miss_a_table(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    """A clone that is not discovered may list any file: its log is in a data file of the report that is lost.

    This clone is in a place of `discover`, so it is read as if it was newer than the report. Others may be elsewhere.
    """
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    dead = put(aws.s3, bucket, "warehouse/orders/of_clone.parquet")
    commit = [protocol(), metadata(), add(dead)]
    log = f"warehouse/clone/_delta_log/{0:020}.json"
    put(aws.s3, bucket, log, body="\n".join(map(json.dumps, commit)).encode())
    age_all(bucket, MONTH)
    parts = shop.take_inventory(files=2).data
    tables = [
        f"- {{name: orders, location: 's3://{bucket}/warehouse/orders', manifests: [{{kind: delta}}]}}",
        f"- {{discover: {{from: inventory, under: ['s3://{bucket}/warehouse/'], formats: [delta]}}}}",
    ]
    lake = shop.lake(tmp_path, tables=tables, defaults="grace: 1h")
    other = put(aws.s3, bucket, "warehouse/orders/other.parquet")
    assert guard(lake, tmp_path, [dead, other]) == {dead: "referenced", other: "free"}
    for part in parts:
        aws.s3.delete_object(Bucket=bucket, Key=part)
    assert guard(lake, tmp_path, [dead, other]) == {dead: "referenced", other: "unknown"}


def test_a_list_that_may_lack_files_holds_for_its_own_folder(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """Jobs record their files in `events`, but the lake file does not say that these records are complete."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    listed, unlisted = (
        put(aws.s3, bucket, f"warehouse/events/{name}.parquet") for name in ("listed", "unlisted")
    )
    lines = f'{{"path": "{listed}"}}\n{{"end": true, "lines": 1}}\n'
    put(aws.s3, bucket, "lists/events.jsonl", body=lines.encode())
    dead = put(aws.s3, bucket, "warehouse/orders/dead.parquet")
    age_all(bucket, MONTH)
    warehouse, lists = f"s3://{bucket}/warehouse", f"{{kind: file_list, location: 's3://{bucket}/lists/'}}"
    entries = [
        f"- {{name: orders, location: '{warehouse}/orders', manifests: [{{kind: delta}}]}}",
        f"- {{name: events, location: '{warehouse}/events', readers: state, manifests: [{lists}]}}",
    ]
    lake = shop.lake(tmp_path, tables=entries, defaults="grace: 1h")
    assert guard(lake, tmp_path, [listed, unlisted, dead]) == {
        listed: "live", unlisted: "unknown", dead: "free",
    }  # fmt: skip
