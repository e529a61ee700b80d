"""Chunks of a share meet in the task of its number, on every version of Spark."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeaudit.engine.exchange import by_hash, by_share, hash_of, numbers_of
from tests.builders.examples import examples

pytestmark = pytest.mark.spark
EDGES = [0, 1, -1, 2, 41, 42, 1 << 16, -(1 << 31), (1 << 31) - 1, 123_456_789, -987_654_321]


def test_hashes_are_those_of_spark(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(number,) for number in EDGES], "number int")
    assert [hash_of(number) for number in EDGES] == [
        row["hashed"] for row in rows.select(F.hash("number").alias("hashed")).collect()
    ]


@examples(50, 500)
@given(st.integers(1, 5000))
def test_each_share_has_a_number_of_its_own(shares: int) -> None:
    assert [hash_of(number) % shares for number in numbers_of(shares)] == list(range(shares))


@pytest.mark.parametrize("exchange", [by_hash, by_share])
@pytest.mark.parametrize("shares", [1, 2, 7, 64])
def test_each_task_has_the_chunks_of_its_share(
    spark: SparkSession, exchange: Callable[[DataFrame, int], DataFrame], shares: int
) -> None:
    rows = spark.range(500).select((F.col("id") % shares).cast("int").alias("share"), F.col("id"))
    met = exchange(rows, shares).select("share", F.spark_partition_id().alias("task"))
    assert {(row["share"], row["task"]) for row in met.collect()} == {(n, n) for n in range(shares)}
