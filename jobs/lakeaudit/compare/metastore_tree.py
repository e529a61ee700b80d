"""The metadata store's own tree: parents, types and needed fields of its entries, as TREE rows for the rules."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeaudit.compare.match import union_all
from lakeaudit.evidence.protocol import Entries
from lakeaudit.keys import NOT_HADOOP, Location
from lakeaudit.longest_prefix_match import attach_label
from lakeaudit.pipeline.dataframes import small
from lakeaudit.schemas import ENTRY, TREE, conform

AT = ["source", "bucket"]


def tree(
    spark: SparkSession,
    metastores: Sequence[Entries],
    pairs: DataFrame,
    tables: DataFrame,
    roots: dict[Location, str],
    holed: set[str],
) -> DataFrame:
    """TREE rows of every entry that a table owns."""
    every = union_all([conform(store.frame, ENTRY) for store in metastores], spark, ENTRY)
    owned = attach_label(every.filter(F.col("reject").isNull()), roots, "owner").filter(
        F.col("owner").isNotNull()
    )
    rows = _with_parents(_with_touch(_rooted(owned, metastores)), _with_touch(every))
    rows = _with_storage(rows, pairs)
    rows = rows.join(_etag_habit(every), "source", "left").withColumn(
        "field_absent", _field_absent(metastores)
    )
    rows = rows.join(F.broadcast(_edges(spark, metastores, holed)), "source")
    settings = tables.select(F.col("name").alias("owner"), "grace", "root_length")
    rows = rows.join(F.broadcast(settings), "owner")
    relative = F.expr("substring(key, cast(root_length as int) + 1)")
    return conform(rows.withColumn("relative", relative), TREE)


def _rooted(entries: DataFrame, metastores: Sequence[Entries]) -> DataFrame:
    """Entries directly below the place their store was read for: its own item was not read, so none is expected."""
    tops = [f"{store.info.id}/{place.bucket}/{place.key}" for store in metastores for place in store.scope]
    at_top = F.concat_ws("/", "source", "bucket", "parent").isin(tops) if tops else F.lit(False)
    return entries.withColumn("parent", F.when(at_top, "").otherwise(F.col("parent")))


def _with_touch(entries: DataFrame) -> DataFrame:
    """When an entry was last touched: last_updated, 0 counts as long ago, absent: mod_time."""
    touched = F.when(F.col("last_updated_given"), F.col("last_updated")).otherwise(F.col("mod_time"))
    return entries.withColumn("touched_at", touched)


def _with_parents(rows: DataFrame, every: DataFrame) -> DataFrame:
    folder = F.col("is_dir") & ~F.col("tombstone")
    parents = every.select(
        *AT,
        F.col("key").alias("parent"),
        F.lit(True).alias("__row"),
        (F.col("tombstone") & ~F.col("expired")).alias("parent_is_tombstone"),
        (~F.col("tombstone") & ~F.col("is_dir")).alias("parent_is_file"),
        (folder | ~F.col("tombstone") | ~F.col("expired")).alias("__there"),
        F.col("touched_at").alias("parent_touched_at"),
    )
    joined = rows.join(parents, [*AT, "parent"], "left")
    return joined.withColumns(
        {
            "parent_found": F.coalesce("__row", F.lit(False)) & F.coalesce("__there", F.lit(False)),
            "parent_is_tombstone": F.coalesce("parent_is_tombstone", F.lit(False)),
            "parent_is_file": F.coalesce("parent_is_file", F.lit(False)),
        }
    )


def _with_storage(rows: DataFrame, pairs: DataFrame) -> DataFrame:
    """What storage has at the entry, below it, and among its direct children that are not entered."""
    stored = pairs.filter((F.col("s_presence") == "present") & F.col("first"))
    there = stored.filter(F.col("m_state") == "dir").select(
        "bucket", "key", F.lit(True).alias("object_there")
    )
    return (
        rows.join(there, ["bucket", "key"], "left")
        .join(_folders(stored), ["bucket", "key"], "left")
        .join(_unentered(stored), ["bucket", "key"], "left")
        .withColumns(
            {
                "object_there": F.coalesce("object_there", F.lit(False)),
                "keys_below": F.coalesce("keys_below", F.lit(False)),
                "children_missing": F.coalesce("unentered", F.lit(False))
                & F.col("authoritative")
                & F.col("honoured"),
            }
        )
    )


def _folders(stored: DataFrame) -> DataFrame:
    """Every folder that has a key below it at any depth; folders are far fewer than keys, so they are made first."""
    direct = stored.select("bucket", _parent(F.rtrim(F.col("key"), F.lit("/"))).alias("folder")).distinct()
    parts = F.split("folder", "/")
    steps = F.transform(
        F.sequence(F.lit(1), F.size(parts)), lambda n: F.array_join(F.slice(parts, 1, n), "/")
    )
    every = direct.filter(F.col("folder") != "").select("bucket", F.explode(steps).alias("key"))
    return every.distinct().withColumn("keys_below", F.lit(True))


def _unentered(stored: DataFrame) -> DataFrame:
    """Folders with direct children in storage, old enough, that the store has no entry for."""
    edge = F.least(F.col("s_from") - F.col("s_margin"), F.col("m_from") - F.col("m_margin"))
    old = F.col("s_modified_at") + F.col("o_grace") <= edge
    lacking = (F.col("m_state") == "none") & F.col("m_honoured") & ~F.col("key").rlike(NOT_HADOOP) & old
    folders = stored.filter(lacking).select("bucket", _parent(F.col("key")).alias("key")).distinct()
    return folders.withColumn("unentered", F.lit(True))


def _parent(key: Column) -> Column:
    return F.regexp_replace(key, r"/?[^/]*$", "")


def _etag_habit(every: DataFrame) -> DataFrame:
    """Whether most live file entries of a store have an ETag; one row per source."""
    live_files = every.filter(
        F.col("reject").isNull() & ~F.col("tombstone") & ~F.col("is_dir") & ~F.col("expired")
    )
    share = F.avg(F.col("etag").isNotNull().cast("int"))
    return F.broadcast(live_files.groupBy("source").agg((share > 0.5).alias("mostly_etags")))


def _field_absent(metastores: Sequence[Entries]) -> Column:
    timed = [store.info.id for store in metastores if store.ttl is not None]
    lacks_basics = F.col("size").isNull() | (F.col("mod_time").isNull() & F.col("last_updated").isNull())
    lacks_update = F.col("source").isin(timed) & ~F.col("last_updated_given")
    return lacks_basics | lacks_update | (F.coalesce("mostly_etags", F.lit(False)) & F.col("etag").isNull())


def _edges(spark: SparkSession, metastores: Sequence[Entries], holed: set[str]) -> DataFrame:
    rows = [
        (s.info.id, s.info.cut.start - s.info.cut.margin, s.info.id in holed)
        for s in metastores
        if s.info.cut
    ]
    return small(spark, rows, "source string, tree_edge timestamp, h_metastore boolean")
