"""Tables that Spark and delta-rs really wrote, with every lawful history.

The reader's live claims are the files that their own libraries read, by exact key; an audit has nothing to say of them;
and then each loss is named.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.protocol import Claims, Context
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.audits import results_of
from tests.builders.both_ways import audited_both_ways
from tests.builders.delta_lake import claims_and_gaps, table
from tests.builders.real_lake import AWKWARD, TABLES, write_all

pytestmark = pytest.mark.variant

Read = tuple[Claims, list[SimpleNamespace]]
"""The rows of the reader, and its grouped claims."""

LONG_JOB = "rs_plain"
"""Its data files are made older than their commits by a day, as a job longer than the grace leaves them."""


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("healthy lake")
    write_all(spark, path)
    yesterday = (datetime.now(UTC) - timedelta(days=1)).timestamp()
    for file in (path / LONG_JOB).glob("*.parquet"):
        os.utime(file, (yesterday, yesterday))
    return path


@pytest.fixture(scope="module")
def read(home: Path) -> Read:
    now = datetime.now(UTC)
    tables = [table(name, home / name) for name in TABLES]
    claims = delta.read(tables, Context(InProcessEngine(), Clients(), now, now, live=True), "manifest:delta")
    rows, late = claims_and_gaps(claims)
    assert late == []
    return claims, [SimpleNamespace(**row) for row in rows]


@pytest.mark.parametrize("name", TABLES)
def test_live_files_are_those_the_table_reads(name: str, read: Read, spark: SparkSession, home: Path) -> None:
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
def test_what_vacuum_left_is_known(name: str, read: Read, home: Path) -> None:
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


def test_sizes_are_those_of_the_files(read: Read) -> None:
    _, rows = read
    known = [row for row in rows if row.size is not None and Path(f"/{row.key}").exists()]
    assert len(known) > len(AWKWARD)
    assert [row for row in known if Path(f"/{row.key}").stat().st_size != row.size] == []


@pytest.mark.parametrize("name", ["awkward", "clone", "rs_awkward"])
def test_partition_values_are_as_they_were_meant(name: str, read: Read) -> None:
    _, rows = read
    found = {row.partition_path for row in rows if row.table_name == name}
    assert found == {f"p={value or '__HIVE_DEFAULT_PARTITION__'}" for value in AWKWARD}


def test_partition_columns_have_their_own_names(read: Read) -> None:
    _, rows = read
    assert {row.partition_path for row in rows if row.table_name == "mapped"} == {
        "the day=v 0",
        "the day=v 1",
    }


def test_a_clone_does_not_own_the_files_that_it_lists(read: Read) -> None:
    _, rows = read
    assert {row.own_root for row in rows if row.table_name == "clone"} == {False}
    assert {row.own_root for row in rows if row.table_name == "awkward"} == {True}


def test_categories_of_a_real_table(read: Read) -> None:
    _, rows = read
    found = {(row.category, row.state) for row in rows if row.table_name == "vectors"}
    assert found == {("data", "live"), ("deletes", "live"), ("deletes", "history")}
    assert "changes" in {row.category for row in rows if row.table_name == "rewritten"}


def test_rows_of_a_file_are_counted_without_its_deleted_ones(read: Read) -> None:
    """Its vector's own file counts them: they come back where it is lost."""
    _, rows = read
    live = [row for row in rows if row.table_name == "vectors" and row.state == "live"]
    counted = {
        category: sum(row.records or 0 for row in live if row.category == category)
        for category in ("data", "deletes")
    }
    assert counted == {"data": 36, "deletes": 4}


def test_claims_are_dated_by_their_commit(read: Read, home: Path) -> None:
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


@pytest.fixture(scope="module")
def lake(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("audit")
    tables = "\n".join(
        f"  - {{name: {name}, location: '{home / name}', manifests: [{{kind: delta}}]}}" for name in TABLES
    )
    (folder / "lake.yaml").write_text(
        f"version: 1\nlake: healthy\nresults: '{folder / 'results'}'\n"
        f"inventories: [{{kind: listing, location: '{home}'}}]\ntables:\n{tables}\n"
        "defaults: {grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1B}\n"
    )
    return load_lake(folder / "lake.yaml", {})


def loud(lake: Lake, outcome: Outcome) -> list[tuple[str, str, str]]:
    """(table, kind, key) of findings above info."""
    rows = [row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()]
    return sorted((row["table_name"], row["kind"], row["key"]) for row in rows if row["severity"] != "info")


@pytest.fixture(scope="module")
def victims(spark: SparkSession, home: Path) -> dict[str, Path]:
    """One live file of each table."""
    return {name: Path(min(own_files(spark, home, name))) for name in TABLES if name != "clone"}


def test_a_healthy_lake_is_quiet_and_decided_then_every_loss_is_named(
    spark: SparkSession, lake: Lake, home: Path, victims: dict[str, Path]
) -> None:
    healthy = audited_both_ways(lake, spark)
    assert loud(lake, healthy) == []
    assert healthy.exit_code == 0
    shares = {
        (table, axis): told["decided_share"]
        for table, axes in healthy.summary["coverage"].items()
        for axis, told in axes.items()
        if told["status"] != "off"
    }
    assert {place: share for place, share in shares.items() if share is None or share < 0.99} == {}
    for victim in victims.values():
        victim.unlink()
    lost = [(name, "dropped", str(victim)[1:]) for name, victim in victims.items()]
    lost.append(("clone", "dropped", str(victims["awkward"])[1:]))
    assert loud(lake, audited_both_ways(lake, spark)) == sorted(lost)


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
