"""Actions of many logs as one table: a row per action, its paths resolved, whatever file it stood in.

EVENT columns: file, table_name, version, time, checkpoint, in_commit_ms; kind (add, remove, cdc, metaData, protocol,
commitInfo, problem; null for what an audit does not need); place (bucket, key; a null key: the path cannot be
understood); vector (id of the deletion vector, ""), vector_place (of the file it is in, if any); size, records,
partition, deleted_at; text (of the actions that are kept as JSON, and why a file could not be read).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest import delta_paths
from lakeaudit.evidence.manifest.delta_lines import lines_of
from lakeaudit.evidence.manifest.delta_schemas import (
    CHECKPOINT_ACTION,
    LINE,
    LINE_ACTION,
    LOG_FILE,
    PARQUET_FILE,
)
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients

_TASK_BYTES = 32 << 20
_TASK_FILES = 256
FILE_ACTIONS = ("add", "remove", "cdc")


@dataclass(frozen=True)
class LogFile:
    """A log file to read.

    `seen_as` is how Spark's `_metadata.file_path` spells a Parquet file, None for JSON lines; `rows` is how many a
    Parquet file must give.
    """

    table: str
    root: Location
    version: int
    time: datetime
    checkpoint: bool
    file: File
    seen_as: str | None = None
    rows: int | None = None


def read_actions(spark: SparkSession, files: Sequence[LogFile], clients: Clients) -> DataFrame:
    """EVENT rows of all these files; `file` is the place in `files`."""
    rows = [_log_file(number, file) for number, file in enumerate(files)]
    known = F.broadcast(spark.createDataFrame(rows, LOG_FILE))
    lines = {number: file for number, file in enumerate(files) if file.seen_as is None}
    tables = {number: file for number, file in enumerate(files) if file.seen_as is not None}
    actions = _from_lines(_lines(spark, lines, clients))
    if tables:
        actions = actions.unionByName(_from_parquet(spark, tables))
    return _events(actions.join(known, "file"))


def _log_file(number: int, file: LogFile) -> tuple[object, ...]:
    place = file.file.place
    root = (file.root.bucket, file.root.prefix)
    return (number, file.table, file.version, file.time, file.checkpoint, *root, place.bucket, place.key)


def _lines(spark: SparkSession, files: Mapping[int, LogFile], clients: Clients) -> DataFrame:
    rows = [(n, f.file.place.bucket, f.file.place.key, f.file.size) for n, f in files.items()]
    if not rows:
        return spark.createDataFrame([], LINE)
    tasks = 1 + sum(row[3] for row in rows) // _TASK_BYTES + len(rows) // _TASK_FILES
    asked = spark.createDataFrame(rows, "file bigint, bucket string, key string, size bigint")
    return lines_of(asked.repartition(min(len(rows), tasks), "file"), clients)


def _from_lines(lines: DataFrame) -> DataFrame:
    options = {"columnNameOfCorruptRecord": "broken", "mode": "PERMISSIVE"}
    parsed = lines.withColumn("action", F.from_json("line", LINE_ACTION, options))
    broken = F.when(F.col("action.broken").isNotNull(), "a line of it is torn or no Delta action")
    return parsed.select(
        *("file", "in_commit_ms", F.coalesce("problem", broken).alias("problem")),
        *(
            "action.add",
            "action.remove",
            "action.cdc",
            "action.metaData",
            "action.protocol",
            "action.commitInfo",
        ),
        F.lit(None).cast("bigint").alias("counted"),
    )


def _from_parquet(spark: SparkSession, files: Mapping[int, LogFile]) -> DataFrame:
    """A file that is gone or broken gives fewer rows than were counted before, which is looked at afterwards."""
    tolerant = {"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true"}
    paths = [file.file.place.spark_path for file in files.values()]
    read = spark.read.schema(CHECKPOINT_ACTION).options(**tolerant).parquet(*paths)
    numbers = [(file.seen_as, number) for number, file in files.items()]
    known = spark.createDataFrame(numbers, PARQUET_FILE)
    seen = read.select("*", F.col("_metadata.file_path").alias("path")).join(F.broadcast(known), "path")
    nothing = F.lit(None)
    return seen.select(
        F.col("parquet_file").alias("file"),
        nothing.cast("bigint").alias("in_commit_ms"),
        nothing.cast("string").alias("problem"),
        F.col("add").dropFields("stats_parsed").alias("add"),
        "remove",
        nothing.cast("struct<path: string, partitionValues: map<string, string>, size: bigint>").alias("cdc"),
        F.to_json("metaData").alias("metaData"),
        F.to_json("protocol").alias("protocol"),
        nothing.cast("string").alias("commitInfo"),
        F.col("add.stats_parsed.numRecords").alias("counted"),
    )


def _events(actions: DataFrame) -> DataFrame:
    root = (F.col("root_bucket"), F.col("root_prefix"))
    kinds = ("add", "remove", "cdc", "metaData", "protocol", "commitInfo")
    kind = F.when(F.col("problem").isNotNull(), "problem")
    for name in kinds:
        kind = kind.when(F.col(name).isNotNull(), name)
    vector = F.coalesce("add.deletionVector", "remove.deletionVector")
    resolved = actions.withColumns(
        {
            "kind": kind,
            "place": delta_paths.place(F.coalesce(*_fields("path")), *root),
            "vector": delta_paths.pair_id(F.coalesce(*_fields("path")), vector),
            "vector_place": delta_paths.deletion_vector_place(vector, *root),
        }
    )
    return resolved.select(
        *("file", "table_name", "version", "time", "checkpoint", "in_commit_ms", "kind"),
        *("place", "vector", "vector_place"),
        F.coalesce(*_fields("size")).alias("size"),
        F.coalesce(_records(), "counted").alias("records"),
        F.coalesce(*_fields("partitionValues")).alias("partition"),
        time_of(F.col("remove.deletionTimestamp")).alias("deleted_at"),
        F.coalesce("problem", "metaData", "protocol", "commitInfo").alias("text"),
    )


def time_of(epoch_ms: Column) -> Column:
    """The time; null outside the years 1 to 9999, which no clock gave."""
    return F.when(epoch_ms.between(-62_135_596_800_000, 253_402_300_799_999), F.timestamp_millis(epoch_ms))


def _fields(name: str) -> list[Column]:
    return [F.col(f"{action}.{name}") for action in FILE_ACTIONS]


def _records() -> Column:
    return F.get_json_object("add.stats", "$.numRecords").try_cast("bigint")
