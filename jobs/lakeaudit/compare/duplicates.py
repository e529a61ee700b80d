"""Duplicate content: visible files of one partition that hold the same bytes."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakeaudit import keys
from lakeaudit.compare.facts import MD5_TEXT


def same_content(pairs: DataFrame, sizes: DataFrame) -> DataFrame:
    """Ruled PAIR rows of redundant files, with related_key (the oldest of the group, tie: lesser key) and group_id.

    `sizes` has name, min_size. A plain file's partition is its folder. A file takes part when it is live or no manifest
    knows it, its name is visible to readers, it is big enough, lies before the cut, and its content is known by a full
    checksum or an MD5-class ETag.
    """
    table = F.coalesce(F.col("table_name"), F.col("owner"))
    # what a table removed may well equal what replaced it; what no manifest knows, readers of folders still read
    unclaimed = F.col("table_name").isNull()
    known = pairs.withColumns({"judged_table": table, "__content": content()}).join(
        F.broadcast(sizes), F.col("judged_table") == F.col("name")
    )
    taking_part = (
        ((F.col("c_state") == "live") | unclaimed)
        & (F.col("s_presence") == "present")
        & F.col("__content").isNotNull()
        & (F.col("s_size") >= F.col("min_size"))
        & ~F.col("relative").rlike(keys.HIDDEN)
        & (F.col("s_modified_at") <= F.col("s_from") - F.col("s_margin"))
        & (F.coalesce(F.col("category"), F.lit("data")) == "data")
    )
    folder = F.regexp_replace("relative", r"/?[^/]*$", "")
    plain = ~F.col("o_logged") & F.coalesce(F.col("c_kind") != "delta", F.lit(True))
    place = F.when(plain, folder).otherwise(F.col("partition_path"))
    group = Window.partitionBy("judged_table", place, "s_size", "__content")
    order = group.orderBy("s_modified_at", "bucket", "key")
    uri = F.when(F.col("bucket") == "", F.concat(F.lit("/"), "key")).otherwise(
        F.concat(F.lit("s3://"), "bucket", F.lit("/"), "key")
    )
    ranked = known.filter(taking_part).withColumns(
        {
            "__rank": F.row_number().over(order),
            "related_key": F.first(uri).over(order),
            "group_id": F.sha2(F.concat_ws("\n", "judged_table", place, "__content"), 256).substr(1, 32),
        }
    )
    unsaid = F.col("rule_duplicate") == "duplicate.single"  # a file has one verdict on the axis
    return ranked.filter((F.col("__rank") > 1) & unsaid).drop("__rank", "__content", "name", "min_size")


def content() -> Column:
    """What identifies an object's bytes: its ETag where that may be an MD5, else its full checksum."""
    md5_class = (
        F.col("s_etag").rlike(MD5_TEXT)
        & ~F.coalesce("s_multipart", F.lit(False))
        # a listing tells no encryption; ETags that are no MD5s are never equal by chance
        & F.coalesce(F.col("s_encryption").isin("NONE", "SSE-S3"), F.lit(True))
    )
    return F.coalesce(F.when(md5_class, F.concat(F.lit("md5:"), "s_etag")), "s_checksum")
