"""Let Spark log the committed writes of a session while it runs.

Spark's own event log has the files, rows and bytes of each committed task, as the tasks report them. If
`spark.eventLog.enabled` is off, or an audit cannot read its logs, the same listener is added to a running session. The
log has no names of files, since Spark does not pass them to listeners; an audit finds the files in storage.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lakeaudit.emit.lists import reach_of
from lakeaudit.keys import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeaudit.runtime.connections.aws import Clients


@dataclass(frozen=True)
class SparkWrite:
    """One write: its target, its mode and its committed files; `splits` are rows and bytes by the number of the split.

    `outcome` is succeeded, failed or unfinished. A failed write has committed nothing, even if its tasks wrote files.
    """

    path: str
    mode: str
    outcome: str
    files: int | None
    bytes: int | None
    records: int | None
    ended_at: datetime | None
    splits: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass
class SparkWrites:
    """The log of a block: `place` is its URI; it is complete once the block has ended."""

    place: str
    _clients: "Clients"

    def writes(self) -> list[SparkWrite]:
        """Return the writes of the block, in their order, from the log."""
        from lakeaudit.evidence.manifest.spark_event_log import log_files
        from lakeaudit.evidence.manifest.spark_event_log.rows import application_of

        (log,) = log_files.find(self._clients, Location.parse(self.place))
        application, lacks = application_of(self._clients, log)
        if lacks:
            raise ValueError(f"{self.place}: {lacks}")
        return [_write(job) for job in application.writes()]


def _write(job: Any) -> SparkWrite:
    whole = job.outcome == "succeeded"
    totals = job.totals if whole else {}
    counted = {name: totals.get(name) for name in ("files", "bytes", "records")}
    splits = {n: (tries[-1].records, tries[-1].bytes) for n, tries in job.splits.items()} if whole else {}
    return SparkWrite(job.path, job.mode, job.outcome, **counted, ended_at=job.ended_at, splits=splits)


@contextmanager
def spark_writes(
    spark: "SparkSession",
    location: str,
    *,
    clients: "Clients | None" = None,
    s3: Mapping[str, Any] | None = None,
) -> Iterator[SparkWrites]:
    """Log the session's events in the block to a new folder below `location`.

    Name `location` in the table's `spark_event_log` manifest. The session needs the right to write there, and its own
    connection to that store. Whether or not the block fails, the log has the outcome of each write.

    Raises:
        TypeError: a session of Spark Connect, which has no listeners.
    """
    name = f"{spark.sparkContext.applicationId}-{uuid4().hex[:8]}"
    folder = Location.parse(location)
    with event_log(spark, folder.spark_path, name):
        yield SparkWrites(folder.join(f"eventlog_v2_{name}").uri, reach_of(clients, s3 or {})())


@contextmanager
def event_log(spark: "SparkSession", folder: str, name: str, codec: str = "zstd") -> Iterator[None]:
    """Log all events of the session in the block to `folder`, as `spark.eventLog.enabled` does from the start."""
    context = getattr(spark, "sparkContext", None)
    jvm = getattr(context, "_jvm", None)
    if context is None or jvm is None:
        raise TypeError("this session has no JVM of its own, so no listener can be added to it")
    uri, hadoop = folder if "://" in folder else Path(folder).as_uri(), context._jsc.hadoopConfiguration()
    place = jvm.org.apache.hadoop.fs.Path(uri)
    place.getFileSystem(hadoop).mkdirs(place)  # Spark asks for a folder that is there
    conf = context._jsc.sc().conf().clone()
    for key, value in (("compress", "true"), ("compression.codec", codec), ("rolling.enabled", "true")):
        conf.set(f"spark.eventLog.{key}", value)
    none = jvm.scala.Option.apply(None)
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        name, none, jvm.java.net.URI(uri), conf, hadoop
    )
    listener.start()
    context._jsc.sc().addSparkListener(listener)
    try:
        yield
    finally:
        context._jsc.sc().listenerBus().waitUntilEmpty()
        context._jsc.sc().removeSparkListener(listener)
        listener.onApplicationEnd(_end_of(jvm))
        listener.stop()


def _end_of(jvm: Any) -> Any:
    """Return the event that ends a log: without it readers would assume that the application was killed."""
    event, now = (
        jvm.org.apache.spark.scheduler.SparkListenerApplicationEnd,
        jvm.java.lang.System.currentTimeMillis(),
    )
    try:
        return event(now, jvm.scala.Option.apply(None))
    except Exception:  # noqa: BLE001 - py4j's own: before Spark 4 it had no exit code
        return event(now)
