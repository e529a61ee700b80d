"""Properties of the Spark session on which every part of the product relies."""

import os
import subprocess
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import Row, SparkSession

from lakeaudit.demo.server import moto
from lakeaudit.engine.spark import SparkEngine
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.runtime.install import make_ready
from lakeaudit.runtime.session import build_session
from lakeaudit.runtime.spark_settings import bucket_settings
from lakeaudit.schemas import VERSION
from tests.builders.submit import CHEAP
from tests.conftest import Aws


@pytest.mark.soak
def test_delta_is_written_merged_and_read_on_s3(spark: SparkSession, bucket: str) -> None:
    place = f"s3a://{bucket}/table"
    spark.range(10).selectExpr("id", "id % 2 AS part").write.format("delta").partitionBy("part").save(place)
    more = spark.range(5, 15).selectExpr("id", "id % 2 AS part")
    DeltaTable.forPath(spark, place).alias("t").merge(
        more.alias("m"), "t.id = m.id"
    ).whenNotMatchedInsertAll().execute()
    assert spark.read.format("delta").load(place).count() == 15


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_both_spellings_of_a_place_read_the_same(
    spark: SparkSession, aws: Aws, bucket: str, scheme: str
) -> None:
    aws.s3.put_object(Bucket=bucket, Key="a b/ü%20+.txt", Body=b"one\ntwo\n")
    assert spark.read.text(f"{scheme}://{bucket}/a b/").collect() == [Row(value="one"), Row(value="two")]


def test_times_are_utc_in_sql_python_and_orc(spark: SparkSession, tmp_path: Path) -> None:
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    frame = spark.sql(
        "SELECT timestamp'2026-07-01 12:00:00' AS at, unix_timestamp('2026-07-01 12:00:00') AS seconds"
    )
    frame.write.orc(str(tmp_path / "orc"))
    (row,) = spark.read.orc(str(tmp_path / "orc")).collect()
    assert row["at"] == noon.replace(tzinfo=None)
    assert row["seconds"] == noon.timestamp()
    assert spark.createDataFrame([(noon,)], "at timestamp").collect() == [Row(at=noon.replace(tzinfo=None))]


def test_python_workers_live_in_utc(spark: SparkSession) -> None:
    zones = spark.range(1).rdd.map(lambda _: datetime.fromtimestamp(0).hour).collect()  # noqa: DTZ006 - the point
    assert zones == [0]


def test_a_null_survives_the_way_through_pandas(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pd.DataFrame({"key": ["a", None, "c"]}))
    assert frame.where("key IS NULL").count() == 1


def test_a_bucket_may_have_an_endpoint_of_its_own(spark: SparkSession, aws: Aws, bucket: str) -> None:
    """Both servers have the same objects, so a dead endpoint shows which one receives the requests."""
    aws.s3.put_object(Bucket=bucket, Key="x.txt", Body=b"x\n")
    dead = Endpoint(endpoint="http://127.0.0.1:9", region="us-east-1", path_style=True)
    impatient = {f"fs.s3a.bucket.{bucket}.retry.limit": "0", f"fs.s3a.bucket.{bucket}.attempts.maximum": "1"}
    build_session("again", extra=bucket_settings(bucket, dead) | impatient)
    with pytest.raises(Py4JJavaError, match="ConnectException"):
        spark.read.text(f"s3a://{bucket}/x.txt").count()
    with moto() as other:
        build_session("again", extra=bucket_settings(bucket, other))
        spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # type: ignore[union-attr]
        assert spark.read.text(f"s3a://{bucket}/x.txt").count() == 1


def test_a_session_asked_for_twice_is_one(spark: SparkSession) -> None:
    assert build_session("again").sparkContext is spark.sparkContext


@pytest.mark.soak
def test_spark_submit_without_our_settings_says_what_is_missing(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("from lakeaudit.runtime.session import build_session\nbuild_session('submitted')\n")
    make_ready(tmp_path / "conf", os.environ, delta=True)
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK", "PYSPARK", "JAVA"))}
    line = f". {tmp_path}/conf/env.sh; unset SPARK_CONF_DIR; spark-submit --master 'local[1]' {CHEAP} {job}"
    done = subprocess.run(["sh", "-c", line], env=clean, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert (
        "its JVM lacks io.delta.sql.DeltaSparkSessionExtension; run `python" in done.stdout
    )  # where spark-submit puts Python's stderr


def _two_rows(_: Connection) -> Batches:
    rows = [{"source": "storage:0", "bucket": "b", "key": key} for key in ("one", "two")]
    yield "versions", pa.Table.from_pylist(rows, VERSION)


def _as_they_are(_: Connection, kind: str, rows: Rows) -> Batches:
    yield kind, rows


def _keys(con: Connection, rows: Mapping[str, Rows]) -> Batches:
    yield "claims", duck.query(con, "SELECT bucket, key FROM input", input=rows["versions"])


def test_rows_that_meet_twice_are_counted_once(spark: SparkSession) -> None:
    """By a reader that names its files by storage, and then by the audit itself."""
    part = Part("storage:0", _two_rows, 1)
    with closing(SparkEngine(lambda: spark, bytes_here=0)) as engine:
        met = engine.meet([part], _as_they_are, _keys)
        answers = [(kind, batch) for kind, batch in engine.run([met, part], []) if kind == "counted"]
    assert [row["rows"] for _, batch in answers for row in batch.to_pylist()] == [2]
