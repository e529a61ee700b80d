"""Lists that are handed over, given to the tools themselves: Delta's VACUUM on the tests' S3 server."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit import cli
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited
from tests.builders.backdate import backdate
from tests.builders.shop import Shop
from tests.conftest import Aws

LEFT = ("day=2026-11-01/left over.parquet", "left+100%25ü.parquet")


def test_vacuum_removes_what_the_inventory_names_and_nothing_else(
    spark: SparkSession,
    aws: Aws,
    s3: Endpoint,
    bucket: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the statement that is printed beside the list; another leftover came since, which it does not name."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    live = shop.keys()
    for name in LEFT:
        leave(shop, name)
    shop.take_inventory()
    audited(shop.lake(tmp_path))
    leave(shop, "later.parquet")
    command = ["findings", str(tmp_path / "lake.yaml"), "--as", "delta-inventory", "--table", "orders"]
    command += ["--allow", "older_than_onboarding"]
    assert cli.main([*command, "-o", str(tmp_path / "inventory `of` orders.parquet")]) == 0
    statement = capsys.readouterr().out.strip()
    root = f"s3a://{bucket}/warehouse/orders"
    assert [row[0] for row in spark.sql(statement).collect()] == [f"{root}/{name}" for name in sorted(LEFT)]
    spark.sql(statement.removesuffix(" DRY RUN")).collect()
    assert shop.keys() == sorted([*live, "warehouse/orders/later.parquet"])


def leave(shop: Shop, name: str) -> None:
    """A file of thirty days that no commit lists."""
    key = f"warehouse/orders/{name}"
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"left")
    backdate(shop.bucket, key, datetime.now(UTC) - timedelta(days=30))
