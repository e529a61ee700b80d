"""Said: in what words a run tells of a subject that it does not find wrong any more."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare.rules import NONE

RESTORED, REMOVED, MENDED, ACCEPTED, RETIRED = (
    "restored", "reference_removed", "metastore_mended", "accepted", "retired",
)  # fmt: skip
"""Resolutions. `reference_removed`: closed, and NOT restored."""


def words(judged: DataFrame) -> DataFrame:
    """What the run says of known subjects, from verdict rows with `known_as`: discrepancy_id, n_said, n_live."""
    known = judged.filter(F.col("known_as").isNotNull() & (F.col("outcome") != NONE))
    live = F.coalesce(F.col("l_confirmation") == "live", F.lit(False))
    return known.select(
        F.col("known_as").alias("discrepancy_id"), said().alias("n_said"), live.alias("n_live")
    )


def said() -> Column:
    """The resolution that a verdict row speaks for; null where it says neither right nor wrong."""
    consistent = F.col("outcome") == "consistent"
    return (
        F.when(F.col("outcome") == "ignored", ACCEPTED)
        .when(consistent & (F.col("axis") == "metastore"), MENDED)
        .when(consistent & F.col("rule").startswith("content.history_"), REMOVED)
        .when(consistent, RESTORED)
    )


def said_by_silence() -> Column:
    """The resolution where no verdict speaks: a file that no table lists and no store enters has none any more.

    Columns read: axis, and the ledger row `held`.
    """
    listed = (F.col("axis") == "content") & (F.col("held.subject_type") == "file")
    of_log = F.coalesce(F.col("held.category") == "log", F.lit(False))
    in_store = F.col("axis").startswith("metastore")
    return F.when(listed & ~of_log, REMOVED).when(in_store, MENDED).otherwise(RESTORED)
