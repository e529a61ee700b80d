"""`lakeaudit findings --as`: lists for other tools hold open findings that no action would refuse.

One audited lake has a table for each requested list.
"""

import csv
import os
import re
import time
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

OLD = datetime.now(UTC).replace(microsecond=0) - timedelta(days=30)
AWKWARD = ("d=a b%2F+ü/left.parquet", "left,over.parquet", "per%20cent.parquet")


class Site:
    """Local Delta tables, one of them inside another, unused files of many sorts next to theirs, and their audits."""

    def __init__(self, folder: Path, *tables: str) -> None:
        self.folder, self.wh, self.list, self.tables = folder, folder / "wh", folder / "list", tables
        for table in tables:
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
        (self.folder / "lake.yaml").write_text(
            f"version: 1\nlake: x\nresults: {self.folder / 'out'}\n"
            f"inventories: [{{kind: listing, location: {self.wh}}}]\n"
            f"defaults: {{grace: 0s, leftover_age: {age}, max_upload: 0s}}\nwatch: [{self.wh}]\n"
            f"tables:\n{named}{more}"
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


TABLES = ("awkward", "orders", "orders/inner", "around", "accepted", "lost", "many", "outer", "outer/unread")
LEFT = (
    *(f"awkward/{name}" for name in AWKWARD),
    *("orders/inner/left.parquet", "orders/_temporary/0/part-0.parquet", "orders/notes.txt.unknown"),
    *("orders/_delta_log/.tmp/00000000000000000001.json.x", "elsewhere.parquet"),
    *("around/a.parquet", "around/new/b.parquet", "accepted/a.parquet", "outer/unread/a.parquet"),
    *("lost/left over.parquet", "lost/_temporary/0/part-0.parquet", "lost/line\nbreak.parquet"),
    *(f"many/{number}.parquet" for number in range(5)),
)


def accept(lake: Lake, table: str) -> None:
    rows = rows_of(results_of(lake).discrepancies(("open",)))
    ids = [row["discrepancy_id"] for row in rows if row["table_name"] == table]
    put_ack(results_of(lake), ids, Ack("ann", "kept", datetime.now(UTC) + timedelta(days=9)))


@pytest.fixture(scope="module")
def audited_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Write unused files, a table with losses, and one whose inner table's log cannot be read."""
    made = Site(tmp_path_factory.mktemp("site"), *TABLES)
    for name in LEFT:
        made.put(name)
    made.put("orders/old.parquet", days=20)
    made.put("orders/younger.parquet", days=10)
    home = made.wh / "lost"
    write_deltalake(str(home), pa.table({"n": [3]}), mode="append")
    lost, torn = sorted(path.name for path in home.glob("part-*.parquet"))
    for path in home.rglob("*"):
        made.age(path)
    (home / lost).unlink()
    made.put(f"lost/{torn}", 5)
    (made.wh / "outer/unread/_delta_log" / f"{0:020}.json").write_text("{")
    lake = made.lake()
    audited(lake)
    accept(lake, "accepted")
    return made


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


def test_a_table_that_a_catalog_names_has_a_list_too(tmp_path: Path) -> None:
    """A stand-in for a Hive Metastore names it."""
    site = Site(tmp_path, "orders")
    metastore = MetastoreStandIn()
    parameters = {"spark.sql.sources.provider": "delta"}
    metastore.table("orders", f"file:{site.wh}/orders", parameters=parameters, database="s")
    left = site.put("orders/left.parquet")
    with served(metastore) as uri:
        written = Path(site.lake_file)
        site.lake()
        text, _, _ = written.read_text().partition("tables:")
        found = f"metastores: [{{kind: hive, uri: '{uri}'}}]\ntables:\n- {{discover: {{from: hive, name: '{{2}}'}}}}\n"
        written.write_text(text + found)
        audited(load_lake(written, {}))
        assert site.hand_over("orders") == 0
    assert site.paths("") == [left]


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


class TestRestores:
    """Manifests of S3 Batch Operations."""

    @pytest.fixture
    def shop(self, aws: Aws, s3: Endpoint, bucket: str) -> Shop:
        aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        made = Shop(aws.s3, s3, bucket)
        made.write("orders", days=["a b%2F+ü,o"], commits=3)
        an_hour_old(made)
        return made

    def test_the_version_of_each_lost_file_that_a_plan_would_bring_back(
        self, shop: Shop, tmp_path: Path
    ) -> None:
        marked, gone, torn = shop.keys()[:3]
        version = shop.s3.head_object(Bucket=shop.bucket, Key=marked)["VersionId"]
        shop.s3.delete_object(Bucket=shop.bucket, Key=marked)
        shop.s3.delete_object(
            Bucket=shop.bucket,
            Key=gone,
            VersionId=shop.s3.head_object(Bucket=shop.bucket, Key=gone)["VersionId"],
        )
        shop.s3.put_object(Bucket=shop.bucket, Key=torn, Body=b"torn")
        audited(shop.lake(tmp_path), live=True)
        asked = [
            "findings",
            str(tmp_path / "lake.yaml"),
            "--as",
            "s3-batch",
            "-o",
            str(tmp_path / "list.csv"),
        ]
        assert cli.main(asked) == 0
        assert (tmp_path / "list.csv").read_text() == ""  # perhaps somebody removed it on purpose
        assert cli.main([*asked, "--allow", "restore"]) == 0
        (row,) = csv.reader((tmp_path / "list.csv").read_text().splitlines())
        assert [row[0], unquote(row[1]), row[2]] == [shop.bucket, marked, version]
        assert re.fullmatch(r"[\w/.%~-]+", row[1])


def test_a_file_list_for_iceberg(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    made = IcebergLake(aws.s3, s3, bucket)
    made.table()
    for name in ("data/a b%2F+ü.parquet", "metadata/left-m0.avro"):
        aws.s3.put_object(Bucket=bucket, Key=f"warehouse/orders/{name}", Body=b"left")
        backdate(bucket, f"warehouse/orders/{name}", OLD)
    time.sleep(1.1)  # times of storage have whole seconds
    audited(made.lake(tmp_path))
    to = str(tmp_path / "list")
    command = [
        "findings",
        str(tmp_path / "lake.yaml"),
        "--as",
        "iceberg-file-list",
        "--table",
        "orders",
        "-o",
        to,
    ]
    assert cli.main([*command, "--allow", "older_than_onboarding"]) == 0
    assert pq.read_schema(to).equals(ICEBERG_FILE_LIST)
    assert pq.read_table(to).to_pylist() == [
        {"file_path": f"{scheme}://{bucket}/warehouse/orders/data/a b%2F+ü.parquet", "last_modified": OLD}
        for scheme in ("s3a", "s3")
    ]
