"""Leftovers in groups: one finding per (table, partition or prefix, kind), the files beside it."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeaudit.compare.match import partition_folder, union_all
from lakeaudit.config import Table
from lakeaudit.evidence.protocol import Stored
from lakeaudit.keys import Location
from lakeaudit.longest_prefix_match import attach_label
from lakeaudit.pipeline.dataframes import small
from lakeaudit.schemas import UPLOAD, conform


def unfinished_uploads(
    spark: SparkSession, storage: Sequence[Stored], tables: Sequence[Table], roots: Mapping[Location, str]
) -> DataFrame:
    """Uploads begun longer ago than leftover_age + max_upload: rows shaped like leftover verdicts, with `rule`."""
    listed = [source for source in storage if source.uploads is not None and source.info.cut is not None]
    frames = [
        conform(source.uploads, UPLOAD).withColumn(
            "edge", F.lit(source.info.cut.start - source.info.cut.margin)
        )
        for source in listed
        if source.uploads is not None and source.info.cut is not None
    ]
    schema = (
        "source string, bucket string, key string, upload_id string, initiated_at timestamp, edge timestamp"
    )
    owned = attach_label(union_all(frames, spark, schema), roots, "judged_table")
    waits = [
        (t.name, len(t.location.prefix), t.settings.leftover_age + t.settings.max_upload) for t in tables
    ]
    known = small(spark, waits, "judged_table string, root_length long, wait interval day to second")
    old = owned.join(F.broadcast(known), "judged_table").filter(
        F.col("initiated_at") + F.col("wait") <= F.col("edge")
    )
    relative = F.expr("substring(key, cast(root_length as int) + 1)")
    return old.select(
        "judged_table",
        F.lit("leftover").alias("axis"),
        F.lit("leftover.unfinished_upload").alias("rule"),
        "bucket",
        "key",
        relative.alias("relative"),
        partition_folder(relative).alias("partition_path"),
        F.lit("temporary").alias("category"),
        F.lit(None).cast("long").alias("s_size"),
        F.lit(None).cast("string").alias("s_etag"),
        F.col("upload_id").alias("s_version_id"),
        F.col("initiated_at").alias("s_modified_at"),
        "edge",
    )


def group_place(relative: Column, partition: Column) -> Column:
    """The prefix a leftover is grouped under: its first folder below the table, or the table itself."""
    first = F.regexp_extract(relative, r"^([^/]+/)", 1)
    return F.concat(
        F.expr("left(key, length(key) - length(relative))"), F.when(partition == "", first).otherwise("")
    )
