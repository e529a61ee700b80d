"""What Spark itself writes into its event logs, and a part file that is taken away from its output."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake, load_lake
from tests.builders.audits import audited, results_of

JOBS = """
import sys
from pyspark.sql import SparkSession, functions as F

logs, out = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", logs)
    .config("spark.sql.codegen.wholeStage", "false").config("spark.driver.memory", "1g").getOrCreate()
)
rows = spark.range(0, 400, 1, 4).withColumn("day", F.col("id") % 3)
rows.filter("id >= 100").write.parquet(f"{out}/events")
rows.write.mode("append").parquet(f"{out}/events")
rows.write.partitionBy("day").json(f"{out}/days")
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
rows.filter("day = 1").write.mode("overwrite").partitionBy("day").json(f"{out}/days")
spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
for _ in range(2):
    rows.write.mode("overwrite").option("maxRecordsPerFile", 40).csv(f"{out}/pieces", compression="gzip")
try:
    rows.withColumn("x", F.raise_error(F.lit("boom")).cast("string")).write.parquet(f"{out}/failed")
except Exception:
    print("failed as it should")
spark.stop()
"""
TABLES = ("events", "days", "pieces", "failed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "logs").mkdir()
    subprocess.run(
        [sys.executable, "-c", JOBS, f"file:{folder / 'logs'}", f"file:{folder / 'out'}"],
        check=True,
        capture_output=True,
    )
    return folder


def lake_of(folder: Path, results: str) -> Lake:
    manifest = f"{{kind: spark_event_log, location: {folder / 'logs'}}}"
    tables = "\n".join(
        f"  - {{name: {name}, location: {folder / 'out' / name}, manifests: [{manifest}]}}" for name in TABLES
    )
    path = folder / f"{results}.yaml"
    path.write_text(
        f"version: 1\nlake: jobs\nresults: {folder / results}\ndefaults: {{grace: 0s}}\n"
        f"inventories: [{{kind: listing, location: {folder / 'out'}}}]\ntables:\n{tables}\n"
    )
    return load_lake(path, {})


def found(lake: Lake) -> list[tuple[Any, ...]]:
    rows = [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]
    return sorted((row["kind"], row["key"], row["rows_at_stake"]) for row in rows)


def test_what_spark_wrote_is_there_until_it_is_not(site: Path) -> None:
    healthy = lake_of(site, "before")
    assert audited(healthy, run_id="r").status == "complete"
    assert found(healthy) == []
    taken = [
        min((site / "out/events").glob("part-00002-*")),
        min((site / "out/pieces").glob("part-00001-*-c002*")),
    ]
    for path in taken:
        path.unlink()
    broken = lake_of(site, "after")
    audited(broken, run_id="r")
    assert found(broken) == sorted(
        [("dropped", str(taken[0])[1:], 100), ("dropped", str(taken[1])[1:], None)]
    )
