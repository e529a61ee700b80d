"""Event manifests fold: from what was written, removed and replaced, in order, to what a table's files are.

Pure: DataFrame in, DataFrame out. An event is ordered by its time, then its list, then its line.

* An `add` claims its path; a later write of the path retires the earlier claim.
* A `remove` retires its path.
* A `replace` retires every earlier claim under its scope (a path boundary) and claims its own path, if it has one.
  The replace rows of one list with one time and one scope are one act: they do not retire each other.
* A row that could not be understood (`fault`) casts doubt on everything before it: on its own path where that is
  known, else on the whole table, since it may have removed, replaced or rewritten any file.
"""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

EVENT = {
    "table_name": "string",
    "list_no": "long",  # order of the list among all lists, by name
    "line": "long",
    "at": "timestamp",  # committed_at, else the list's own time; never null
    "action": "string",  # add | remove | replace; null with a fault
    "bucket": "string",
    "key": "string",  # null: the row claims no path
    "scope_bucket": "string",  # what a replace row empties
    "scope_key": "string",
    "partition_path": "string",
    "own_root": "boolean",
    "size": "long",
    "etag": "string",
    "version_id": "string",
    "checksum": "string",
    "records": "long",
    "commit_id": "string",
    "fault": "string",  # why the row cannot be understood
    "unread": "boolean",  # the fault is of the list as a whole
}
"""One row of a list."""

KEY = ["table_name", "bucket", "key"]
_TOLD = ("partition_path", "own_root", "size", "etag", "version_id", "checksum", "records", "commit_id")


def fold(events: DataFrame, scope_depths: Collection[int]) -> DataFrame:
    """The newest state of every path that EVENT rows name: the columns of schemas.CLAIM but source and manifest_kind.

    `scope_depths` are the numbers of path parts that scopes of replace rows have, see `scope_depth`. Live paths are
    `live`, retired ones `gone` at the time of the event that retired them.
    """
    ordered = events.withColumn("order", F.struct("at", "list_no", "line")).withColumn(
        "sound", F.col("fault").isNull()
    )
    paths = _last_writes(ordered.filter(F.col("key").isNotNull()))
    for depth in sorted(set(scope_depths)):
        paths = _retired_by_scope(paths, _replace_acts(ordered), depth)
    return _claims(_doubted(paths, ordered))


def scope_depth() -> Column:
    """How many path parts the scope of a replace row has; null for other rows."""
    parts = F.length("scope_key") - F.length(F.replace("scope_key", F.lit("/"))) + 1
    return F.when(F.col("scope_key") == "", F.lit(0)).otherwise(parts)


def _last_writes(paths: DataFrame) -> DataFrame:
    """Per path: the order of its last write, what that write told, and the order of the first removal after it."""
    written = F.col("sound") & F.col("action").isin("add", "replace")
    last = F.max(F.when(written, F.col("order"))).over(Window.partitionBy(*KEY))
    later = (
        F.col("sound")
        & (F.col("action") == "remove")
        & F.coalesce(F.col("order") > F.col("added"), F.lit(True))
    )
    return (
        paths.withColumn("added", last)
        .groupBy(*KEY)
        .agg(
            F.max("added").alias("added"),
            F.max(F.when(F.col("order") == F.col("added"), F.struct("order", *_TOLD))).alias("told"),
            F.min(F.when(later, F.struct("order", *_TOLD))).alias("removal"),
            F.max(F.when(~F.col("sound"), F.col("order"))).alias("doubt"),
        )
        .withColumn("removed", F.col("removal.order"))
    )


def _replace_acts(ordered: DataFrame) -> DataFrame:
    """Per scope the orders of all acts that replaced it, sorted, in chunks: a look-up then costs their square root."""
    scope = ["table_name", "scope_bucket", "scope_key"]
    rows = ordered.filter(F.col("sound") & (F.col("action") == "replace"))
    acts = rows.groupBy(*scope, "list_no", "at").agg(F.min("order").alias("order"))
    sorted_acts = acts.groupBy(*scope).agg(F.sort_array(F.collect_list("order")).alias("acts"))
    width = F.ceil(F.sqrt(F.size("acts"))).cast("int")
    starts = F.sequence(F.lit(1), F.size("acts"), width)
    return sorted_acts.select(
        *scope, F.transform(starts, lambda at: F.slice("acts", at, width)).alias("chunks")
    )


def _first_after(order: Column) -> Column:
    """The first act after an event; null where there is none."""
    chunk = F.get(F.filter("chunks", lambda acts: F.element_at(acts, -1) > order), F.lit(0))
    return F.array_min(F.filter(chunk, lambda act: act > order))


def _retired_by_scope(paths: DataFrame, acts: DataFrame, depth: int) -> DataFrame:
    """Let replace acts whose scope has `depth` parts retire what was written before them below it."""
    at_depth = acts.filter(scope_depth() == depth).withColumnRenamed("table_name", "scope_table")
    folder = F.substring_index("key", "/", depth) if depth else F.lit("")
    below = F.length("key") > F.length("scope_key") if depth else F.lit(True)
    same = (F.col("table_name") == F.col("scope_table")) & (F.col("bucket") == F.col("scope_bucket"))
    joined = paths.join(F.broadcast(at_depth), same & (folder == F.col("scope_key")) & below, "left")
    kept = joined.withColumn("removed", F.least("removed", _first_after(F.col("added"))))
    return kept.drop("scope_table", "scope_bucket", "scope_key", "chunks")


def _doubted(paths: DataFrame, ordered: DataFrame) -> DataFrame:
    """Widen each path's doubt by the table's: the last row that nobody could tie to a path."""
    lost = ordered.filter(~F.col("sound") & F.col("key").isNull())
    by_table = lost.groupBy("table_name").agg(F.max("order").alias("table_doubt"))
    joined = paths.join(F.broadcast(by_table), "table_name", "left")
    return joined.withColumn("doubt", F.greatest("doubt", "table_doubt"))


def _claims(paths: DataFrame) -> DataFrame:
    named = paths.filter(F.col("added").isNotNull() | F.col("removed").isNotNull())
    gone = F.col("removed").isNotNull()
    settled = F.coalesce("removed", "added")
    return named.withColumn("told", F.coalesce("told", "removal")).select(
        *KEY,
        F.when(gone, F.lit("gone")).otherwise(F.lit("live")).alias("state"),
        F.coalesce(F.col("doubt") < settled, F.lit(True)).alias("certain"),
        F.lit("data").alias("category"),
        *(F.col(f"told.{name}").alias(name) for name in _TOLD),
        F.col("added.at").alias("claimed_at"),
        F.col("removed.at").alias("removed_at"),
        F.lit(False).alias("explained"),
        F.when(gone, F.lit(0)).otherwise(F.lit(1)).alias("listed"),
        F.lit(None).cast("long").alias("table_version"),
    )
