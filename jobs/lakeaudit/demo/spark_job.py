"""Writes the demo's plain Parquet table by a Spark job, with Spark's event log."""

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeaudit.demo.server import LAKE
from lakeaudit.demo.tables import EVENT_LOGS, VISITS
from lakeaudit.emit.spark import event_log
from lakeaudit.runtime.connections.aws import Clients

_RENAMED_BY_TASKS = {"mapreduce.fileoutputcommitter.algorithm.version": "2"}
"""A faster setting of many clusters, in which no other check notices a file that a rename missed."""


def visits(spark: SparkSession, clients: Clients) -> None:
    """Write two appends of one job, and the job's event log as it is after the application ended."""
    rows = spark.range(0, 3000, 1, 6).select("id", F.sha2(F.col("id").cast("string"), 256).alias("page"))
    with TemporaryDirectory(prefix="lakeaudit-demo-") as folder:
        with event_log(spark, folder, "application_1790000000000_0001"):
            for half in ("id % 2 = 0", "id % 2 = 1"):  # no check would miss a file without rows
                rows.filter(half).write.mode("append").options(**_RENAMED_BY_TASKS).parquet(VISITS.path)
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                key = EVENT_LOGS + str(path.relative_to(folder))
                clients.s3(LAKE).put_object(Bucket=LAKE, Key=key, Body=path.read_bytes())
