"""Plain tables, audited in Spark's tasks: the same findings as in one process."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.audits import test_event_logs as by_event_logs
from tests.audits import test_previous as by_previous

pytestmark = pytest.mark.variant


def test_by_the_last_picture(tmp_path: Path, spark: SparkSession) -> None:
    by_previous.lost_and_rewritten(by_previous.Site(tmp_path), spark)


def test_by_event_logs(tmp_path: Path, spark: SparkSession) -> None:
    by_event_logs.lost_and_cut_off(by_event_logs.Site(tmp_path), spark)
