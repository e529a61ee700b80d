"""Events of many logs, folded into claims: one row per table and key. No Spark action happens here.

A file is listed by a state while at least one of its (path, deletion vector) pairs is: the pairs are replayed each in
its own right, and their number over the versions says when the file came, went and came back. An update of a deletion
vector removes one pair and adds another in one commit, and so leaves no gap. A deletion vector's file is listed while
any pair that points into it is.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakeaudit.evidence.manifest.delta_actions import time_of
from lakeaudit.evidence.manifest.delta_meta import NULL_PARTITION
from lakeaudit.schemas import CLAIM, conform

_FILE = ("table_name", "bucket", "key")
_CHANGES = "changes"


def claims(events: DataFrame, tables: DataFrame, source: str, *, holed: bool) -> DataFrame:
    """CLAIM rows from EVENT rows and TABLE rows; tables that are not in `tables` are left out.

    `holed` says that some table has a hole, which costs one more look at every file.
    """
    steps = steps_of(events, tables).repartition(*_FILE)  # the one shuffle: all below is within a file
    counted = _counted(_pairs(_beyond_holes(steps) if holed else steps))
    return conform(_claim(_files(counted).join(F.broadcast(tables), "table_name"), source), CLAIM)


def newest(events: DataFrame, tables: DataFrame) -> DataFrame:
    """What the newest of these commits make of each file they touch: table_name, bucket, key, state."""
    steps = steps_of(events, tables).repartition(*_FILE)
    by_version = steps.groupBy(*_FILE, "version").agg(
        F.bool_or("added").alias("live"), F.max("removed_at").alias("removed_at")
    )
    last = by_version.groupBy(*_FILE).agg(
        F.max_by("live", "version").alias("live"), F.max("removed_at").alias("removed_at")
    )
    known = last.join(F.broadcast(tables), "table_name")
    return known.select(*_FILE, _state(F.col("live")).alias("state"))


def steps_of(events: DataFrame, tables: DataFrame) -> DataFrame:
    """One row per file touched by an action: the data or change file itself, and its deletion vector's file.

    `pair` is what the action is about within the file; `added` says that the action lists it.
    """
    return _steps(_placed(events, tables))


def _placed(events: DataFrame, tables: DataFrame) -> DataFrame:
    """File actions with what their table's metadata says of them: time and partition path."""
    known = tables.select("table_name", "in_commit_times_from", "columns", "hole")
    joined = events.filter(F.col("kind").isin("add", "remove", "cdc")).join(F.broadcast(known), "table_name")
    timed = (F.col("version") >= F.col("in_commit_times_from")) & ~F.col("checkpoint")
    in_commit = F.when(timed, time_of(F.col("in_commit_ms")))
    return joined.withColumns(
        {"time": F.coalesce(in_commit, "time"), "partition_path": _partition_path(F.col("partition"))}
    )


def _partition_path(values: Column) -> Column:
    """`col=value/col=value` in the table's order; Delta writes a null as null or as the empty string."""
    given = F.filter("columns", lambda column: F.map_contains_key(values, column["physical"]))

    def part(column: Column) -> Column:
        value = F.try_element_at(values, column["physical"])
        return F.concat(
            column["logical"], F.lit("="), F.coalesce(F.nullif(value, F.lit("")), F.lit(NULL_PARTITION))
        )

    return F.when(values.isNotNull(), F.array_join(F.transform(given, part), "/"))


def _steps(placed: DataFrame) -> DataFrame:
    is_change = F.col("kind") == "cdc"
    removed = F.when(F.col("kind") == "remove", F.coalesce("deleted_at", "time")).when(
        is_change, F.col("time")
    )
    moved = placed.withColumns({"added": F.col("kind") == "add", "removed_at": removed})
    shared = ("table_name", "version", "checkpoint", "hole", "time", "added", "removed_at")
    itself = moved.filter(F.col("place.key").isNotNull()).select(
        *shared, "place.bucket", "place.key", F.when(is_change, _CHANGES).otherwise(F.col("vector")).alias("pair"),
        "size", "records", "partition_path", F.when(is_change, _CHANGES).otherwise("data").alias("category"),
    )  # fmt: skip
    vectors = moved.filter(F.col("vector_place.key").isNotNull()).select(
        *shared, "vector_place.bucket", "vector_place.key",
        F.concat_ws("\n", "place.bucket", "place.key", "vector").alias("pair"),
        F.lit(None).cast("bigint").alias("size"), F.lit(None).cast("bigint").alias("records"),
        F.lit("").alias("partition_path"), F.lit("deletes").alias("category"),
    )  # fmt: skip
    return itself.unionByName(vectors)


def _pairs(steps: DataFrame) -> DataFrame:
    """One row per file, pair and version. In one commit an add wins over a remove; in a checkpoint adds may repeat."""
    adds = F.count(F.when(F.col("added"), 1))
    merged = steps.groupBy(*_FILE, "pair", "version").agg(
        F.bool_or("added").alias("listed"),
        F.when(F.bool_or("checkpoint"), adds).otherwise(F.least(adds, F.lit(1))).alias("copies"),
        F.max("time").alias("time"),
        F.max(F.when(~F.col("added"), F.col("removed_at"))).alias("removed_at"),
        F.max("hole").alias("hole"),
        *[_latest(name, "added").alias(name) for name in ("size", "records", "partition_path")],
        F.max_by("category", F.col("category") != _CHANGES).alias("category"),
    )
    by_pair = Window.partitionBy(*_FILE, "pair").orderBy("version")
    before = F.coalesce(F.lag("listed").over(by_pair), F.lit(False))
    return merged.withColumns(
        {
            "change": F.col("listed").cast("int") - before.cast("int"),
            "live_copies": F.when(F.lead("version").over(by_pair).isNull(), F.col("copies")).otherwise(0),
        }
    ).withColumn("sure_copies", F.when(F.col("version") >= F.col("hole"), F.col("live_copies")).otherwise(0))


def _beyond_holes(steps: DataFrame) -> DataFrame:
    """Where versions are unknown, what a data file's pair was before them tells nothing once it is named after them.

    A state has one pair of a data file. A deletion vector's file may have many, so all of its pairs are kept.
    """
    last = F.max("version").over(Window.partitionBy(*_FILE))
    after = (F.col("version") >= F.col("hole")) | (F.col("last") < F.col("hole"))
    return steps.withColumn("last", last).filter(after | (F.col("category") == "deletes")).drop("last")


def _latest(name: str, *order: str) -> Column:
    """The newest value that is given."""
    return F.max_by(name, F.when(F.col(name).isNotNull(), F.struct(*order)))


def _counted(pairs: DataFrame) -> DataFrame:
    """One row per file and version: how many pairs list it from then on, and whether a new stretch begins there."""
    by_version = pairs.groupBy(*_FILE, "version").agg(
        F.sum("change").alias("change"),
        F.sum("live_copies").alias("live_copies"),
        F.sum("sure_copies").alias("sure_copies"),
        F.max("time").alias("time"),
        F.max("removed_at").alias("removed_at"),
        *[_latest(name, "listed").alias(name) for name in ("size", "records", "partition_path")],
        F.max_by("category", F.col("category") != _CHANGES).alias("category"),
    )
    ordered = Window.partitionBy(*_FILE).orderBy("version")
    listing = F.sum("change").over(ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    known = by_version.withColumn("listing", listing)
    before = F.coalesce(F.lag("listing").over(ordered), F.lit(0))
    return known.withColumn("begins", (F.col("listing") > 0) & (before == 0))


def _files(counted: DataFrame) -> DataFrame:
    """One row per file: where it stands at the end."""
    started = F.when(F.col("begins"), F.col("version"))
    return counted.groupBy(*_FILE).agg(
        F.max_by("listing", "version").alias("listing"),
        F.sum("live_copies").alias("listed"),
        F.sum("sure_copies").alias("surely_listed"),
        F.max(started).alias("since"),
        F.max_by("time", started).alias("since_time"),
        F.min("time").alias("first_time"),
        F.max("version").alias("last"),
        F.max("removed_at").alias("removed_at"),
        *[_latest(name, "version").alias(name) for name in ("size", "records", "partition_path")],
        F.max_by("category", F.col("category") != _CHANGES).alias("category"),
    )


def _claim(files: DataFrame, source: str) -> DataFrame:
    live = F.col("listing") > 0
    category = F.col("category")
    vacuumed = F.exists(
        "vacuums", lambda run: (run["version"] > F.col("last")) & (F.col("removed_at") <= run["cutoff"])
    )
    own = (F.col("bucket") == F.col("root_bucket")) & F.col("key").startswith(F.col("root_prefix"))
    first = F.when(category == _CHANGES, F.col("first_time")).otherwise(F.col("horizon"))
    return files.withColumns(
        {
            "source": F.lit(source),
            "manifest_kind": F.lit("delta"),
            "state": _state(live),
            "certain": (category == _CHANGES) | _certain(live),
            "partition_path": F.coalesce("partition_path", F.lit("")),
            "etag": F.lit(None),
            "version_id": F.lit(None),
            "checksum": F.lit(None),
            "claimed_at": F.coalesce("since_time", first),
            "explained": ~live & F.coalesce(vacuumed, F.lit(False)),
            "listed": F.when(category == "data", F.col("listed")).otherwise(live.cast("int")),
            "own_root": own,
            "commit_id": F.when(F.col("since") != F.col("base"), F.col("since").cast("string")),
            "table_version": F.col("version"),
        }
    ).withColumn("removed_at", F.when(F.col("state") != "live", F.col("removed_at")))


def _state(live: Column) -> Column:
    promised = F.col("removed_at") + F.col("retention") > F.col("read_at")
    return F.when(live, "live").when(promised, "history").otherwise("gone")


def _certain(live: Column) -> Column:
    """Whether no unknown version can have changed it. Of a deletion vector's file a hole may hide another pair."""
    hole = F.col("hole")
    gone = (F.col("last") > hole) & ((F.col("category") == "data") | (hole < 0))
    return F.when(live, F.col("surely_listed") > 0).otherwise(gone)
