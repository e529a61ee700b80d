"""Duplicate content: visible files of one partition that hold the same bytes."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakeaudit import keys
from lakeaudit.compare.facts import MD5_TEXT


def same_content(pairs: DataFrame, sizes: DataFrame) -> DataFrame:
    """PAIR rows of redundant files, with related_key (the oldest of the group, tie: lesser key) and group_id.

    `sizes` has name, min_size. A file takes part when it is live (or its table has no manifest), is visible to
    readers, is big enough, lies before the cut, and its content is known by a full checksum or an MD5-class ETag.
    """
    table = F.coalesce(F.col("table_name"), F.col("owner"))
    # a plain table is its folders: only files under its own location, and only where no manifest speaks for it
    plain = F.col("table_name").isNull() & ~F.col("o_manifest")
    known = pairs.withColumns({"judged_table": table, "__content": content()}).join(
        F.broadcast(sizes), F.col("judged_table") == F.col("name")
    )
    taking_part = (
        ((F.col("c_state") == "live") | plain)
        & (F.col("s_presence") == "present")
        & F.col("__content").isNotNull()
        & (F.col("s_size") >= F.col("min_size"))
        & ~F.col("relative").rlike(keys.HIDDEN)
        & (F.col("s_modified_at") <= F.col("s_from") - F.col("s_margin"))
        & (F.coalesce(F.col("category"), F.lit("data")) == "data")
    )
    folder = F.regexp_replace("relative", r"/?[^/]*$", "")
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
    return ranked.filter(F.col("__rank") > 1).drop("__rank", "__content", "name", "min_size")


def content() -> Column:
    """What identifies an object's bytes: its full checksum, else its ETag where that is an MD5."""
    md5_class = (
        F.col("s_etag").rlike(MD5_TEXT)
        & ~F.coalesce("s_multipart", F.lit(False))
        & F.col("s_encryption").isin("NONE", "SSE-S3")
    )
    return F.coalesce(F.when(md5_class, F.concat(F.lit("md5:"), "s_etag")), "s_checksum")
