"""Findings: verdict rows with outcome `finding` become rows of the contract's `findings` and `leftover_files`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare import rules
from lakeaudit.compare.leftovers import group_place
from lakeaudit.pipeline.dataframes import small
from lakeaudit.schemas import FINDINGS, LEFTOVER_FILES, conform


@dataclass(frozen=True)
class Stamp:
    """What every row of one run bears."""

    run_id: str
    lake: str
    as_of: datetime


def file_findings(rows: DataFrame, stamp: Stamp) -> DataFrame:
    """FINDINGS about single files, from verdict rows of the content, metastore and duplicate axes."""
    named = rows.withColumns(
        {
            "table_name": F.col("judged_table"),
            "subject_type": F.lit("file"),
            "subject": uri("bucket", "key"),
            "files": F.lit(1),
            "rows_at_stake": F.col("c_records"),
            "bytes_at_stake": F.coalesce("c_size", "s_size", "m_size"),
            "table_version": F.col("c_table_version"),
            "commit_id": F.col("c_commit_id"),
            "manifest_kind": F.col("c_kind"),
            "manifest_time": F.coalesce("c_claimed_at", "e_claimed_at"),
            "metastore_time": F.coalesce("m_last_updated", "m_mod_time"),
            "storage_time": F.col("s_modified_at"),
            "storage_class": F.col("s_storage_class"),
            "confirmation": _confirmation(),
            "explanation": _explanation(),
        }
        | {f"manifest_{name}": F.col(f"c_{name}") for name in ("size", "etag", "version_id")}
        | {f"metastore_{name}": F.col(f"m_{name}") for name in ("size", "etag", "version_id")}
        | {f"storage_{name}": F.col(f"s_{name}") for name in ("size", "etag", "version_id")}
        | _recovery()
    )
    return finished(named, stamp)


def tree_findings(rows: DataFrame, stamp: Stamp) -> DataFrame:
    """FINDINGS about entries of a metadata store, and once about each parent that is at fault."""
    slash = F.when(F.col("is_dir"), "/").otherwise("")
    entry = rows.withColumns(
        {
            "subject_type": F.when(F.col("is_dir"), "prefix").otherwise("file"),
            "key": F.concat("key", slash),
            "metastore_size": F.col("size"),
            "metastore_etag": F.col("etag"),
            "metastore_time": F.col("touched_at"),
            "explanation": _because(),
        }
    )
    of_parent = (
        "metastore_tree.parent_missing",
        "metastore_tree.parent_tombstone",
        "metastore_tree.parent_file",
    )
    told = {
        of_parent[0]: "has no entry",
        of_parent[1]: "is a tombstone",
        of_parent[2]: "is entered as a file",
    }
    fault = F.coalesce(*[F.when(F.col("rule") == rule, F.lit(words)) for rule, words in told.items()])
    parents = rows.filter(F.col("rule").isin(*of_parent)).select(
        "axis", "kind", "severity", "judged_table", "bucket", F.concat("parent", F.lit("/")).alias("key"),
        F.lit("prefix").alias("subject_type"),
        F.concat(F.lit("this folder "), fault, F.lit(" and live entries lie below it")).alias("explanation"),
    ).distinct()  # fmt: skip
    both = entry.unionByName(parents, allowMissingColumns=True)
    named = both.withColumns(
        {"table_name": F.col("judged_table"), "subject": uri("bucket", "key"), "files": F.lit(1),
         "confirmation": F.lit("not_needed"), "recoverable": F.lit("unknown")}
    )  # fmt: skip
    return finished(named, stamp)


def leftover_files(rows: DataFrame, stamp: Stamp) -> DataFrame:
    """LEFTOVER_FILES from leftover verdict rows, each with the discrepancy it belongs to."""
    in_partition = F.col("partition_path") != ""
    place = group_place(F.col("relative"), F.col("partition_path"))
    grouped = rows.withColumns(
        {
            "table_name": F.col("judged_table"),
            "subject_type": F.when(in_partition, "partition").otherwise("prefix"),
            "place": place,
            "subject": F.concat(
                F.when(in_partition, F.col("partition_path")).otherwise(uri("bucket", "place")),
                F.lit("#"),
                "kind",
            ),
            "size": F.col("s_size"),
            "etag": F.col("s_etag"),
            "version_id": F.col("s_version_id"),
            "modified_at": F.col("s_modified_at"),
        }
    )
    return _stamped(grouped, stamp)


def leftover_findings(files: DataFrame, stamp: Stamp) -> DataFrame:
    """One finding per (table, partition or prefix, kind) with its files and bytes, from `leftover_files` rows."""
    by = ["table_name", "axis", "kind", "severity", "subject_type", "subject", "partition_path", "bucket"]
    groups = files.groupBy(*by).agg(
        F.first("place").alias("place"),
        F.count(F.lit(1)).alias("files"),
        F.sum("size").alias("bytes_at_stake"),
        F.min("modified_at").alias("storage_time"),
        F.max("category").alias("category"),
        F.max("rule").alias("rule"),
    )
    counted = F.concat(F.col("files").cast("string"), F.lit(" files; "), _because())
    named = groups.withColumns(
        {
            "key": F.when(F.col("subject_type") == "prefix", F.col("place")),
            "confirmation": F.lit("not_needed"),
            "explanation": counted,
        }
    )
    return finished(named, stamp)


def finished(rows: DataFrame, stamp: Stamp) -> DataFrame:
    """Exactly the columns of FINDINGS, those not given null."""
    stamped = _stamped(rows, stamp).withColumn("as_of_date", F.lit(stamp.as_of.date()))
    missing = [field.name for field in FINDINGS if field.name not in stamped.columns]
    return conform(stamped.withColumns({name: F.lit(None) for name in missing}), FINDINGS)


def as_leftover_rows(files: DataFrame) -> DataFrame:
    """Exactly the columns of LEFTOVER_FILES."""
    return conform(files, LEFTOVER_FILES)


def from_plain(spark_rows: Sequence[dict[str, object]], like: DataFrame, stamp: Stamp) -> DataFrame:
    """FINDINGS from a few rows made on the driver: sources, logs, tables."""
    names = sorted({"table_name"}.union(*spark_rows))
    types = {field.name: field.dataType.simpleString() for field in FINDINGS}
    schema = ", ".join(f"{name} {types[name]}" for name in names)
    frame = small(like.sparkSession, [tuple(row.get(name) for name in names) for row in spark_rows], schema)
    return finished(frame, stamp)


def uri(bucket: str, key: str) -> Column:
    """How a key is shown to people; the twin of `keys.uri_of`."""
    remote = F.concat(F.lit("s3://"), F.col(bucket), F.lit("/"), F.col(key))
    return F.when(F.col(bucket) == "", F.concat(F.lit("/"), F.col(key))).otherwise(remote)


def discrepancy_id() -> Column:
    """digest(lake, table_name, axis, subject_type, subject): the same subject over all runs."""
    parts = [
        F.coalesce(F.col(name), F.lit(""))
        for name in ("lake", "table_name", "axis", "subject_type", "subject")
    ]
    return digest(*parts)


def digest(*parts: Column | str) -> Column:
    """The first half of the SHA-256 of the parts, NUL between them."""
    return F.substring(F.sha2(F.concat_ws("\x00", *parts), 256), 1, 32)


def _stamped(rows: DataFrame, stamp: Stamp) -> DataFrame:
    named = rows.withColumns({"run_id": F.lit(stamp.run_id), "lake": F.lit(stamp.lake)})
    return named.withColumn("discrepancy_id", discrepancy_id())


def _because() -> Column:
    """The rule's reason in words."""
    spoken = [(rule.id, rule.because) for rule in rules.RULES.values() if rule.is_finding]
    return F.coalesce(*[F.when(F.col("rule") == id_, F.lit(words)) for id_, words in spoken], F.lit(""))


def _explanation() -> Column:
    """The reason, and the times and sizes it rests on, in one line."""
    return F.concat_ws("; ", _because(), *_details())


def _details() -> list[Column]:
    listed = F.concat(F.lit("listed since "), _time("c_claimed_at"))
    sizes = F.concat(F.lit("recorded "), F.col("c_size").cast("string"), F.lit(" bytes, stored "),
                     F.col("s_size").cast("string"))  # fmt: skip
    return [
        F.when(F.col("c_claimed_at").isNotNull(), listed),
        F.when(F.col("c_size") != F.col("s_size"), sizes),
        F.when(
            F.col("s_modified_at").isNotNull(), F.concat(F.lit("stored object of "), _time("s_modified_at"))
        ),
        F.concat(F.lit("storage as of "), _time("s_from")),
        F.when(F.col("related_key").isNotNull(), F.concat(F.lit("the same bytes as "), F.col("related_key"))),
    ]


def _time(name: str) -> Column:
    return F.date_format(name, "yyyy-MM-dd'T'HH:mm:ss'Z'")


def _confirmation() -> Column:
    needs_none = ~F.col("axis").isin("content", "metastore") | (F.col("kind") == "lost_commit")
    return F.when(needs_none, "not_needed").otherwise(F.col("l_confirmation"))


def _recovery() -> dict[str, Column]:
    """Whether an older version can bring the recorded bytes back."""
    lost = F.col("kind").isin(
        "dropped", "dropped_history", "size_mismatch", "content_mismatch", "overwritten"
    )
    older = F.col("s_older_version_id").isNotNull()
    marker = F.coalesce("s_delete_marker", F.lit(False))
    known = F.coalesce(F.col("versions_known"), F.lit(False))
    yes = F.when(older, "yes").when(known, "no").otherwise("unknown")
    how = F.when(marker, "delete_marker").otherwise("older_version")
    return {
        "recoverable": F.when(lost, yes),
        "recovery": F.when(lost & older, how),
        "recovery_version_id": F.when(lost & older, F.col("s_older_version_id")),
    }
