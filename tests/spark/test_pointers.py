"""What catalogs point at, counted and judged on Spark as in this process."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.audit import projection_pass
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.hive_lake import HiveLake, break_orders
from tests.conftest import Aws


@pytest.mark.soak
def test_folders_are_counted_beside_the_screen_on_spark(
    aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path, spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    hive = HiveLake(aws, clients, s3, bucket, tmp_path)
    break_orders(hive)
    lake = hive.lake()
    for screen_from in (0, 1 << 40):
        monkeypatch.setattr(projection_pass, "PREFILTER_FROM", screen_from)
        audited(lake, spark, run_id=f"from-{screen_from}")
        rows = [
            row for batch in results_of(lake).findings(f"from-{screen_from}") for row in batch.to_pylist()
        ]
        assert sorted((row["kind"], row["partition_path"], row["files"]) for row in rows) == [
            ("empty_partition", "day=2026-11-04", 0), ("unregistered_partition", "day=2026-11-03", 1),
        ]  # fmt: skip
