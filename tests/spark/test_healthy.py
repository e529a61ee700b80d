"""Healthy is quiet: tables with every lawful history give no finding above info; then each loss is named."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakeaudit.config import Lake, load_lake
from lakeaudit.outcome import Outcome
from lakeaudit.progress import SilentProgress
from lakeaudit.results.read import Results
from lakeaudit.run import Options, audit
from lakeaudit.stores import clients_of
from tests.builders import real_lake
from tests.builders.real_lake import TABLES

LONG_JOB = "rs_plain"
"""Its data files are made older than their commits by a day, as a job longer than the grace leaves them."""


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("healthy lake")
    real_lake.write_all(spark, path)
    yesterday = (datetime.now(UTC) - timedelta(days=1)).timestamp()
    for file in (path / LONG_JOB).glob("*.parquet"):
        os.utime(file, (yesterday, yesterday))
    return path


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


def audited(spark: SparkSession, lake: Lake) -> Outcome:
    return audit(
        lake,
        Options(),
        spark=spark,
        clients=clients_of(lake),
        clock=lambda: datetime.now(UTC),
        progress=SilentProgress(),
    )


def loud(lake: Lake, outcome: Outcome) -> list[tuple[str, str, str]]:
    """(table, kind, key) of findings above info."""
    rows = [
        row
        for batch in Results(lake.results, clients_of(lake), lake.name).findings(outcome.run_id)
        for row in batch.to_pylist()
    ]
    return sorted((row["table_name"], row["kind"], row["key"]) for row in rows if row["severity"] != "info")


@pytest.fixture(scope="module")
def victims(spark: SparkSession, home: Path) -> dict[str, Path]:
    """One live file of each table."""
    return {name: _live_file(spark, home / name) for name in TABLES if name != "clone"}


def test_a_healthy_lake_is_quiet_and_decided_then_every_loss_is_named(
    spark: SparkSession, lake: Lake, home: Path, victims: dict[str, Path]
) -> None:
    healthy = audited(spark, lake)
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
    assert loud(lake, audited(spark, lake)) == sorted(lost)


def _live_file(spark: SparkSession, table: Path) -> Path:
    """A file of the newest state, as the library that wrote the table names it."""
    if table.name.startswith("rs_"):
        return table / unquote(min(DeltaTable(table).get_add_actions().column("path").to_pylist()))
    uri = min(spark.read.format("delta").load(str(table)).inputFiles())
    return Path(unquote(urlsplit(uri.replace("#", "%23").replace("?", "%3F")).path))
