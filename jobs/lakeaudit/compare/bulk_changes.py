"""Mass effects: one table-level finding instead of a row for every file of a table."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare.coverage import Tallies
from lakeaudit.compare.findings import Stamp, from_plain

ENOUGH = 100
"""Below this many files every file keeps its own row."""

MASS_KINDS = ("overwritten", "size_mismatch")


def grouped(found: DataFrame, judged: Tallies, stamp: Stamp) -> DataFrame:
    """FINDINGS with the mass effects of a table folded into one row each.

    A mass effect is more than half of a table, and at least 100 files, rewritten at the same size, or off by one
    constant difference in size.
    """
    effects = [effect for effect in _effects(found) if _is_mass(effect, judged)]
    for effect in effects:
        same = (F.col("table_name") == effect["table_name"]) & (F.col("kind") == effect["kind"])
        found = found.filter(~(same & F.coalesce(_difference() == F.lit(effect["difference"]), F.lit(False))))
    return found.unionByName(from_plain([_row(e) for e in effects], found, stamp)) if effects else found


def _difference() -> Any:
    return F.col("storage_size") - F.col("manifest_size")


def _effects(found: DataFrame) -> list[dict[str, Any]]:
    by = ["table_name", "axis", "kind", "severity"]
    groups = (
        found.filter(F.col("kind").isin(*MASS_KINDS))
        .groupBy(*by, _difference().alias("difference"))
        .agg(
            F.count(F.lit(1)).alias("files"),
            F.sum("bytes_at_stake").alias("bytes_at_stake"),
            F.sum("rows_at_stake").alias("rows_at_stake"),
            F.max("storage_time").alias("storage_time"),
            F.max(F.col("confirmation") == "live").alias("live"),
        )
        .filter((F.col("files") >= ENOUGH) & F.col("difference").isNotNull())
    )
    return [row.asDict() for row in groups.collect()]


def _is_mass(effect: Mapping[str, Any], judged: Tallies) -> bool:
    tally = judged.get((effect["table_name"], "content"))
    return tally is not None and effect["files"] * 2 > tally.files


def _row(effect: dict[str, Any]) -> dict[str, Any]:
    apart = "at the same size" if effect["difference"] == 0 else f"each by {effect['difference']:+d} bytes"
    told = {name: value for name, value in effect.items() if name not in ("difference", "live")}
    return told | {
        "subject_type": "table",
        "subject": effect["table_name"],
        "confirmation": "live" if effect["live"] else "none",
        "explanation": f"{effect['files']} files, more than half of the table, were rewritten {apart}: "
        "one cause, most likely a copy or a re-encoding of the whole table",
    }
