"""A job that fails for an external reason raises "could not audit"; errors that only a bug explains are not changed."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeaudit.engine.spark import SparkEngine
from lakeaudit.errors import CannotAudit, SourceError
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.runtime.duck import Connection
from lakeaudit.runtime.job_errors import job_errors
from lakeaudit.schemas import VERSION


def raising(spark: SparkSession, error: Exception) -> DataFrame:
    """A frame whose Python worker raises."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                raise error
            yield batch

    return spark.range(1).mapInArrow(work, "id long")


def test_a_file_that_vanishes_while_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "t"))
    frame = spark.read.parquet(str(tmp_path / "t"))
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()
    with (
        pytest.raises(
            CannotAudit, match=r"Spark: a job failed: .*File does not exist.*; run it again"
        ) as told,
        job_errors(),
    ):
        frame.localCheckpoint(eager=True)
    assert len(str(told.value).splitlines()) == 1


def test_a_worker_that_met_something_it_can_name(spark: SparkSession) -> None:
    frame = raising(spark, SourceError("s3://lake/a", "access denied", "grant s3:GetObject"))
    told = "Spark: a job failed: s3://lake/a: access denied; grant s3:GetObject; run it again"
    with pytest.raises(CannotAudit, match=told), job_errors():
        frame.collect()


def _torn(con: Connection) -> Batches:
    yield "versions", VERSION.empty_table()
    raise SourceError("s3://lake/a", "access denied", "grant s3:GetObject")


def test_a_part_that_raises_in_a_task_has_no_buffered_rows(spark: SparkSession) -> None:
    with (
        closing(SparkEngine(lambda: spark, bytes_here=0)) as engine,
        job_errors(),
        pytest.raises((SourceError, CannotAudit), match="access denied"),
    ):
        engine.keep([Part("storage:0", _torn)])


def test_bugs_are_raised_as_bugs(spark: SparkSession) -> None:
    with pytest.raises(PythonException, match="TypeError"), job_errors():
        raising(spark, TypeError("a bug")).collect()
    with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"), job_errors():
        spark.range(1).select(F.col("nope"))
