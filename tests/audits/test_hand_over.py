"""`lakeaudit findings --as`: lists for other tools hold open findings that no action would refuse.

One audited lake has a table for each requested list.
"""

import csv
import os
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from lakeaudit import cli
from lakeaudit.config import Lake, load_lake
from lakeaudit.reconcile.plans import list_forms
from lakeaudit.results.acknowledgements import Ack, put_ack
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import ICEBERG_FILE_LIST, VACUUM_INVENTORY, rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.hive_metastore import MetastoreStandIn, served
from tests.builders.iceberg import IcebergLake
from tests.builders.repair_plans import an_hour_old
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

OLD = datetime.now(UTC).replace(microsecond=0) - timedelta(days=30)
AWKWARD = ("d=a b%2F+ü/left.parquet", "left,over.parquet", "per%20cent.parquet")


class Site:
    """Local Delta tables, one of them inside another, unused files of many sorts next to theirs, and their audits.

    A Hive Metastore (a stand-in) names one of them; the lake also has tables of S3.
    """

    def __init__(self, folder: Path, metastore: str, s3: Endpoint, *tables: str) -> None:
        self.folder, self.wh, self.list, self.tables = folder, folder / "wh", folder / "list", tables
        self.metastore, self.s3 = metastore, s3
        self.places: dict[str, tuple[str, str]] = {}
        """The location below a bucket, and the kind of manifest, of the tables of S3, by name."""
        for table in (*tables, BY_HIVE):
            write_deltalake(str(self.wh / table), pa.table({"n": [1, 2]}))
        for path in self.wh.rglob("*"):
            self.age(path)

    def age(self, path: Path, days: float = 30) -> None:
        at = OLD.timestamp() + 86_400 * (30 - days)
        os.utime(path, (at, at))

    def put(self, name: str, size: int = 7, days: float = 30) -> str:
        path = self.wh / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        self.age(path, days)
        return name

    @property
    def lake_file(self) -> str:
        return str(self.folder / "lake.yaml")

    def lake(self, age: str = "3d", more: str = "") -> Any:
        named = "".join(
            f"- {{name: {table.rpartition('/')[2]}, location: {self.wh / table}, manifests: [{{kind: delta}}]}}\n"
            for table in self.tables
        )
        named += "".join(
            f"- {{name: {name}, location: 's3://{place}', manifests: [{{kind: {kind}}}]}}\n"
            for name, (place, kind) in self.places.items()
        )
        places = [self.wh, *(f"'s3://{place}'" for place, _ in self.places.values())]
        listings = ", ".join(f"{{kind: listing, location: {place}}}" for place in places)
        (self.folder / "lake.yaml").write_text(
            f"version: 1\nlake: x\nresults: {self.folder / 'out'}\n"
            f"s3: {{endpoint: '{self.s3.endpoint}', region: us-east-1, path_style: true}}\n"
            f"metastores: [{{kind: hive, uri: '{self.metastore}'}}]\n"
            f"inventories: [{listings}]\n"
            f"defaults: {{grace: 0s, leftover_age: {age}, max_upload: 0s}}\nwatch: [{self.wh}]\n"
            f"tables:\n- {{discover: {{from: hive, name: '{{2}}'}}}}\n{named}{more}"
        )
        return load_lake(Path(self.lake_file), {})

    def hand_over(self, table: str, form: str = "delta-inventory", *given: str) -> int:
        options = ["--as", form, "-o", str(self.list), "--table", table, "--allow", "older_than_onboarding"]
        return cli.main(["findings", self.lake_file, *options, *given])

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.list).to_pylist()
        return sorted(rows, key=lambda row: next(iter(row.values())))

    def lines(self) -> list[str]:
        return sorted(self.list.read_text().splitlines())

    def paths(self, table: str) -> list[str]:
        """Below the table, of an inventory."""
        return [row["path"].removeprefix(f"file:{self.wh / table}/") for row in self.rows()]


BY_HIVE = "by_hive"
TABLES = ("awkward", "orders", "orders/inner", "around", "accepted", "lost", "many", "outer", "outer/unread")
LEFT = (
    *(f"awkward/{name}" for name in AWKWARD),
    *("orders/inner/left.parquet", "orders/_temporary/0/part-0.parquet", "orders/notes.txt.unknown"),
    *("orders/_delta_log/.tmp/00000000000000000001.json.x", "elsewhere.parquet"),
    *("around/a.parquet", "around/new/b.parquet", "accepted/a.parquet", "outer/unread/a.parquet"),
    *("lost/left over.parquet", "lost/_temporary/0/part-0.parquet", "lost/line\nbreak.parquet"),
    *(f"many/{number}.parquet" for number in range(5)),
    f"{BY_HIVE}/left.parquet",
)


def accept(lake: Lake, table: str) -> None:
    rows = rows_of(results_of(lake).discrepancies(("open",)))
    ids = [row["discrepancy_id"] for row in rows if row["table_name"] == table]
    put_ack(results_of(lake), ids, Ack("ann", "kept", datetime.now(UTC) + timedelta(days=9)))


@dataclass(frozen=True)
class Stores:
    """Tables of S3 in buckets of their own: one by Delta that lost files, and one by Iceberg with unused files."""

    shop: Shop
    iceberg: IcebergLake
    marked: str
    """The key of a file below a delete marker; another one is gone for good, and a third one is torn."""
    version: str

    @property
    def places(self) -> dict[str, tuple[str, str]]:
        """Return what `Site.places` takes."""
        return {
            "shop": (f"{self.shop.bucket}/warehouse/orders", "delta"),
            "ice": (f"{self.iceberg.bucket}/warehouse/orders", "iceberg"),
        }


@pytest.fixture(scope="module")
def stores(aws: Aws, s3: Endpoint) -> Stores:
    buckets = [f"test-{uuid.uuid4().hex[:12]}" for _ in range(2)]
    for bucket in buckets:
        aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=buckets[0], VersioningConfiguration={"Status": "Enabled"})
    shop, iceberg = Shop(aws.s3, s3, buckets[0]), IcebergLake(aws.s3, s3, buckets[1])
    shop.write("orders", days=["a b%2F+ü,o"], commits=3)
    an_hour_old(shop)
    marked, gone, torn = shop.keys()[:3]
    ids = {key: aws.s3.head_object(Bucket=shop.bucket, Key=key)["VersionId"] for key in (marked, gone)}
    aws.s3.delete_object(Bucket=shop.bucket, Key=marked)
    aws.s3.delete_object(Bucket=shop.bucket, Key=gone, VersionId=ids[gone])
    aws.s3.put_object(Bucket=shop.bucket, Key=torn, Body=b"torn")
    iceberg.table()
    for name in ("data/a b%2F+ü.parquet", "metadata/left-m0.avro"):
        aws.s3.put_object(Bucket=iceberg.bucket, Key=f"warehouse/orders/{name}", Body=b"left")
        backdate(iceberg.bucket, f"warehouse/orders/{name}", OLD)
    return Stores(shop, iceberg, marked, ids[marked])


@pytest.fixture(scope="module")
def audited_site(stores: Stores, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Write unused files, a table with losses, and one whose inner table's log cannot be read."""
    folder, metastore = tmp_path_factory.mktemp("site"), MetastoreStandIn()
    parameters = {"spark.sql.sources.provider": "delta"}
    metastore.table(BY_HIVE, f"file:{folder / 'wh' / BY_HIVE}", parameters=parameters, database="s")
    with served(metastore) as uri:
        made = Site(folder, uri, s3, *TABLES)
        made.places |= stores.places
        for name in LEFT:
            made.put(name)
        made.put("orders/old.parquet", days=20)
        made.put("orders/younger.parquet", days=10)
        lose_files(made)
        lake = made.lake()
        time.sleep(1.1)  # times of storage have whole seconds
        audited(lake)
        accept(lake, "accepted")
        yield made


def lose_files(site: Site) -> None:
    """Lose a file of the table `lost`, tear another one, and tear the log of `outer/unread`."""
    home = site.wh / "lost"
    write_deltalake(str(home), pa.table({"n": [3]}), mode="append")
    lost, torn = sorted(path.name for path in home.glob("part-*.parquet"))
    for path in home.rglob("*"):
        site.age(path)
    (home / lost).unlink()
    site.put(f"lost/{torn}", 5)
    (site.wh / "outer/unread/_delta_log" / f"{0:020}.json").write_text("{")


@pytest.fixture
def site(audited_site: Site, tmp_path: Path) -> Site:
    """The lake file as it was when the lake was audited, and no list yet."""
    audited_site.lake()
    audited_site.list = tmp_path / "list"
    return audited_site


def test_an_inventory_for_vacuum_names_unused_files_with_their_raw_paths_sizes_and_times(site: Site) -> None:
    assert site.hand_over("awkward") == 0
    assert pq.read_schema(site.list).equals(VACUUM_INVENTORY)
    millis = int(OLD.timestamp() * 1000)
    assert site.rows() == [
        {"path": f"file:{site.wh}/awkward/{name}", "length": 7, "isDir": False, "modificationTime": millis}
        for name in sorted(AWKWARD)
    ]


def test_a_table_that_a_catalog_names_has_a_list_too(site: Site) -> None:
    """A stand-in for a Hive Metastore names it."""
    assert site.hand_over(BY_HIVE) == 0
    assert site.paths(BY_HIVE) == ["left.parquet"]


def test_what_an_action_would_refuse_is_left_out(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Live files, those of an inner table, of the log, temporary ones, and what is young by the lake file of now."""
    site.lake(age="15d")
    assert site.hand_over("orders") == 0
    paths = site.paths("orders")
    assert "old.parquet" in paths
    assert not [path for path in paths if re.search("younger|inner|_temporary|_delta_log|elsewhere", path)]
    assert "younger than leftover_age" in capsys.readouterr().err


def test_a_table_that_came_to_lie_inside_since_keeps_its_files(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.lake(more=f"- {{name: new, location: {site.wh / 'around/new'}, manifests: [{{kind: delta}}]}}\n")
    site.hand_over("around")
    assert site.paths("around") == ["a.parquet"]
    assert "inside the location of another table" in capsys.readouterr().err


def test_what_is_accepted_is_left_out(site: Site) -> None:
    assert site.hand_over("accepted") == 0
    assert site.rows() == []


def test_unused_files_of_an_incomplete_audit_are_left_out(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """The inner table's log lacks a commit since then, so its files are uncertain."""
    assert site.hand_over("unread") == 0
    assert (site.rows(), capsys.readouterr().out) == ([], "")


def test_rclones_list_says_what_is_lost_another_and_left_over(site: Site) -> None:
    (torn,) = (path.name for path in (site.wh / "lost").glob("part-*.parquet"))
    assert site.hand_over("lost", "rclone", "--kind", "dropped") == 0
    ((sign, lost),) = (line.split(" ") for line in site.lines())
    assert (sign, (site.wh / "lost" / lost).exists()) == ("+", False)
    assert site.hand_over("lost", "rclone") == 0
    assert site.lines() == sorted(
        [f"+ {lost}", f"* {torn}", "- left over.parquet", "- _temporary/0/part-0.parquet"]
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--as", "delta-inventory", "-o", "x"], "needs one table"),
        (["--as", "delta-inventory", "-o", "x", "--table", "orders", "--table", "inner"], "needs one table"),
        (["--as", "iceberg-file-list", "-o", "x", "--table", "orders"], "no manifest of the kind iceberg"),
        (["--as", "rclone", "--table", "orders"], "a list needs --as and -o"),
        (["-o", "x"], "a list needs --as and -o"),
        (["--as", "rclone", "-o", "x", "--table", "orders", "--files"], "a list needs --as and -o"),
        (["--as", "delta-inventory", "-o", "x", "--table", "orders", "--kind", "dropped"], "has no dropped"),
        (
            ["--as", "rclone", "-o", "x", "--table", "orders", "--allow", "restore"],
            "does not support restore",
        ),
        (["--as", "s3-batch", "-o", "x", "--allow", "everything"], "no everything"),
        (["--as", "rclone", "-o", "/nowhere/x", "--table", "orders"], "cannot be written"),
    ],
)
def test_an_invalid_request_is_refused_in_one_line(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(site.folder)
    assert cli.main(["findings", site.lake_file, *given]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not Path("x").exists()


def test_a_list_that_cannot_be_made_leaves_the_last_one(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.hand_over("around") == 0
    before = site.list.read_bytes()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(list_forms, "_millis", full)
    assert site.hand_over("around") == 2
    assert site.list.read_bytes() == before
    assert [path.name for path in site.list.parent.iterdir() if path.name.startswith(".list")] == []


def test_large_lists_are_written_in_batches(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_forms, "BATCH_ROWS", 2)
    site.hand_over("many")
    assert site.paths("many") == [f"{number}.parquet" for number in range(5)]
    assert pq.read_metadata(site.list).num_row_groups == 3


def test_the_version_of_each_lost_file_that_a_plan_would_bring_back(
    site: Site, stores: Stores, tmp_path: Path
) -> None:
    """The list is a manifest of S3 Batch Operations."""
    to = tmp_path / "list.csv"
    command = ["findings", site.lake_file, "--as", "s3-batch", "-o", str(to)]
    assert cli.main(command) == 0
    assert to.read_text() == ""  # perhaps somebody removed it on purpose
    assert cli.main([*command, "--allow", "restore"]) == 0
    (row,) = csv.reader(to.read_text().splitlines())
    assert [row[0], unquote(row[1]), row[2]] == [stores.shop.bucket, stores.marked, stores.version]
    assert re.fullmatch(r"[\w/.%~-]+", row[1])


def test_a_file_list_for_iceberg(site: Site, stores: Stores) -> None:
    assert site.hand_over("ice", "iceberg-file-list") == 0
    home = f"{stores.iceberg.bucket}/warehouse/orders"
    assert pq.read_schema(site.list).equals(ICEBERG_FILE_LIST)
    assert pq.read_table(site.list).to_pylist() == [
        {"file_path": f"{scheme}://{home}/data/a b%2F+ü.parquet", "last_modified": OLD}
        for scheme in ("s3a", "s3")
    ]
