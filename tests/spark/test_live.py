"""A live audit that proves to be too large for this process reads its listings on Spark."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit import cli
from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import results_of
from tests.builders.shop import Shop
from tests.conftest import Aws


def test_spark_takes_over_on_request_what_is_too_much(
    spark: SparkSession,
    aws: Aws,
    s3: Endpoint,
    bucket: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    shop.write("customers")
    aws.s3.delete_object(Bucket=bucket, Key=shop.keys("orders")[0])
    lake = shop.lake(tmp_path)
    started: list[str] = []

    def session(lake: Lake) -> SparkSession:
        started.append(lake.name)
        return spark

    monkeypatch.setattr("lakeaudit.engine.spark.ROWS_IN_PROCESS", 3)
    monkeypatch.setattr("lakeaudit.commands.on_spark._session", session)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    status = tmp_path / "status.json"
    line = [
        "audit",
        str(tmp_path / "lake.yaml"),
        "--live",
        "--spark",
        "--run-id",
        "now",
        "--status-file",
        str(status),
    ]
    assert cli.main(line) == 1
    assert len(started) == 1
    assert (json.loads(status.read_text())["run_id"], json.loads(status.read_text())["status"]) == (
        "now",
        "complete",
    )
    assert [(row["run_id"], row["status"]) for row in results_of(lake).runs()] == [("now", "complete")]
