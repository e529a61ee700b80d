"""Much is missing: a loss is published as one; evidence that cannot be true says nothing, and changes nothing."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.aws import Endpoint
from lakeaudit.rows import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws

DAYS = [f"day-{number:03}" for number in range(110)]
TABLES = {"wiped": "", "halved": "", "mixed": "", "blind": ", confirm: {mode: none}"}
"""A lifecycle rule took all of the first; of the others a report lacks all files, which are there, or half of them."""


@pytest.mark.timeout(600)
def test_a_loss_is_told_from_bad_evidence(
    spark: SparkSession, aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    shop = Shop(aws.s3, s3, bucket)
    for table in TABLES:
        shop.write(table, commits=1, days=DAYS, rows=1)
    gone = [*shop.keys("wiped/"), *shop.keys("mixed/")[::2]]
    for key in gone:
        aws.s3.delete_object(Bucket=bucket, Key=key)
    shop.take_inventory(lacks={*shop.keys("halved/"), *shop.keys("mixed/"), *shop.keys("blind/")})
    place = f"s3://{bucket}/warehouse"
    tables = [
        f"- {{name: {table}, location: '{place}/{table}', manifests: [{{kind: delta}}]{more}}}"
        for table, more in TABLES.items()
    ]
    lake = shop.lake(tmp_path, tables=tables, extra="ceiling: {sample: 100}\n")

    outcome = audited(spark, lake)
    assert (outcome.exit_code, outcome.status) == (12, "suspect")
    assert outcome.summary["findings"] == {"dropped": len(gone)}
    content = {table: axes["content"] for table, axes in outcome.summary["coverage"].items()}
    source = f"s3_inventory s3://{bucket}/inventories"
    looked = "110 of 110 files of"
    assert {table: (axis["status"], axis["reason"]) for table, axis in content.items()} == {
        "wiped": ("complete", f"mass loss: {source} lacks {looked} wiped, and of 100 looked at now 100 are gone"),
        "halved": ("partial", f"{source} lacks {looked} halved, but of 100 looked at now 0 are gone"),
        "mixed": ("partial", content["mixed"]["reason"]),
        "blind": ("partial", f"{source} lacks {looked} blind, and storage may not be asked (confirm.mode)"),
    }  # fmt: skip
    assert f"lacks {looked} mixed, but of 100 looked at now" in content["mixed"]["reason"]
    ledger = Counter((row["table_name"], row["state"]) for row in rows_of(results_of(lake).discrepancies()))
    assert ledger == {("wiped", "open"): 110, ("mixed", "open"): 55}
    (run,) = results_of(lake).runs()
    assert [table in run["error"] for table in TABLES] == [False, True, True, True]
