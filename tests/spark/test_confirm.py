"""What confirms suspects that nobody looked at: a second picture, and a sample of a mass loss."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeaudit.compare.ceiling import Missing, Trial
from lakeaudit.pipeline.recheck import by_sample, by_second_cut

TWICE = [
    # axis, outcome, confirmation, found before, cuts of storage and metastore, confirmation then
    ("content", "finding", "none", 1, 2, None, "second_cut"),
    ("content", "finding", "limit", 1, 2, None, "second_cut"),
    ("content", "finding", "live", 1, 2, None, "live"),
    ("content", "finding", "none", 2, 2, None, "none"),
    ("content", "finding", "none", None, 2, None, "none"),
    ("content", "undecided", "none", 1, 2, None, "none"),
    ("content", "finding", "none", 1, None, None, "none"),
    ("content", "finding", "none", 1, 2, 1, "second_cut"),
    ("metastore", "finding", "none", 1, 2, 3, "second_cut"),
    ("metastore", "finding", "none", 1, 2, 1, "none"),
]


def test_a_second_picture_confirms_what_nobody_looked_at(spark: SparkSession) -> None:
    def at(hour: int | None) -> datetime | None:
        return None if hour is None else datetime(2026, 11, 21, hour, tzinfo=UTC)

    rows = [(n, axis, outcome, told, at(before), at(storage), at(store))
            for n, (axis, outcome, told, before, storage, store, _) in enumerate(TWICE)]  # fmt: skip
    times = "known_at timestamp, s_from timestamp, m_from timestamp"
    frame = spark.createDataFrame(rows, f"n int, axis string, outcome string, l_confirmation string, {times}")
    found = {row["n"]: row["l_confirmation"] for row in by_second_cut(frame).collect()}
    assert [found[n] for n in range(len(TWICE))] == [row[-1] for row in TWICE]


LOST = [
    # table, kind, outcome, source of storage, confirmation, confirmation then
    ("wiped", "dropped", "finding", "inventory", "limit", "sample"),
    ("wiped", "dropped", "finding", "inventory", "live", "live"),
    ("wiped", "dropped", "finding", "inventory", "denied", "denied"),
    ("wiped", "dropped", "finding", "listing", "limit", "limit"),
    ("wiped", "size_mismatch", "finding", "inventory", "limit", "limit"),
    ("wiped", "dropped", "undecided", "inventory", "limit", "limit"),
    ("whole", "dropped", "finding", "inventory", "limit", "limit"),
]


@pytest.mark.parametrize("lost", [True, False])
def test_a_sample_speaks_for_the_rest_of_a_mass_loss(spark: SparkSession, *, lost: bool) -> None:
    columns = (
        "n int, judged_table string, kind string, outcome string, s_source string, l_confirmation string"
    )
    frame = spark.createDataFrame([(n, *row[:-1]) for n, row in enumerate(LOST)], columns)
    trials = [Trial(Missing("wiped", "inventory", "storage", 200, 300), 9, 9, 9)] if lost else []
    then = by_sample(frame.withColumn("m_source", F.lit("store")), trials).orderBy("n").collect()
    assert [row["l_confirmation"] for row in then] == [row[-1 if lost else -2] for row in LOST]
