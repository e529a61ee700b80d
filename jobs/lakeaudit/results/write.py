"""Writes the result tables: Delta by Spark, idempotent by run id, readable by all that know plain Delta.

Every write is one Delta commit that replaces what the same run wrote before, so an audit that was killed
anywhere can be run again under its run id. Readers ignore a run whose row in `runs` is not final, and that
row comes last.

A results place has a single writer: whoever holds its lease (`ledger/lease.py`). Before every commit the lease is
looked at again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakeaudit.errors import CannotPublish
from lakeaudit.frames import literal
from lakeaudit.keys import Location
from lakeaudit.schemas import RESULTS, RUNS, conform

PROPERTIES = {
    "delta.minReaderVersion": "1",
    "delta.minWriterVersion": "2",
    "delta.enableDeletionVectors": "false",
    "delta.enableRowTracking": "false",
    "delta.enableInCommitTimestamps": "false",
    "delta.columnMapping.mode": "none",
    "delta.checkpointPolicy": "classic",
}
"""Spelled out, so that no default can make the tables unreadable to Athena, Trino, DuckDB or delta-rs."""

PARTITIONS = {"findings": ("as_of_date",)}
ORDER = ("table_name", "axis", "kind", "partition_path", "key")
"""How rows lie inside a file: what belongs together is read together."""


def open_results(spark: SparkSession, place: Location, still_ours: Callable[[], None]) -> "ResultsWriter":
    """The writer of a results place, after its tables were checked and something was written there.

    Args:
        spark: the session.
        place: where the result tables lie.
        still_ours: raises when another may write there now.

    Raises:
        CannotPublish: the place cannot be written, or a table there is damaged or of another version.
    """
    with _refusals(place):
        _probe(spark, place)
    for name in RESULTS:
        with _refusals(table_place(place, name)):
            _check(spark, table_place(place, name), name)
    return ResultsWriter(spark, place, still_ours)


def table_place(place: Location, table: str) -> Location:
    """Where a result table lies."""
    return place.join(table)


class ResultsWriter:
    """Writes one run: `begin`, then `write` for each table, then `finish`. Single writer, see the module."""

    def __init__(self, spark: SparkSession, place: Location, still_ours: Callable[[], None]) -> None:
        self._spark = spark
        self._place = place
        self._still_ours = still_ours
        self._lake = ""

    def begin(self, run: Mapping[str, Any]) -> None:
        """Publish the run's row of `runs` (status running): until `finish`, readers ignore the run."""
        self._lake = run["lake"]
        self.finish(run)

    def finish(self, run: Mapping[str, Any]) -> None:
        """Replace the run's row of `runs`; a final status publishes everything written under the run id."""
        frame = self._spark.createDataFrame([_run_row(run)], RUNS)
        self.write("runs", frame, run["run_id"])

    def write(self, table: str, frame: DataFrame, run_id: str, *, tables: Sequence[str] = ()) -> None:
        """Replace what the run wrote to a table by `frame`, in one commit and few files.

        Args:
            table: coverage, leftover_files, findings or runs.
            frame: rows of that table's schema; it is computed once, here.
            run_id: the run the rows belong to.
            tables: for leftover_files, the audited tables, whose rows of earlier runs are replaced.

        Raises:
            CannotPublish: the results place refused. A failure of `frame` itself is raised as it comes.
            Busy: another audit may have taken the place over.
        """
        place = table_place(self._place, table)
        whose = f"lake = {literal(self._lake)} AND (run_id = {literal(run_id)}{_or_tables(tables)})"
        rows = _in_few_files(conform(frame, RESULTS[table]), table)
        self._still_ours()
        with _refusals(place, only_its_own=True):
            writer = rows.write.format("delta").options(**PROPERTIES).partitionBy(*PARTITIONS.get(table, ()))
            if _any_rows(self._spark, place, whose):
                writer = writer.mode("overwrite").option("replaceWhere", whose)
            else:
                writer = writer.mode("append")
            writer.save(place.spark_path)


def _any_rows(spark: SparkSession, place: Location, condition: str) -> bool:
    """Replacing takes three times as long as appending, and mostly there is nothing to replace."""
    if not DeltaTable.isDeltaTable(spark, place.spark_path):
        return False
    return not spark.read.format("delta").load(place.spark_path).where(condition).isEmpty()


def _check(spark: SparkSession, place: Location, name: str) -> None:
    """A table that is there must be ours, and still readable by all; one that is not is made by its first write."""
    if not DeltaTable.isDeltaTable(spark, place.spark_path):
        return
    table = DeltaTable.forPath(spark, place.spark_path)
    there = {field.name: field.dataType for field in table.toDF().schema}
    ours = {field.name: field.dataType for field in RESULTS[name]}
    if there != ours:
        odd = sorted(column for column in there.keys() | ours.keys() if there.get(column) != ours.get(column))
        what = f"the table is of another version of lakeaudit (columns {', '.join(odd[:5])})"
        raise CannotPublish(place.uri, what, "use that version, or another place for `results`")
    (detail,) = table.detail().select("minReaderVersion").collect()
    if detail.minReaderVersion > 1:
        what = f"someone raised the table to Delta reader version {detail.minReaderVersion}"
        raise CannotPublish(place.uri, what, "move it away, or use another place for `results`")


def _probe(spark: SparkSession, place: Location) -> None:
    """Write and remove an empty object as Spark will write: hours of audit must not fail at the last step."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(place.join("_probe").spark_path)
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    system.create(path, True).close()
    system.delete(path, False)


def _in_few_files(frame: DataFrame, table: str) -> DataFrame:
    """Adaptive execution joins small partitions after a rebalance, and splits big ones."""
    if table in ("runs", "coverage"):
        return frame.coalesce(1)
    order = [*PARTITIONS.get(table, ()), *(column for column in ORDER if column in frame.columns)]
    return frame.hint("rebalance").sortWithinPartitions(*order)


def _run_row(run: Mapping[str, Any]) -> tuple[Any, ...]:
    unknown = run.keys() - set(RUNS.names)
    if unknown:
        raise ValueError(f"no columns of runs: {sorted(unknown)}")
    return tuple(run.get(name) for name in RUNS.names)


def _or_tables(tables: Sequence[str]) -> str:
    return f" OR table_name IN ({', '.join(literal(name) for name in tables)})" if tables else ""


@contextmanager
def _refusals(place: Location, *, only_its_own: bool = False) -> Iterator[None]:
    """Turn what the results place answers into one line.

    With `only_its_own`, a failure of which no cause names the place passes: it came with the rows.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        causes = _causes(error)
        if only_its_own and not _names(place, causes):
            raise
        _refuse(place, causes, error)


def _names(place: Location, causes: list[str]) -> bool:
    """Whether the store behind the place spoke: Spark itself names the place whatever failed while writing."""
    path = f"{place.bucket}/{place.key}" if place.bucket else f"/{place.key}"
    spoken = [cause.partition("\n")[0] for cause in causes if not cause.startswith("org.apache.spark.")]
    return any(path in cause or "io.delta.exceptions." in cause for cause in spoken)


def _refuse(place: Location, causes: list[str], error: Exception) -> NoReturn:
    told = " ".join(causes)
    for signs, what, way_out in _REFUSALS:
        if any(sign in told for sign in signs):
            raise CannotPublish(place.uri, what, way_out) from error
    first = causes[-1].splitlines()[0][:200]
    raise CannotPublish(
        place.uri, f"the results cannot be written ({first})", "mend the place, or use another"
    )


_REFUSALS = (
    (
        ("AccessDenied", "Access Denied", "Permission denied", "Read-only file system", "Status Code: 403"),
        "the results may not be written",
        "grant list, get, put and delete rights on this place",
    ),
    (("UnknownStoreException", "NoSuchBucket"), "the bucket does not exist", "create it, or check the name"),
    (
        ("NoAuthWithAWS", "Unable to load credentials", "NoAwsCredentials"),
        "no AWS credentials found",
        "set a profile, role or environment of the AWS chain",
    ),
    (
        ("ConnectException", "UnknownHostException", "Connection refused"),
        "the endpoint cannot be reached",
        "check s3.endpoint and the network",
    ),
    (
        ("io.delta.exceptions.Concurrent", "ProtocolChangedException", "MetadataChangedException"),
        "another audit is writing here",
        "run one audit of a lake at a time, then run this one again",
    ),
    (
        ("Mkdirs failed", "ParentNotDirectory", "Not a directory", "DELTA_CANNOT_CREATE_LOG_PATH"),
        "no folder can be made there",
        "check the path of `results`",
    ),
)


def _causes(error: Exception) -> list[str]:
    """What the JVM says, outermost first; the last is the first cause."""
    thrown: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    told: list[str] = []
    while thrown is not None and len(told) < 20:
        told.append(str(thrown.toString()))
        thrown = thrown.getCause()
    return told or [str(error)]
