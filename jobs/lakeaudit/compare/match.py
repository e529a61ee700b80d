"""Match: bring what all sources say of one (bucket, key) together into PAIR rows. Nothing is judged here.

Each side comes with at most one row per key; presence is a marker column, never a null that is taken for absence.
References are matched over all tables of the lake, whichever are in scope.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakeaudit import keys
from lakeaudit.config import STATE_KINDS, Metastore
from lakeaudit.evidence.protocol import Claims, Cut, Entries, SourceInfo, Stored
from lakeaudit.keys import Location
from lakeaudit.longest_prefix_match import attach_label
from lakeaudit.pipeline.dataframes import small
from lakeaudit.schemas import CLAIM, ENTRY, PAIR, STORED, conform

KEY = ["bucket", "key"]


@dataclass(frozen=True)
class Evidence:
    """All observations of a run. `metastore_sources` are the lake-file entries behind `metastores`, by source id."""

    claims: Sequence[Claims]
    storage: Sequence[Stored]
    metastores: Sequence[Entries]
    metastore_sources: Mapping[str, Metastore]


def pairs(
    spark: SparkSession, evidence: Evidence, tables: DataFrame, roots: Mapping[Location, str]
) -> DataFrame:
    """PAIR rows of everything that any source names, with every hole column still false."""
    claimed = _claimed(spark, evidence.claims, tables, roots)
    objects = _stored(spark, evidence.storage).join(_entered(spark, evidence.metastores), KEY, "full")
    joined = claimed.join(objects, KEY, "full")
    joined = attach_label(joined, roots, "owner")
    joined = _with_storage_cut(joined, evidence.storage)
    joined = _with_metastore_cut(joined, evidence)
    joined = _with_tables(joined, tables)
    return conform(_named(joined), PAIR)


def _claimed(
    spark: SparkSession, claims: Sequence[Claims], tables: DataFrame, roots: Mapping[Location, str]
) -> DataFrame:
    """One row per (table, bucket, key) that a manifest claims, with the references of all tables beside it."""
    frames = [conform(read.frame, CLAIM) for read in claims]
    every = union_all(frames, spark, CLAIM)
    stateful = F.broadcast(tables.select(F.col("name").alias("table_name"), "stateful", "shares"))
    every = every.join(stateful, "table_name")
    # what says once what was written is checked against what says what the table is
    event = ~F.col("manifest_kind").isin(*STATE_KINDS) & F.col("stateful")
    # asked of the kinds, not of how many readers answered: a log may have been unreadable altogether
    beside = any(read.info.kind not in STATE_KINDS for read in claims)
    side_by_side = _beside(every.filter(~event), every.filter(event)) if beside else _alone(every)
    return _with_references(attach_label(side_by_side, roots, "__owner"))


_CLAIM_COLUMNS = (
    *("state", "certain", "size", "etag", "version_id", "checksum", "records", "claimed_at", "removed_at"),
    *("explained", "listed", "commit_id", "table_version"),
)
_SHARED_COLUMNS = ("category", "partition_path", "shares")


def _alone(claims: DataFrame) -> DataFrame:
    renamed = [F.col(name).alias(f"c_{name}") for name in _CLAIM_COLUMNS]
    return claims.select(
        "table_name",
        *KEY,
        *_SHARED_COLUMNS,
        *renamed,
        F.col("manifest_kind").alias("c_kind"),
        F.col("own_root").alias("c_own_root"),
        F.lit(None).cast("string").alias("e_state"),
        F.lit(None).cast("timestamp").alias("e_claimed_at"),
    )


def _beside(state: DataFrame, event: DataFrame) -> DataFrame:
    """State claims with what event manifests of the same table say; the writer's ETag and checksum fill gaps."""
    told = event.select(
        "table_name", *KEY, *(F.col(name).alias(f"x_{name}") for name in (*_CLAIM_COLUMNS, *_SHARED_COLUMNS))
    )
    joined = _alone(state).drop("e_state", "e_claimed_at").join(told, ["table_name", *KEY], "full")
    live = F.col("x_state") == "live"
    gaps = ("etag", "version_id", "checksum", "records")
    for name in gaps:
        joined = joined.withColumn(f"c_{name}", F.coalesce(f"c_{name}", F.when(live, F.col(f"x_{name}"))))
    for name in _SHARED_COLUMNS:
        joined = joined.withColumn(name, F.coalesce(name, f"x_{name}"))
    joined = joined.withColumn("c_size", F.coalesce("c_size", F.when(live, F.col("x_size"))))
    named = joined.withColumnsRenamed({"x_state": "e_state", "x_claimed_at": "e_claimed_at"})
    return named.drop(*[column for column in named.columns if column.startswith("x_")])


def _with_references(claims: DataFrame) -> DataFrame:
    """Who else lists the key: references over all tables, conflicts, and which row stands for the object."""
    same_key = Window.partitionBy(*KEY)
    own_live = F.coalesce(F.col("c_own_root") & (F.col("c_state") == "live"), F.lit(False))
    claims = claims.withColumn("__own", F.collect_set(F.when(own_live, F.col("table_name"))).over(same_key))
    stranger = F.exists(
        "__own", lambda name: (name != F.col("table_name")) & ~F.array_contains(F.col("shares"), name)
    )
    speaker = F.when(F.array_contains("__own", F.col("__owner")), F.col("__owner")).otherwise(
        F.array_min("__own")
    )
    gone = F.coalesce(F.col("c_state") == "gone", F.lit(False))
    state = F.coalesce(F.col("c_state"), F.lit("none"))
    return claims.select(
        "*",
        F.max(state == "live").over(same_key).alias("r_live"),
        F.max(state == "history").over(same_key).alias("r_history"),
        F.max(gone).over(same_key).alias("r_gone"),
        F.max(F.when(gone, F.col("c_removed_at"))).over(same_key).alias("r_removed_at"),
        (own_live & stranger & (F.col("table_name") == speaker)).alias("r_conflict"),
        (F.row_number().over(same_key.orderBy("table_name")) == 1).alias("first"),
    ).drop("__own", "__owner", "shares")


def deciding_places(storage: Sequence[Stored]) -> dict[Location, str]:
    """For every covered place the source that decides presence there: the youngest cut that covers it."""
    covered = {place for source in storage for place in source.covers}
    return {place: _youngest(place, storage).info.id for place in covered}


def _youngest(place: Location, storage: Sequence[Stored]) -> Stored:
    covering = [s for s in storage if any(c == place or c.holds(place.bucket, place.key) for c in s.covers)]
    return max(covering, key=lambda source: _cut(source).start)


def _cut(source: Stored) -> Cut:
    if source.info.cut is None:
        raise ValueError(f"a storage source without a cut: {source.info.id}")
    return source.info.cut


_STORED_COLUMNS = tuple(
    field.name for field in STORED if field.name not in ("bucket", "key", "reject", "source")
)


def _stored(spark: SparkSession, storage: Sequence[Stored]) -> DataFrame:
    """The deciding source's row of each key."""
    every = union_all([conform(source.frame, STORED) for source in storage], spark, STORED)
    labelled = attach_label(every, deciding_places(storage), "__decides")
    renamed = [F.col(name).alias(f"s_{name}") for name in _STORED_COLUMNS]
    return labelled.filter(F.col("__decides") == F.col("source")).select(
        *KEY, F.lit(True).alias("s_row"), *renamed
    )


def _entered(spark: SparkSession, metastores: Sequence[Entries]) -> DataFrame:
    every = union_all([conform(store.frame, ENTRY) for store in metastores], spark, ENTRY)
    labelled = _scoped(every, metastores, "__scope").filter(F.col("__scope") == F.col("source"))
    state = F.when(F.col("tombstone"), "tombstone").when(F.col("is_dir"), "dir").otherwise("file")
    wanted = ("expired", "honoured", "size", "etag", "version_id", "mod_time", "last_updated")
    renamed = [F.col(name).alias(f"m_{name}") for name in wanted]
    return labelled.select(*KEY, F.lit(True).alias("m_row"), state.alias("m_state"), *renamed)


def _scoped(frame: DataFrame, metastores: Sequence[Entries], column: str) -> DataFrame:
    """Label rows with the metastore that answers for them: the longest scope, else one that holds every bucket."""
    places = {place: store.info.id for store in metastores for place in store.scope}
    everywhere = next((store.info.id for store in metastores if not store.scope), None)
    labelled = attach_label(frame, places, column)
    return labelled.withColumn(column, F.coalesce(F.col(column), F.lit(everywhere).cast("string")))


def _with_storage_cut(joined: DataFrame, storage: Sequence[Stored]) -> DataFrame:
    labelled = attach_label(joined, deciding_places(storage), "s_source")
    missing = F.when(F.col("s_source").isNotNull(), "absent").otherwise("uncovered")
    present = F.when(F.col("s_row"), F.col("s_presence")).otherwise(missing)
    cuts = _cut_frame(joined.sparkSession, [source.info for source in storage], "s")
    return labelled.withColumn("s_presence", present).join(F.broadcast(cuts), "s_source", "left")


def _with_metastore_cut(joined: DataFrame, evidence: Evidence) -> DataFrame:
    labelled = _scoped(joined, evidence.metastores, "m_source")
    missing = F.when(F.col("m_source").isNotNull(), "none").otherwise("unscoped")
    state = F.when(F.col("m_row"), F.col("m_state")).otherwise(missing)
    cuts = _cut_frame(joined.sparkSession, [store.info for store in evidence.metastores], "m").drop("m_to")
    named = labelled.withColumn("m_state", state).join(F.broadcast(cuts), "m_source", "left")
    trusted = _trusted(named, evidence.metastore_sources)
    return trusted.withColumn("m_honoured", F.coalesce(F.col("m_honoured"), F.col("__trusted"), F.lit(False)))


def _trusted(frame: DataFrame, sources: Mapping[str, Metastore]) -> DataFrame:
    """Whether readers trust the store alone at a key that has no entry."""
    prefixes = {
        p: "yes" for s in sources.values() if not isinstance(s.authoritative, str) for p in s.authoritative
    }
    whole = [id_ for id_, source in sources.items() if source.authoritative == "all"]
    by_store = F.col("m_source").isin(*whole) if whole else F.lit(False)
    labelled = attach_label(frame, prefixes, "__honoured")
    trusted = F.coalesce(by_store, F.lit(False)) | F.col("__honoured").isNotNull()
    return labelled.withColumn("__trusted", trusted).drop("__honoured")


def _cut_frame(spark: SparkSession, infos: Sequence[SourceInfo], side: str) -> DataFrame:
    schema = f"{side}_source string, {side}_from timestamp, {side}_to timestamp, {side}_margin interval day to second"
    rows = [(info.id, info.cut.start, info.cut.end, info.cut.margin) for info in infos if info.cut]
    return small(spark, rows, schema)


def _with_tables(joined: DataFrame, tables: DataFrame) -> DataFrame:
    """Settings and states of the claiming table (t_) and of the owner (o_)."""
    claiming = tables.select("name", "grace", "read_at", "horizon", "holed")
    owning = tables.drop("stateful", "read_at", "holed", "shares")
    of_claim = claiming.select([F.col(name).alias(f"t_{name}") for name in claiming.columns])
    of_owner = owning.select([F.col(name).alias(f"o_{name}") for name in owning.columns])
    joined = joined.join(F.broadcast(of_claim), F.col("table_name") == F.col("t_name"), "left")
    return joined.join(F.broadcast(of_owner), F.col("owner") == F.col("o_name"), "left")


def _named(joined: DataFrame) -> DataFrame:
    """Columns that follow from the key and its owner, and every flag made true or false."""
    relative = F.expr("substring(key, cast(o_root_length as int) + 1)")
    folder = partition_folder(F.col("relative"))
    false = ["r_live", "r_history", "r_gone", "r_conflict", "o_manifest", "o_complete", "o_logged", "t_holed"]
    joined = joined.withColumn("relative", F.coalesce(relative, F.col("key")))
    return joined.withColumns(
        {name: F.coalesce(F.col(name), F.lit(False)) for name in false}
        | {
            "first": F.coalesce(F.col("first"), F.lit(True)),
            "category": F.coalesce(F.col("category"), category_by_name(F.col("relative"))),
            "partition_path": F.coalesce(F.col("partition_path"), folder),
            "m_expired": F.coalesce(F.col("m_expired"), F.lit(False)),
            "l_confirmation": F.lit("none"),
        }
        | {name: F.lit(False) for name in ("h_storage", "h_references", "h_metastore", "v_assumed")}
    )


def partition_folder(relative: Column) -> Column:
    """The leading `x=y` folders of a key below its table, unescaped: its partition where no manifest says one."""
    folder = F.rtrim(F.regexp_extract(relative, r"^((?:[^/=]+=[^/]*/)*)", 1), F.lit("/"))
    return F.coalesce(F.try_url_decode(F.replace(folder, F.lit("+"), F.lit("%2B"))), folder)


def category_by_name(relative: Column) -> Column:
    """What an unclaimed object is, by its name alone."""
    return (
        F.when(relative.rlike(keys.MARKER), "marker")
        .when(relative.rlike(keys.TEMPORARY), "temporary")
        .when(relative.rlike(r"^_delta_log/"), "log")
        .when(relative.rlike(r"^_change_data/"), "changes")
        .when(relative.rlike(r"(^|/)deletion_vector_[0-9a-f-]+\.bin$"), "deletes")
        .when(relative.rlike(keys.HIDDEN), "other")
        .otherwise("data")
    )


def union_all(frames: Sequence[DataFrame], spark: SparkSession, schema: StructType | str) -> DataFrame:
    """All frames one below the other; an empty frame of `schema` when there are none."""
    if not frames:
        return small(spark, [], schema)
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    return together
