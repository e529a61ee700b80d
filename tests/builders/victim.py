"""`python -m tests.builders.victim LAKE RUN_ID AS_OF`: one audit, told, in a JVM that starts fast; it waits."""

import os
import signal
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from lakeaudit.config import load_lake
from lakeaudit.progress import JsonProgress
from lakeaudit.spark import build_session
from lakeaudit.stores import clients_of
from tests.builders.audits import audited
from tests.builders.frozen import told_of

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
    audited(spark, lake, progress, run_id=run_id, as_of=datetime.fromisoformat(as_of))
    told_of(lake)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
