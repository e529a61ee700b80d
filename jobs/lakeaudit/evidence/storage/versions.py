"""Reduces the versions of a key to the one row that a storage source gives for it.

Every aggregate here combines partially: what one task holds of a key is one row before anything is
shuffled, so millions of versions of one key never meet in one place.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeaudit.keys import NULL_VERSION
from lakeaudit.schemas import STORED, conform

_LATEST = (
    "size",
    "etag",
    "version_id",
    "modified_at",
    "storage_class",
    "archived",
    "multipart",
    "encryption",
)


def one_row_per_key(versions: DataFrame, source_id: str, *, repeats: bool) -> DataFrame:
    """STORED rows of VERSION rows: one per (bucket, key), and each rejected row as it is.

    `present` or `absent` needs exactly one latest row that says whether it is a delete marker; else the
    key is `unclear` and nothing more is said of it. With `repeats` (live listings, which may name a row
    twice) several latest rows are still one if they name one version.
    """
    rejected = F.col("reject").isNotNull()
    grouped = versions.withColumn("__row", F.when(rejected, F.monotonically_increasing_id()))
    latest = F.col("is_latest") & ~rejected
    reduced = grouped.groupBy("bucket", "key", "__row").agg(
        F.max("reject").alias("reject"),
        _only_one(latest, repeats).alias("__sure"),
        F.max(F.when(latest, _newest_first("is_delete_marker", *_LATEST))).alias("__latest"),
        F.max(F.when(_older(), _newest_first("size"))).alias("__older"),
    )
    return conform(_stored(reduced, source_id), STORED)


def _only_one(latest: Column, repeats: bool) -> Column:
    if not repeats:
        return F.count(F.when(latest, F.lit(1))) == 1
    version = F.when(latest, _version())
    return F.coalesce(F.min(version) == F.max(version), F.lit(False))


def _older() -> Column:
    return ~F.col("is_latest") & ~F.col("is_delete_marker")


def _version() -> Column:
    return F.coalesce("version_id", F.lit(NULL_VERSION))


def _newest_first(*columns: str) -> Column:
    """A struct whose greatest value is the newest row; the version id decides between equal times."""
    order = [F.col("modified_at").alias("at"), _version().alias("version")]
    return F.struct(*order, *columns)


def _stored(reduced: DataFrame, source_id: str) -> DataFrame:
    marker = F.col("__latest.is_delete_marker")
    told = F.col("__sure") & marker.isNotNull()
    presence = F.when(~told, "unclear").when(marker, "absent").otherwise("present")
    latest = [F.when(told, F.col(f"__latest.{name}")).alias(name) for name in _LATEST]
    return reduced.select(
        F.lit(source_id).alias("source"),
        "bucket",
        "key",
        F.when(F.col("reject").isNull(), presence).alias("presence"),
        *latest,
        F.lit(None).alias("checksum"),
        F.when(told, marker).alias("delete_marker"),
        F.col("__older.version").alias("older_version_id"),
        F.col("__older.size").alias("older_size"),
        "reject",
    )
