"""`spark-submit jobs/audit.py` is another door to the same audit."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.aws import Endpoint
from lakeaudit.config import Lake
from lakeaudit.install import make_ready
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws

ROOT = Path(__file__).parents[2]
CHEAP = " ".join(
    f"--conf '{setting}'"
    for setting in (
        "spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
        "spark.sql.shuffle.partitions=2",
        "spark.default.parallelism=2",
        "spark.sql.codegen.wholeStage=false",
        "spark.sql.codegen.factoryMode=NO_CODEGEN",
    )
)
"""A cluster's settings would cost this little lake minutes."""
NOW_READ = "; storage as of"
"""What follows in an explanation is when the live check looked."""


@pytest.fixture
def lake(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Lake:
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    shop.write("customers", commits=1)
    gone, torn = shop.keys("orders")[:2]
    shop.s3.delete_object(Bucket=bucket, Key=gone)
    shop.s3.put_object(Bucket=bucket, Key=torn, Body=b"torn")
    time.sleep(1.1)  # S3 times have whole seconds: the stray has to be younger than the table
    shop.s3.put_object(Bucket=bucket, Key=torn.replace(".parquet", "-stray.parquet"), Body=b"stray")
    shop.take_inventory()
    return shop.lake(tmp_path)


def findings(lake: Lake, run_id: str) -> list[str]:
    batches = results_of(lake).findings(run_id)
    rows = [row | {"run_id": "any"} for batch in batches for row in batch.to_pylist()]
    kept = [row | {"explanation": row["explanation"].partition(NOW_READ)[0]} for row in rows]
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in kept)


def submitted(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The line of the README, in an environment that knows nothing of Spark."""
    make_ready(folder / "conf", os.environ)
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK", "PYSPARK", "JAVA"))}
    clean["TZ"] = "America/St_Johns"
    line = f'. {folder}/conf/env.sh; spark-submit --master "local[2]" {CHEAP} {ROOT}/jobs/audit.py "$@"'
    return subprocess.run(
        ["sh", "-c", line, "sh", *arguments], env=clean, capture_output=True, text=True, check=False
    )


def test_spark_submit_gives_the_same_findings(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    audited(spark, lake, run_id="here")
    file, status = tmp_path / "lake.yaml", tmp_path / "status.json"
    done = submitted(tmp_path, str(file), "--run-id", "there", "--status-file", str(status))
    assert (done.returncode, done.stderr) == (1, ""), done.stdout  # critical findings, and Spark is quiet
    assert json.loads(status.read_text())["findings"] == {"dropped": 1, "size_mismatch": 1, "uncommitted": 1}
    assert findings(lake, "there") == findings(lake, "here")
