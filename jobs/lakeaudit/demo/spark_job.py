"""The demo's plain Parquet table of a Spark job, and the event log that Spark keeps of it unasked."""

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeaudit.demo.server import LAKE
from lakeaudit.demo.tables import EVENT_LOGS, VISITS
from lakeaudit.emit.spark import event_log
from lakeaudit.runtime.aws import Clients

_RENAMED_BY_TASKS = {"mapreduce.fileoutputcommitter.algorithm.version": "2"}
"""What many clusters set, since it is faster: a file that such a rename misses is missed by nobody else."""


def visits(spark: SparkSession, clients: Clients) -> None:
    """Two appends of one job, and its log as it lies there once the application has ended."""
    rows = spark.range(0, 3000, 1, 6).select("id", F.sha2(F.col("id").cast("string"), 256).alias("page"))
    with TemporaryDirectory(prefix="lakeaudit-demo-") as folder:
        with event_log(spark, folder, "application_1790000000000_0001"):
            for half in ("id % 2 = 0", "id % 2 = 1"):  # a file without rows would be missed by nobody
                rows.filter(half).write.mode("append").options(**_RENAMED_BY_TASKS).parquet(VISITS.path)
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                key = EVENT_LOGS + str(path.relative_to(folder))
                clients.s3(LAKE).put_object(Bucket=LAKE, Key=key, Body=path.read_bytes())
