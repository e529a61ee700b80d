"""`python -m tests.builders.victim LAKE RUN_ID AS_OF`: one audit, in a JVM that starts fast; then it waits."""

import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from lakeaudit.config import Lake, load_lake
from lakeaudit.outcome import Outcome
from lakeaudit.progress import JsonProgress, Progress
from lakeaudit.run import Options, audit
from lakeaudit.spark import build_session
from lakeaudit.stores import clients_of


def run_once(lake: Lake, run_id: str, as_of: datetime, spark: SparkSession, progress: Progress) -> Outcome:
    return audit(
        lake, Options(run_id=run_id, as_of=as_of), spark=spark, clients=clients_of(lake),
        clock=lambda: datetime.now(UTC), progress=progress,
    )  # fmt: skip


_CHEAP = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def main(arguments: Sequence[str]) -> None:
    """Audit, telling the stages on stderr."""
    lake_file, run_id, as_of = arguments
    lake = load_lake(Path(lake_file), os.environ)
    progress = JsonProgress(sys.stderr)
    with progress.stage("start Spark"):
        spark = build_session("victim", s3=clients_of(lake).default, small=True, brief=True, extra=_CHEAP)
    run_once(lake, run_id, datetime.fromisoformat(as_of), spark, progress)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
