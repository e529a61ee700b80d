"""Causes and patterns of access, where Spark's own tasks read the logs and bring their requests together."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.access_logs import JOB, PERSON, Line, deleted, write_line
from tests.builders.audits import audited
from tests.builders.watched_shop import Watched
from tests.conftest import Aws


@pytest.mark.soak
def test_tasks_name_the_same_causes_and_patterns(
    spark: SparkSession, aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    watched = Watched(aws, s3, bucket, tmp_path)
    lost, kept, *_ = watched.keys
    aws.s3.delete_object(Bucket=bucket, Key=lost)
    later = watched.at + timedelta(minutes=20)
    lines = [
        deleted(lost, watched.at, bucket=bucket),
        write_line(kept, watched.at, request="R1", bucket=bucket),
        write_line(kept, later, request="R2", bucket=bucket),
        Line("REST.GET.OBJECT", kept, later, PERSON, "R3", bucket),
    ]
    for number, line in enumerate(lines):
        watched.logged([line], f"F{number}")
    lake = watched.lake()
    audited(lake, spark, live=True, run_id="r")
    role = JOB.rpartition("/")[0]
    assert watched.findings_of_run(lake, "r") == {
        lost: ("dropped", "deleted (REST.DELETE.OBJECT)", PERSON, watched.at),
        f"overwrite_in_place#{role}": ("overwrite_in_place", None, role, None),
    }
