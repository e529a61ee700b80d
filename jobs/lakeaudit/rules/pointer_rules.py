"""Defines rules about the places that catalogs name: partitions, tables, and folders that no partition contains.

Each table judges its own kind of row (schemas.PARTITION_POINTER, PARTITION_FOLDER, TABLE_POINTER). All verdicts count
on the axis `pointer`.
"""

from collections.abc import Mapping

from lakeaudit.evidence.registry import formats
from lakeaudit.rules.expr import Expr, col, earliest, lit
from lakeaudit.rules.rule import CONSISTENT, NONE, OUT, UNCOVERED, UNDECIDED, Rule, ordered


def _sure(facts: Mapping[str, Expr]) -> dict[str, Expr]:
    return {name: fact.sure() for name, fact in facts.items()}


def _since(time: str) -> Expr:
    """Whether an event is older than the storage snapshot; without a time it counts as old."""
    return ~col(time).is_known() | (col(time) + col("grace") <= col("edge"))


_LOOKED = col("look").is_("live")

PARTITION_FACTS = _sure(
    {
        "partition_filled": col("visible") > lit(0),
        # files of 0 bytes hold none of the rows that the catalog counts
        "partition_hollow": col("content_said") & ~(col("with_content") > lit(0)),
        "partition_covered": col("edge").is_known(),
        "partition_in_window": _since("registered_at"),
        "partition_looked": _LOOKED,
        "partition_filled_now": col("look_there"),
        "partition_storage_holed": col("storage_holed"),
        "partition_counted": col("filled_said"),
        "partition_removed": col("removed") > lit(0),
        "partition_of_counted": col("table_said"),
        "partition_all_empty": col("all_empty"),
    }
)

PARTITIONS = ordered(
    "pointer",
    ("partition_filled", "partition_filled !partition_hollow", CONSISTENT),
    ("partition_uncovered", "!partition_covered", UNCOVERED),
    ("partition_young", "!partition_in_window", OUT),
    ("partition_filled_now", "partition_looked partition_filled_now", CONSISTENT),
    ("partition_hole", "partition_storage_holed !partition_looked", UNDECIDED),
    ("partition_lost", "partition_counted partition_removed", "empty_partition:error",
     "the catalog counts rows or files in the partition, and the visible files there were removed"),
    ("partitions_all_empty", "partition_all_empty", "empty_partition:error",
     "the catalog has the partition, but no partition of the table has a visible file"),
    ("partition_counted", "partition_counted", "empty_partition:warning",
     "the catalog counts rows or files in the partition, but the partition has no visible file"),
    ("partition_of_counted", "partition_of_counted partition_removed", "empty_partition:warning",
     "the catalog counts rows or files in the table, and the visible files of the partition were removed"),
    ("partition_empty", "", "empty_partition",
     "the catalog has the partition, but the partition has no visible file"),
    last="partition_unclassified",
)  # fmt: skip

_LIMIT = earliest(col("edge"), col("catalog_edge"))

FOLDER_FACTS = _sure(
    {
        "folder_named": col("named"),
        "folder_alike": col("alike"),
        "folder_values_registered": col("registered"),
        "folder_values_filled": col("registered_filled"),
        # a long job registers its partition at its end; a folder that waits for days was forgotten
        "folder_settled": (col("newest") + col("grace") <= _LIMIT)
        | (col("oldest") + col("leftover_age") <= _LIMIT),
        "folder_untold": col("untold"),
        "folder_looked": _LOOKED,
        "folder_filled_now": col("look_there"),
    }
)

FOLDERS = ordered(
    "pointer",
    ("folder_of_no_partition", "!folder_named !folder_alike", NONE),
    ("folder_replaced", "folder_values_registered folder_values_filled", CONSISTENT),
    ("folder_young", "!folder_settled", OUT),
    ("folder_untold", "folder_untold", UNDECIDED),
    ("folder_gone", "folder_looked !folder_filled_now", CONSISTENT),
    ("folder_unregistered", "", "unregistered_partition",
     "no registered partition contains the folder, so query engines that use the catalog do not read its files"),
    last="folder_unclassified",
)  # fmt: skip

TABLE_FACTS = _sure(
    {
        "table_left_behind": col("left_behind").is_known(),
        "table_filled": col("objects") > lit(0),
        "table_elsewhere": col("partitions_filled") > lit(0),
        "table_covered": col("edge").is_known(),
        "table_in_window": _since("changed_at"),
        "table_looked": _LOOKED,
        "table_filled_now": col("look_there"),
        "table_storage_holed": col("storage_holed"),
        "table_had_files": col("filled_said") | (col("removed") > lit(0)) | col("format").among(*formats()),
    }
)

TABLE_POINTERS = ordered(
    "pointer",
    ("table_left_behind", "table_left_behind", "stale_pointer",
     "the catalog points at an old version of the table"),
    ("table_filled", "table_filled", CONSISTENT),
    ("table_uncovered", "!table_covered", UNCOVERED),
    ("table_young", "!table_in_window", OUT),
    ("table_filled_now", "table_looked table_filled_now", CONSISTENT),
    ("table_hole", "table_storage_holed !table_looked", UNDECIDED),
    ("table_elsewhere", "table_elsewhere", CONSISTENT),
    ("table_gone", "table_had_files", "stale_pointer",
     "the location in the catalog is empty, although the table had files"),
    ("table_empty", "", "stale_pointer:info",
     "the location in the catalog is empty: the table never had files, or was moved"),
    last="table_unclassified",
)  # fmt: skip

POINTER_TABLES: Mapping[str, tuple[Rule, ...]] = {
    "partitions": PARTITIONS,
    "partition_folders": FOLDERS,
    "table_pointers": TABLE_POINTERS,
}
POINTER_FACTS: Mapping[str, Mapping[str, Expr]] = {
    "partitions": PARTITION_FACTS,
    "partition_folders": FOLDER_FACTS,
    "table_pointers": TABLE_FACTS,
}
