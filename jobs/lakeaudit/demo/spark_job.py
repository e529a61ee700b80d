"""The demo's plain Parquet table of a Spark job, and the event log that Spark keeps of it unasked."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeaudit.demo.server import LAKE
from lakeaudit.demo.tables import EVENT_LOGS, VISITS
from lakeaudit.runtime.aws import Clients

_RENAMED_BY_TASKS = {"mapreduce.fileoutputcommitter.algorithm.version": "2"}
"""What many clusters set, since it is faster: a file that such a rename misses is missed by nobody else."""


def visits(spark: SparkSession, clients: Clients) -> None:
    """Two appends of one job, and its log as it lies there once the application has ended."""
    rows = spark.range(0, 3000, 1, 6).select("id", F.sha2(F.col("id").cast("string"), 256).alias("page"))
    with TemporaryDirectory(prefix="lakeaudit-demo-") as folder:
        with event_log(spark, Path(folder), "application_1790000000000_0001"):
            for half in ("id < 1500", "id >= 1500"):
                rows.filter(half).write.mode("append").options(**_RENAMED_BY_TASKS).parquet(VISITS.path)
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                key = EVENT_LOGS + str(path.relative_to(folder))
                clients.s3(LAKE).put_object(Bucket=LAKE, Key=key, Body=path.read_bytes())


@contextmanager
def event_log(spark: SparkSession, folder: Path, name: str, codec: str = "zstd") -> Iterator[None]:
    """All that the session does in here is logged to `folder`, as `spark.eventLog.enabled` would from its start."""
    folder.mkdir(parents=True, exist_ok=True)
    context, jvm = spark.sparkContext, spark.sparkContext._jvm
    if jvm is None:
        raise RuntimeError("the session has no JVM")
    conf = context._jsc.sc().conf().clone()
    for key, value in (("compress", "true"), ("compression.codec", codec), ("rolling.enabled", "true")):
        conf.set(f"spark.eventLog.{key}", value)
    none = jvm.scala.Option.apply(None)
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        name, none, jvm.java.net.URI(folder.as_uri()), conf
    )
    listener.start()
    context._jsc.sc().addSparkListener(listener)
    try:
        yield
    finally:
        context._jsc.sc().listenerBus().waitUntilEmpty()
        context._jsc.sc().removeSparkListener(listener)
        listener.stop()
