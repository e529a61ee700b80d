"""Eleven public cases in which a cleaner, or the handler of a failed commit, deleted files that a table needed.

Each case rebuilds the state of the table and the delete list in the cleaner's own spelling; beside the files that the
cleaner listed wrongly, the list has files that are really dead. `guard` stops every needed file, and no dead one.
lakeaudit does not read tables of DuckLake, Paimon and ClickHouse's catalogs: their cases have the same mechanism on a
Delta or Iceberg table.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.backdate import age_all, body_of, delete, present
from tests.builders.guarded import MONTH, guard, put
from tests.builders.iceberg import BY_SPARK, IcebergLake, lake_by_spark, rows, tables_of_spark
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

GRACE = "grace: 1h"
YOUNG = timedelta(hours=2)
ORDERS = "warehouse/orders"


@dataclass
class DeleteList:
    """What a cleaner wants to delete.

    Attributes:
        lake: the lake with the table.
        needed: the answer about each line that the cleaner lists wrongly.
        dead: lines about files that no table needs.
        tables: tables to which relative paths belong.
    """

    lake: Lake
    needed: dict[str, str]
    dead: list[str]
    tables: tuple[str, ...] = ()


@dataclass
class Place:
    """Where a case is built."""

    aws: Aws
    s3: Endpoint
    bucket: str
    folder: Path

    def shop(self) -> Shop:
        """A Delta table `orders` of two commits, written a month ago."""
        made = Shop(self.aws.s3, self.s3, self.bucket)
        made.write("orders")
        age_all(self.bucket, MONTH)
        return made

    def iceberg(self) -> IcebergLake:
        """An Iceberg table `orders` of two appends, written a month ago."""
        made = IcebergLake(self.aws.s3, self.s3, self.bucket)
        made.table("orders")
        age_all(self.bucket, MONTH)
        return made

    def put(self, key: str, age: timedelta = MONTH) -> str:
        """A file that no table lists; return its key."""
        put(self.aws.s3, self.bucket, key, age)
        return key

    def all_keys(self, under: str = f"{ORDERS}/") -> list[str]:
        return present(self.bucket, under)


def age_folder(root: Path, age: timedelta) -> None:
    """All files below a local folder were written so long ago."""
    at = (datetime.now(UTC) - age).timestamp()
    for path in root.rglob("*"):
        os.utime(path, (at, at))


def local_lake(place: Place, root: Path) -> Lake:
    path = place.folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: local\nresults: {place.folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{place.folder}/data/'}}]\n"
        f"tables: [{{name: orders, location: '{root}', manifests: [{{kind: delta}}]}}]\ndefaults: {{{GRACE}}}\n"
    )
    return load_lake(path, {})


def other_form_of_the_url(place: Place) -> DeleteList:
    """The catalog has the container in the host, and the listing in the path. Here these are the URLs of S3."""
    shop = place.shop()
    live, dead = shop.keys("orders"), place.put(f"{ORDERS}/ducklake-dead.parquet")
    url = f"https://s3.us-east-1.amazonaws.com/{place.bucket}/"
    lake = shop.lake(place.folder, defaults=GRACE)
    return DeleteList(lake, dict.fromkeys((url + key for key in live), "live"), [url + dead])


def local_delta(place: Place) -> Path:
    """A local Delta table of three old files. Only a checkpoint lists two of them: their commits are deleted."""
    root = place.folder / "data" / "main" / "orders"
    for day in ("2026-10-01", "2026-10-02"):
        write_deltalake(root, pa.table({"day": [day], "amount": [1]}), mode="append", partition_by=["day"])
    DeltaTable(root).create_checkpoint()
    write_deltalake(root, pa.table({"day": ["2026-10-03"], "amount": [1]}), mode="append")
    for version in (0, 1):
        (root / "_delta_log" / f"{version:020}.json").unlink()
    age_folder(root, MONTH)
    return root


def slash_at_the_end(place: Place) -> DeleteList:
    """The catalog has `data/` and `/`, and the scan of the disk `data//` and backslashes; old snapshots are expired."""
    root = local_delta(place)
    dead = root / "ducklake-dead.parquet"
    dead.write_bytes(b"PAR1")
    age_folder(root, MONTH)
    data = [path for path in sorted(root.rglob("*.parquet")) if "_delta_log" not in path.parts]
    spell: Callable[[Path], list[str]] = lambda path: [  # noqa: E731
        str(path).replace("/data/", "/data//"),
        f"{place.folder}/data/" + str(path.relative_to(place.folder / "data")).replace("/", "\\"),
    ]
    live = [line for path in data if path != dead for line in spell(path)]
    return DeleteList(local_lake(place, root), dict.fromkeys(live, "live"), spell(dead))


def own_catalog(place: Place) -> DeleteList:
    """Nothing in the table lists the catalog's own files, which are below the data path. Here it is the Delta log."""
    root = local_delta(place)
    log = [str(root / "_delta_log" / name) for name in (f"{1:020}.checkpoint.parquet", f"{2:020}.json")]
    dead = root / "day=2026-10-01" / "ducklake-dead.parquet"
    dead.write_bytes(b"PAR1")
    age_folder(root, MONTH)
    return DeleteList(local_lake(place, root), dict.fromkeys(log, "live"), [str(dead)])


def answers_of_iceberg(iceberg: IcebergLake) -> dict[str, str]:
    """The answer about each file of the table of two appends: the second snapshot needs all but the first list."""
    table = iceberg.catalog.load_table("shop.orders")
    lists = [snapshot.manifest_list.partition(f"{iceberg.bucket}/")[2] for snapshot in table.snapshots()]
    needed = {
        *iceberg.keys("/data/"),
        *iceberg.keys(".avro"),
        table.metadata_location.partition(f"{iceberg.bucket}/")[2],
    }
    return dict.fromkeys(sorted(needed), "live") | {lists[0]: "promised"}


def path_without_scheme(place: Place) -> DeleteList:
    """Valid files are compared as URIs, listed ones as paths: each manifest, manifest list and data file is listed."""
    iceberg = place.iceberg()
    dead = place.put(f"{ORDERS}/data/dead.parquet")
    needed = {f"/{key}": answer for key, answer in answers_of_iceberg(iceberg).items()}
    return DeleteList(iceberg.lake(place.folder, defaults=GRACE), needed, [f"/{dead}"])


def statistics_file(place: Place) -> DeleteList:
    """Valid files are those of snapshots. Statistics of the table and of its partitions are named by the metadata."""
    statistics = [
        key for key in present(BY_SPARK, "wh/s/compacted/") if key.endswith(".stats") or "stats" in key
    ]
    assert len(statistics) == 2
    dead = "wh/s/compacted/data/dead.parquet"
    put(place.aws.s3, BY_SPARK, dead)
    needed = {f"s3://{BY_SPARK}/{key}": "referenced" for key in statistics}
    return DeleteList(
        lake_by_spark(place.folder, place.s3, ["compacted"]), needed, [f"s3://{BY_SPARK}/{dead}"]
    )


def no_access_time(place: Place) -> DeleteList:
    """The store records no access time, so files that a job has just written count as written in 1970."""
    iceberg = place.iceberg()
    young = [place.put(f"{ORDERS}/data/day=2026-11-0{day}/00000-0-new.parquet", YOUNG) for day in (1, 2)]
    dead = place.put(f"{ORDERS}/data/day=2026-11-01/00000-0-dead.parquet")
    uri = f"s3a://{place.bucket}/"
    needed = {uri + key: "being_written" for key in young}
    return DeleteList(iceberg.lake(place.folder, defaults=GRACE), needed, [uri + dead])


def committed_while_it_lists(place: Place) -> DeleteList:
    """Valid files are read first, and candidates later: a file that was written long ago is committed in between."""
    shop = place.shop()
    valid = set(shop.keys("orders"))
    shop.write("orders", commits=1)
    age_all(place.bucket, timedelta(days=2))  # a long job wrote the files two days before its commit
    place.put(f"{ORDERS}/bucket-0/dead.parquet")
    old = set(shop.keys("orders")) - valid
    needed = {f"s3://{place.bucket}/{key}": "live" for key in old if "dead" not in key}
    assert len(needed) == 3
    return DeleteList(
        shop.lake(place.folder, defaults="leftover_age: 1d"),
        needed,
        [f"s3://{place.bucket}/{ORDERS}/bucket-0/dead.parquet"],
    )


def expired_while_it_reads(place: Place) -> DeleteList:
    """The snapshot that it reads expires, so it finds no valid file: all files that are a day old are listed."""
    iceberg = place.iceberg()
    table = iceberg.catalog.load_table("shop.orders")
    before = set(iceberg.keys("/data/"))
    table.overwrite(rows(5000))
    for snapshot in table.snapshots()[:-1]:
        table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    age_all(place.bucket, MONTH)
    live = set(iceberg.keys("/data/")) - before
    uri = f"s3://{place.bucket}/"
    return DeleteList(
        iceberg.lake(place.folder, defaults=GRACE),
        {uri + key: "live" for key in live},
        [uri + key for key in before],
    )


def spelled_by_another_scheme(place: Place) -> DeleteList:
    """The listing has another scheme than the metadata, and `older_than` is shorter than a commit of manifests."""
    iceberg = place.iceberg()
    young = place.put(f"{ORDERS}/metadata/optimized-m-1.avro", YOUNG)
    dead = place.put(f"{ORDERS}/data/dead.parquet")
    uri = f"gs://{place.bucket}/"
    needed = {uri + key: answer for key, answer in answers_of_iceberg(iceberg).items()} | {
        uri + young: "being_written"
    }
    return DeleteList(iceberg.lake(place.folder, defaults=GRACE), needed, [uri + dead])


def lost_response_of_a_delta_commit(place: Place) -> DeleteList:
    """The store has the commit, but its response was lost: the writer deletes its own files, named from the root."""
    shop = place.shop()
    before = set(shop.keys("orders"))
    shop.write("orders", commits=1)
    committed = sorted(set(shop.keys("orders")) - before)
    dead = place.put(f"{ORDERS}/day=2026-11-01/of-a-commit-that-failed.parquet")
    relative = [key.removeprefix(f"{ORDERS}/") for key in (*committed, dead)]
    lake = shop.lake(place.folder, defaults=GRACE)
    return DeleteList(lake, dict.fromkeys(relative[:-1], "live"), relative[-1:], tables=("orders",))


def lost_response_of_an_iceberg_commit(place: Place) -> DeleteList:
    """`v3.metadata.json` is stored, and `version-hint.text` names v2: the writer deletes all files of the snapshot.

    It spells them as keys of the bucket.
    """
    iceberg = place.iceberg()
    table = iceberg.catalog.load_table("shop.orders")
    before = set(place.all_keys())
    table.append(rows(9000))
    states = [key for key in place.all_keys() if key.endswith(".metadata.json")]
    for number, key in enumerate(sorted(states)):
        put(
            place.aws.s3,
            place.bucket,
            f"{ORDERS}/metadata/v{number}.metadata.json",
            body=body_of(place.bucket, key),
        )
        delete(place.bucket, key)
    put(place.aws.s3, place.bucket, f"{ORDERS}/metadata/version-hint.text", body=b"%d" % (len(states) - 2))
    age_all(place.bucket, MONTH)
    new = sorted(key for key in set(place.all_keys()) - before if key.endswith((".avro", ".parquet")))
    dead = place.put(f"{ORDERS}/data/day=2026-11-01/data-dead.parquet")
    return DeleteList(iceberg.lake(place.folder, defaults=GRACE), dict.fromkeys(new, "live"), [dead])


CASES: Mapping[str, tuple[str, Callable[[Place], DeleteList]]] = {
    "DuckLake 1105": (
        "every file: its URL has another form in the listing than in the catalog",
        other_form_of_the_url,
    ),
    "DuckLake 815": ("every file: doubled slashes and backslashes after the data path", slash_at_the_end),
    "DuckLake 813": ("the catalog itself, which is below the data path", own_catalog),
    "Amoro 877": ("every file: URIs were compared with paths", path_without_scheme),
    "Amoro 1959": ("statistics: only files of snapshots counted as needed", statistics_file),
    "Amoro 2925": ("files that are being written: the store has no access time", no_access_time),
    "Paimon 3074": ("files that were committed between two steps of the cleaner", committed_while_it_lists),
    "Paimon 7715": ("every old file: the snapshot that it read expired meanwhile", expired_while_it_reads),
    "Iceberg 4194": (
        "manifests: another scheme, and a commit that takes longer than `older_than`",
        spelled_by_another_scheme,
    ),
    "ClickHouse 112096": ("files of a Delta commit whose response was lost", lost_response_of_a_delta_commit),
    "ClickHouse 112081": (
        "all files of an Iceberg snapshot whose response was lost",
        lost_response_of_an_iceberg_commit,
    ),
}
"""By public issue: what the cleaner listed wrongly and why, and the table with the list."""


@pytest.fixture
def place(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Place:
    return Place(aws, s3, bucket, tmp_path)


@pytest.fixture
def spark_tables(aws: Aws, request: pytest.FixtureRequest) -> Iterator[None]:
    """The tables of Spark, for the case that needs one."""
    with tables_of_spark(aws.s3, ["compacted"]):
        yield


@pytest.mark.parametrize("case", CASES)
def test_guard_stops_the_files_that_the_cleaner_lists_wrongly(
    place: Place, spark_tables: None, case: str
) -> None:
    _, build = CASES[case]
    made = build(place)
    lines = [*made.needed, *made.dead]
    answers = guard(made.lake, place.folder, lines, tables=made.tables)
    assert answers == made.needed | dict.fromkeys(made.dead, "free")
    assert answers.result.exit_code == 1
    assert guard(made.lake, place.folder, made.dead, tables=made.tables).result.exit_code == 0
