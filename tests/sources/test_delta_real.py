"""Tables that Spark and delta-rs really wrote: the live claims are the files their own libraries read, by exact key."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession

from lakeaudit.aws import Clients
from lakeaudit.evidence.manifest import delta
from lakeaudit.evidence.protocol import Claims, Context
from tests.builders.delta_lake import table
from tests.builders.real_lake import AWKWARD, TABLES, write_all


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("real lake")
    write_all(spark, path)
    return path


@pytest.fixture(scope="module")
def read(spark: SparkSession, home: Path) -> tuple[Claims, list[Row]]:
    now = datetime.now(UTC)
    tables = [table(name, home / name) for name in TABLES]
    claims = delta.read(tables, Context(spark, Clients(), now, now, live=True), "manifest:delta")
    return claims, claims.frame.collect()


@pytest.mark.parametrize("name", TABLES)
def test_live_files_are_those_the_table_reads(
    name: str, read: tuple[Claims, list[Row]], spark: SparkSession, home: Path
) -> None:
    claims, rows = read
    live = [row for row in rows if row.table_name == name and row.state == "live"]
    data = {f"/{row.key}" for row in live if row.category == "data"}
    oracle = own_files(spark, home, name)
    assert data == oracle
    assert data
    assert all(Path(f"/{row.key}").is_file() for row in live)
    assert all(row.certain and row.listed == 1 for row in live)
    assert claims.holes == ()
    assert claims.states[name].refused is None


@pytest.mark.parametrize("name", TABLES)
def test_what_vacuum_left_is_known(name: str, read: tuple[Claims, list[Row]], home: Path) -> None:
    """Every data and vector file of the folder is claimed, and what is claimed as history is there or explained."""
    _, rows = read
    claimed = {f"/{row.key}": row for row in rows if row.table_name == name}
    files = {
        str(path) for path in (home / name).rglob("*") if path.is_file() and not path.name.startswith(".")
    }
    stored = {path for path in files if "/_delta_log/" not in path}
    assert stored <= claimed.keys()
    absent = {path: row for path, row in claimed.items() if not Path(path).exists()}
    assert all(row.explained for row in absent.values())


def test_sizes_are_those_of_the_files(read: tuple[Claims, list[Row]]) -> None:
    _, rows = read
    known = [row for row in rows if row.size is not None and Path(f"/{row.key}").exists()]
    assert len(known) > len(AWKWARD)
    assert [row for row in known if Path(f"/{row.key}").stat().st_size != row.size] == []


@pytest.mark.parametrize("name", ["awkward", "clone", "rs_awkward"])
def test_partition_values_are_as_they_were_meant(name: str, read: tuple[Claims, list[Row]]) -> None:
    _, rows = read
    found = {row.partition_path for row in rows if row.table_name == name}
    assert found == {f"p={value or '__HIVE_DEFAULT_PARTITION__'}" for value in AWKWARD}


def test_partition_columns_have_their_own_names(read: tuple[Claims, list[Row]]) -> None:
    _, rows = read
    assert {row.partition_path for row in rows if row.table_name == "mapped"} == {
        "the day=v 0",
        "the day=v 1",
    }


def test_a_clone_does_not_own_what_it_lists(read: tuple[Claims, list[Row]]) -> None:
    _, rows = read
    assert {row.own_root for row in rows if row.table_name == "clone"} == {False}
    assert {row.own_root for row in rows if row.table_name == "awkward"} == {True}


def test_categories_of_a_real_table(read: tuple[Claims, list[Row]]) -> None:
    _, rows = read
    found = {(row.category, row.state) for row in rows if row.table_name == "vectors"}
    assert found == {("data", "live"), ("deletes", "live"), ("deletes", "history")}
    assert "changes" in {row.category for row in rows if row.table_name == "rewritten"}


def test_rows_of_a_file_are_counted_with_its_deleted_ones(read: tuple[Claims, list[Row]]) -> None:
    _, rows = read
    live = [row for row in rows if row.table_name == "vectors" and row.category == "data"]
    assert sum(row.records for row in live) == 40


def test_claims_are_dated_by_their_commit(read: tuple[Claims, list[Row]], home: Path) -> None:
    claims, rows = read
    written = datetime.fromtimestamp((home / "vectors/_delta_log" / f"{0:020}.json").stat().st_mtime, UTC)
    dated = {
        row.claimed_at.replace(tzinfo=UTC)
        for row in rows
        if row.table_name == "vectors" and row.category == "data"
    }
    assert all(abs(time - written) < timedelta(milliseconds=5) for time in dated)
    horizon = claims.states["cleaned"].horizon
    assert {row.claimed_at.replace(tzinfo=UTC) for row in rows if row.table_name == "cleaned"} == {horizon}


def own_files(spark: SparkSession, home: Path, name: str) -> set[str]:
    """What the table's own library reads. Spark gives plain paths, delta-rs plain ones below an escaped root."""
    if name.startswith("rs_"):
        return {
            f"{home}/{name}/{uri.partition(f'/{name}/')[2]}"
            for uri in DeltaTable(f"{home}/{name}").file_uris()
        }
    return {
        uri.removeprefix("file:") for uri in spark.read.format("delta").load(f"{home}/{name}").inputFiles()
    }
