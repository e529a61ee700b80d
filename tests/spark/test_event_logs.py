"""Jobs of Spark itself, by its own event logs: on disk, and on a store whose lists lag, where committers lose files."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeaudit.config import Lake, load_lake
from lakeaudit.emit import spark_writes
from lakeaudit.emit.spark import event_log
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.late_list import LateList, listing_late
from tests.conftest import Aws

pytestmark = pytest.mark.variant

TABLES = ("events", "days", "pieces", "failed")
MODE = "spark.sql.sources.partitionOverwriteMode"
_OF_SPARK = "org.apache.spark.sql.execution.datasources"
PLAIN = {
    "spark.sql.sources.commitProtocolClass": f"{_OF_SPARK}.SQLHadoopMapReduceCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
}
"""The committers that rename, whatever stands on the class path."""


def write(rows: DataFrame, spark: SparkSession, out: str) -> None:
    """Appends, partitions, a dynamic overwrite, a nightly overwrite with several files a split, and a failure."""
    rows.filter("id >= 100").write.parquet(f"{out}/events")
    rows.write.mode("append").parquet(f"{out}/events")
    rows.write.partitionBy("day").json(f"{out}/days")
    spark.conf.set(MODE, "dynamic")
    rows.filter("day = 1").write.mode("overwrite").partitionBy("day").json(f"{out}/days")
    spark.conf.unset(MODE)
    for _ in range(2):
        rows.write.mode("overwrite").option("maxRecordsPerFile", 40).csv(f"{out}/pieces", compression="gzip")
    with pytest.raises(Exception, match="boom"):
        rows.withColumn("x", F.raise_error(F.lit("boom")).cast("string")).write.parquet(f"{out}/failed")
    with pytest.raises(Exception, match="boom"):
        until(rows, 350, f"{out}/retried")
    until(rows, 1000, f"{out}/retried")


def until(rows: DataFrame, end: int, out: str) -> None:
    """A job whose tasks show their files as they end, and fail at rows from `end` on."""
    fails = F.when(F.col("id") >= end, F.raise_error(F.lit("boom")).cast("string")).otherwise(F.lit("y"))
    visible = rows.withColumn("x", fails).write.mode("append")
    visible.option("mapreduce.fileoutputcommitter.algorithm.version", "2").json(out)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    rows = spark.range(0, 400, 1, 4).withColumn("day", F.col("id") % 3)
    with event_log(spark, str(folder / "logs"), "app-1"):
        write(rows, spark, f"file:{folder / 'out'}")
    return folder


def lake_of(
    folder: Path, results: str, data: str, tables: tuple[str, ...], s3: Endpoint | None = None
) -> Lake:
    manifest = f"{{kind: spark_event_log, location: {folder / 'logs'}}}"
    named = "\n".join(
        f"  - {{name: {name}, location: '{data}/{name}', manifests: [{manifest}]}}" for name in tables
    )
    way = f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n" if s3 else ""
    path = folder / f"{results}.yaml"
    path.write_text(
        f"version: 1\nlake: jobs\nresults: {folder / results}\ndefaults: {{grace: 0s}}\n{way}"
        f"inventories: [{{kind: listing, location: '{data}'}}]\ntables:\n{named}\n"
    )
    return load_lake(path, {})


def findings(lake: Lake) -> list[tuple[Any, ...]]:
    rows = [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]
    return sorted((row["kind"], row["key"], row["rows_at_stake"]) for row in rows)


def test_what_spark_wrote_is_there_until_it_is_not(site: Path) -> None:
    healthy = lake_of(site, "before", str(site / "out"), TABLES)
    assert audited(healthy, run_id="r").status == "complete"
    assert findings(healthy) == []
    taken = [
        min((site / "out/events").glob("part-00002-*")),
        min((site / "out/pieces").glob("part-00001-*-c002*")),
    ]
    for path in taken:
        path.unlink()
    broken = lake_of(site, "after", str(site / "out"), TABLES)
    audited(broken, run_id="r")
    assert findings(broken) == sorted(
        [("dropped", str(taken[0])[1:], 100), ("dropped", str(taken[1])[1:], None)]
    )


def test_the_example_of_the_document_logs_what_a_session_writes(spark: SparkSession, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/emit.md").read_text(encoding="utf-8")
    scripts = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (script,) = [each for each in scripts if "spark_writes" in each]
    own = script.replace("s3://", f"{tmp_path}/").replace("s3a://", f"file:{tmp_path}/")
    scope: dict[str, Any] = {"spark": spark}
    exec(compile(own, "docs/emit.md", "exec"), scope)
    failing_rows = spark.range(9).withColumn("x", F.raise_error(F.lit("boom")).cast("string"))
    with (
        spark_writes(spark, f"{tmp_path}/logs/spark-events/") as failing,
        pytest.raises(Exception, match="boom"),
    ):
        failing_rows.write.parquet(f"file:{tmp_path}/lake/warehouse/failed")
    (write,), (failed,) = scope["log"].writes(), failing.writes()
    parts = sorted((tmp_path / "lake/warehouse/clicks").glob("part-*"))
    assert (write.outcome, write.mode, write.records, write.files) == (
        "succeeded",
        "Append",
        1000,
        len(parts),
    )
    assert write.bytes == sum(path.stat().st_size for path in parts)
    assert sum(records for records, _ in write.splits.values()) == 1000
    assert (failed.outcome, failed.files, failed.splits) == ("failed", None, {})
    parts[0].unlink()
    manifest = f"{{kind: spark_event_log, location: {tmp_path}/logs/spark-events}}"
    (tmp_path / "lake.yaml").write_text(
        f"version: 1\nlake: emitted\nresults: {tmp_path}/results\ndefaults: {{grace: 0s}}\n"
        f"inventories: [{{kind: listing, location: {tmp_path}/lake}}]\ntables:\n"
        f"  - {{name: clicks, location: {tmp_path}/lake/warehouse/clicks, manifests: [{manifest}]}}\n"
    )
    lake = load_lake(tmp_path / "lake.yaml", {})
    audited(lake, run_id="r")
    assert [(kind, key) for kind, key, _ in findings(lake)] == [("dropped", str(parts[0])[1:])]


@pytest.mark.soak
def test_what_a_failed_run_left_beside_its_retry_is_named(site: Path) -> None:
    lake = lake_of(site, "retried", str(site / "out"), ("retried",))
    audited(lake, run_id="r")
    runs: dict[str, set[str]] = {}
    for path in (site / "out/retried").glob("part-*"):
        runs.setdefault(path.name[11:47], set()).add(path.name[5:10])
    failed = min(runs, key=lambda run: len(runs[run]))
    reported = [(kind, key.rpartition("/")[2][5:47]) for kind, key, _ in findings(lake)]
    assert reported == [("duplicate_attempt", f"{split}-{failed}") for split in sorted(runs[failed])]
    assert len(runs) == 2


def test_a_session_logs_to_s3(spark: SparkSession, clients: Clients, bucket: str) -> None:
    with spark_writes(spark, f"s3://{bucket}/logs/spark", clients=clients) as log:
        spark.range(7).write.parquet(f"s3a://{bucket}/t")
    (write,) = log.writes()
    assert (write.outcome, write.records, write.path) == ("succeeded", 7, f"s3a://{bucket}/t")
    assert log.place.startswith(f"s3://{bucket}/logs/spark/eventlog_v2_")


@pytest.fixture
def renaming(spark: SparkSession) -> Iterator[SparkSession]:
    for name, value in PLAIN.items():
        spark.conf.set(name, value)
    yield spark
    for name in PLAIN:
        spark.conf.unset(name)


SPLITS = 20


def losses_and_findings(
    spark: SparkSession,
    folder: Path,
    s3: Endpoint,
    aws: Aws,
    bucket: str,
    algorithm: int,
    seed: int,
    share: float,
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """(splits that storage lacks though the job reported success, what the audit finds), each with its rows."""
    with event_log(spark, str(folder / "logs"), "app-1"), listing_late(LateList(bucket, seed, share)):
        rows = spark.range(0, SPLITS * 10, 1, SPLITS)
        option = "mapreduce.fileoutputcommitter.algorithm.version"
        rows.write.option(option, str(algorithm)).parquet(f"s3a://{bucket}/wh/events")
    pages = aws.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="wh/events/part-")
    there = {each["Key"].rpartition("/")[2][5:10] for page in pages for each in page.get("Contents", [])}
    lake = lake_of(folder, "results", f"s3://{bucket}/wh", ("events",), s3)
    audited(lake, run_id="r")
    reported = [
        (kind, key.rpartition("/")[2][5:10], rows) for kind, key, rows in findings(lake) if kind not in LEFT
    ]
    return [("dropped", f"{n:05d}", 10) for n in range(SPLITS) if f"{n:05d}" not in there], reported


LEFT = ("temporary", "uncommitted")
"""What such a job may leave behind."""


@pytest.mark.parametrize(
    ("algorithm", "share"),
    [(1, 0.1), *(pytest.param(2, share, marks=pytest.mark.soak) for share in (0.1, 0.0))],
)
def test_files_that_a_commit_lost_in_silence_are_named(
    renaming: SparkSession, tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str, algorithm: int, share: float
) -> None:
    """The job reports success; storage has fewer splits than it wrote, which its event log alone can tell."""
    lost, reported = losses_and_findings(renaming, tmp_path, s3, aws, bucket, algorithm, algorithm, share)
    assert reported == lost
    assert bool(lost) == bool(share)
