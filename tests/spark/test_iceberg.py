"""Iceberg tables that Spark wrote, audited on a Spark session and in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.both_ways import audited_both_ways
from tests.builders.iceberg import BY_SPARK, lake_by_spark, tables_of_spark
from tests.conftest import Aws

NAMES = ("vectors", "branches", "transforms")


@pytest.fixture
def tables_in_s3(aws: Aws) -> Iterator[None]:
    with tables_of_spark(aws.s3, NAMES):
        yield


@pytest.mark.soak
def test_an_audit_on_spark_says_what_one_in_this_process_says(
    tables_in_s3: None, aws: Aws, s3: Endpoint, spark: SparkSession, tmp_path: Path
) -> None:
    pages = aws.s3.get_paginator("list_objects_v2").paginate(Bucket=BY_SPARK, Prefix="wh/s/vectors/data/")
    for page in pages:
        for each in page["Contents"][:2]:
            aws.s3.delete_object(Bucket=BY_SPARK, Key=each["Key"])
    lake = lake_by_spark(tmp_path, s3, NAMES)
    outcome = audited_both_ways(lake, spark)
    assert outcome.summary["findings"] == {"dropped": 2}  # of both files some deletion vectors hold
