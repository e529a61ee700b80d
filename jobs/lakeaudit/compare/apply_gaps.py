"""Holes: what incomplete evidence forbids to say, put into the columns that the rules read.

Holes only ever take findings back, never make one, so they are applied to suspects alone, once the whole evidence has
been read and every unreadable row is counted.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare.ceiling import Trial, doubts
from lakeaudit.compare.table_facts import TableFacts
from lakeaudit.longest_prefix_match import attach_label


def with_holes(rows: DataFrame, holed_sources: Iterable[str], tables: Sequence[TableFacts]) -> DataFrame:
    """Set h_storage, h_metastore and h_references of rows with PAIR columns."""
    sources = sorted(holed_sources)
    places = {table.table.location: "holed" for table in tables if table.holed}
    places |= {
        root: "holed" for table in tables if table.holed for state in table.states for root in state.roots
    }
    marked = attach_label(rows, places, "__holed")
    return marked.withColumns(
        {
            "h_storage": F.coalesce(F.col("s_source").isin(sources), F.lit(False)),
            "h_metastore": F.coalesce(F.col("m_source").isin(sources), F.lit(False)),
            "h_references": F.col("__holed").isNotNull(),
        }
    ).drop("__holed")


def doubted(rows: DataFrame, trials: Sequence[Trial]) -> DataFrame:
    """The same holes where a source lacks so much of a table that it is not believed."""
    for trial in doubts(trials):
        hole, source = (
            ("h_storage", "s_source") if trial.missing.role == "storage" else ("h_metastore", "m_source")
        )
        theirs = (F.col("judged_table") == trial.missing.table) & (F.col(source) == trial.missing.source)
        rows = rows.withColumn(hole, F.col(hole) | F.coalesce(theirs, F.lit(False)))
    return rows


def assumed_vacuums(pairs: DataFrame) -> DataFrame:
    """Tables whose absent history an unlogged VACUUM explains, from PAIR rows.

    Delta writes no VACUUM into a log on S3 by default. One is assumed where every removal at least as old as the
    youngest absent one is absent too. Columns: vacuumed, vacuumed_to (that youngest removal), vacuumed_files.
    """
    removed = pairs.filter(F.col("c_state").isin("history", "gone") & F.col("c_removed_at").isNotNull())
    absent = (F.col("c_state") == "history") & (F.col("s_presence") == "absent") & ~F.col("c_explained")
    oldest_present = F.min(F.when(F.col("s_presence") == "present", F.col("c_removed_at")))
    youngest_absent = F.max(F.when(absent, F.col("c_removed_at")))
    told = removed.groupBy(F.col("table_name").alias("vacuumed")).agg(
        oldest_present.alias("present_from"),
        youngest_absent.alias("vacuumed_to"),
        F.sum(absent.cast("long")).alias("vacuumed_files"),
    )
    swept = F.col("present_from").isNull() | (F.col("present_from") > F.col("vacuumed_to"))
    return told.filter(F.col("vacuumed_to").isNotNull() & swept).drop("present_from")


def with_vacuums(rows: DataFrame, vacuums: DataFrame) -> DataFrame:
    """Set v_assumed of rows whose table an assumed VACUUM explains."""
    known = F.broadcast(vacuums.select("vacuumed"))
    joined = rows.join(known, F.col("table_name") == F.col("vacuumed"), "left")
    return joined.withColumn("v_assumed", F.col("vacuumed").isNotNull()).drop("vacuumed")
