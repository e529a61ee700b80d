"""Hudi tables, audited on a Spark session and in this process."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.builders.both_ways import audited_both_ways
from tests.builders.hudi import lake_of, unpacked

NAMES = ("archived", "merging", "clustered")


@pytest.mark.soak
def test_an_audit_on_spark_says_what_one_in_this_process_says(spark: SparkSession, tmp_path: Path) -> None:
    wh = unpacked(tmp_path, 2, NAMES)
    newest = max(wh.glob("archived/day=2026-11-01/*.parquet"), key=lambda path: path.name.split("_")[-1])
    newest.unlink()
    outcome = audited_both_ways(lake_of(tmp_path, NAMES), spark)
    assert outcome.summary["findings"] == {"dropped": 1}
