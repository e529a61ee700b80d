"""Writes the result tables: Delta, idempotent by run id, readable by all that know plain Delta.

Rows of which there may be millions are written by Spark, the few that the driver holds by delta-rs (`results/put.py`).

Every write is one Delta commit that replaces what the same run wrote before, so an audit that was killed
anywhere can be run again under its run id. Readers ignore a run whose row in `runs` is not final, and that
row comes last.

A results place has a single writer: whoever holds its lease (`ledger/lease.py`). Before every commit the lease is
looked at again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakeaudit.errors import CannotPublish
from lakeaudit.keys import Location
from lakeaudit.pipeline.dataframes import literal, small
from lakeaudit.results import delta_writer
from lakeaudit.results.read import Results
from lakeaudit.results.spark_write_errors import refusals
from lakeaudit.schemas import RESULTS, conform

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
ORDER = ("table_name", "axis", "kind", "partition_path", "key", "discrepancy_id")
"""How rows lie inside a file: what belongs together is read together."""


def open_results(spark: SparkSession, results: Results, still_ours: Callable[[], None]) -> "ResultsWriter":
    """The writer of a lake's results, after their tables were checked and something was written there.

    Args:
        spark: the session.
        results: where they lie and whose they are; those of other lakes may lie beside them.
        still_ours: raises when another may write there now.

    Raises:
        CannotPublish: the place cannot be written, or a table there is damaged or of another version.
    """
    with refusals(results.place):
        _probe(spark, results.place)
    for name in RESULTS:
        _check(results, name)
    return ResultsWriter(spark, results, still_ours)


class ResultsWriter:
    """Writes one run: its row of `runs`, then every table, then that row again. Single writer, see the module."""

    def __init__(self, spark: SparkSession, results: Results, still_ours: Callable[[], None]) -> None:
        self._spark = spark
        self._results = results
        self._still_ours = still_ours

    def put_run(self, run: Mapping[str, Any]) -> None:
        """Replace the run's row of `runs`.

        Until its status is a final one, readers ignore the run; that publishes everything written under the run id.
        """
        self.put("runs", [run], run["run_id"])

    def put(self, table: str, rows: Sequence[Mapping[str, Any]], run_id: str) -> None:
        """Replace what the run wrote to a table by a few rows that the driver holds. Raises as `write`."""
        schema = RESULTS[table]
        unknown = {name for row in rows for name in row} - set(schema.names)
        if unknown:
            raise ValueError(f"no columns of {table}: {sorted(unknown)}")
        self._still_ours()
        arrow = pa.Table.from_pylist([dict(row) for row in rows], to_arrow_schema(schema))
        delta_writer.replace(self._results, table, arrow, {"lake": self._results.lake, "run_id": run_id})

    def write(self, table: str, frame: DataFrame, run_id: str, *, tables: Sequence[str] = ()) -> None:
        """Replace what the run wrote to a table by `frame`, in one commit and few files.

        Args:
            table: leftover_files or findings.
            frame: rows of that table's schema; it is computed once, here.
            run_id: the run the rows belong to.
            tables: for leftover_files, the audited tables, whose rows of earlier runs are replaced.

        Raises:
            CannotPublish: the results place refused. A failure of `frame` itself is raised as it comes.
            Busy: another audit may have taken the place over.
        """
        place = self._place(table)
        whose = f"lake = {literal(self._results.lake)} AND (run_id = {literal(run_id)}{_or_tables(tables)})"
        rows = _in_few_files(conform(frame, RESULTS[table]), table)
        self._still_ours()
        with refusals(place, only_its_own=True):
            writer = rows.write.format("delta").options(**PROPERTIES).partitionBy(*PARTITIONS.get(table, ()))
            if self._results.again().holds_any(table, run_id, tables):  # replacing takes three times as long
                writer = writer.mode("overwrite").option("replaceWhere", whose)
            else:
                writer = writer.mode("append")
            writer.save(place.spark_path)

    def rows(self, table: str) -> DataFrame:
        """The lake's rows of a result table, of finished runs and others."""
        place = self._place(table).spark_path
        if not DeltaTable.isDeltaTable(self._spark, place):
            return small(self._spark, [], RESULTS[table])
        return self._spark.read.format("delta").load(place).filter(F.col("lake") == self._results.lake)

    def append(self, table: str, frame: DataFrame) -> None:
        """Add rows that are not there yet. Raises as `write`."""
        place = self._place(table)
        rows = _in_few_files(conform(frame, RESULTS[table]), table)
        self._still_ours()
        with refusals(place, only_its_own=True):
            rows.write.format("delta").options(**PROPERTIES).mode("append").save(place.spark_path)

    def replace_rows(self, table: str, frame: DataFrame, key: str) -> None:
        """Put each row in the place of the lake's row with the same key, or add it. Raises as `write`."""
        place = self._place(table)
        if not DeltaTable.isDeltaTable(self._spark, place.spark_path):
            self.append(table, frame)
            return
        self._still_ours()
        with refusals(place, only_its_own=True):
            merge = self._matched(place, conform(frame, RESULTS[table]), key)
            merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def remove_rows(self, table: str, frame: DataFrame, key: str) -> None:
        """Take the lake's rows with these keys out. Raises as `write`."""
        place = self._place(table)
        self._still_ours()
        with refusals(place, only_its_own=True):
            self._matched(place, frame.select(key), key).whenMatchedDelete().execute()

    def _matched(self, place: Location, rows: DataFrame, key: str) -> DeltaMergeBuilder:
        same = f"old.`{key}` = new.`{key}` AND old.lake = {literal(self._results.lake)}"
        return DeltaTable.forPath(self._spark, place.spark_path).alias("old").merge(rows.alias("new"), same)

    def _place(self, table: str) -> Location:
        return self._results.place.join(table)


def _check(results: Results, name: str) -> None:
    """A table that is there must be ours, and still readable by all; one that is not is made by its first write."""
    found = delta_writer.shape(results, name)
    if found is None:
        return
    there, ours, place = found.columns, _columns(RESULTS[name]), results.place.join(name).uri
    if there != ours:
        odd = sorted(column for column in there.keys() | ours.keys() if there.get(column) != ours.get(column))
        what = f"the table is of another version of lakeaudit (columns {', '.join(odd[:5])})"
        raise CannotPublish(place, what, "use that version, or another place for `results`")
    if found.reader_version > 1:
        what = f"someone raised the table to Delta reader version {found.reader_version}"
        raise CannotPublish(place, what, "move it away, or use another place for `results`")


def _columns(schema: StructType) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in schema.jsonValue()["fields"]}


def _probe(spark: SparkSession, place: Location) -> None:
    """Write and remove an empty object as Spark will write: hours of audit must not fail at the last step."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(place.join("_probe").spark_path)
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    system.create(path, True).close()
    system.delete(path, False)


def _in_few_files(frame: DataFrame, table: str) -> DataFrame:
    """Adaptive execution joins small partitions after a rebalance, and splits big ones."""
    order = [*PARTITIONS.get(table, ()), *(column for column in ORDER if column in frame.columns)]
    return frame.hint("rebalance").sortWithinPartitions(*order)


def _or_tables(tables: Sequence[str]) -> str:
    return f" OR table_name IN ({', '.join(literal(name) for name in tables)})" if tables else ""
