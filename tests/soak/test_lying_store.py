"""Twenty seeds of a store whose lists lag: the audit names exactly the files that each committer loses."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.config import load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.committers import Committed
from tests.conftest import Aws
from tests.spark.test_committers import by_magic, lake_of, magic_losses_and_findings
from tests.spark.test_event_logs import losses_and_findings, renaming

__all__ = ["by_magic", "renaming"]
SEEDS = int(os.environ.get("LAKEAUDIT_SOAK_SEEDS", "20"))


@pytest.mark.soak
@pytest.mark.parametrize("algorithm", [1, 2])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_a_commit_lost_is_what_is_named(
    renaming: SparkSession, tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str, algorithm: int, seed: int
) -> None:
    lost, told = losses_and_findings(
        renaming, tmp_path, s3, aws, bucket, algorithm, seed, 0.05 if seed % 4 else 0
    )
    assert told == lost


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_a_magic_job_lost_is_what_is_named(
    by_magic: SparkSession, tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str, seed: int
) -> None:
    """Its `_SUCCESS` lists the files that it saw, so that alone it reveals nothing."""
    lost, told = magic_losses_and_findings(by_magic, tmp_path, s3, aws, bucket, seed, 0.1 if seed % 4 else 0)
    assert told == lost


@pytest.mark.soak
@pytest.mark.parametrize("committer", ["classic", "magic", "directory", "partitioned", "manifest"])
def test_clean_runs_of_every_committer_are_quiet(
    spark: SparkSession, tmp_path: Path, s3: Endpoint, bucket: str, committer: str
) -> None:
    """A table for each job; the manifest committer is for file systems that rename."""
    on_s3 = committer != "manifest"
    data = f"s3://{bucket}/wh" if on_s3 else str(tmp_path / "wh")
    for number in range(SEEDS):
        files = [
            (task, f"d={task % 3}/part-{task:05d}.bin", b"x" * (task + 1)) for task in range(number % 5 + 1)
        ]
        out = f"{data.replace('s3:', 's3a:') if on_s3 else f'file:{data}'}/t{number}"
        Committed(spark, committer, out, tmp_path / str(number), f"job-{number}", number=number + 1).run(
            files
        )
    kind = "s3a_committer" if on_s3 else "manifest_committer"
    lake_of(tmp_path, data, kind, s3 if on_s3 else None)
    text = (tmp_path / "a.yaml").read_text()
    head, table = text.split("tables:\n")
    tables = "".join(
        table.replace("name: t,", f"name: t{n},").replace("/t'", f"/t{n}'") for n in range(SEEDS)
    )
    (tmp_path / "a.yaml").write_text(f"{head}tables:\n{tables}")
    lake = load_lake(tmp_path / "a.yaml", {})
    assert audited(lake, run_id="r").status == "complete"
    rows = [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]
    assert [row for row in rows if row["severity"] != "info"] == []
