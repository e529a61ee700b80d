"""Twenty seeds of a store whose lists lag: what each committer loses in silence is what the audit names."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.runtime.aws import Endpoint
from tests.conftest import Aws
from tests.spark.test_committers import by_magic, magic_lost_and_told
from tests.spark.test_event_logs import lost_and_told, renaming

__all__ = ["by_magic", "renaming"]
SEEDS = int(os.environ.get("LAKEAUDIT_SOAK_SEEDS", "20"))


@pytest.mark.soak
@pytest.mark.parametrize("algorithm", [1, 2])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_a_commit_lost_is_what_is_named(
    renaming: SparkSession, tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str, algorithm: int, seed: int
) -> None:
    lost, told = lost_and_told(renaming, tmp_path, s3, aws, bucket, algorithm, seed, 0.05 if seed % 4 else 0)
    assert told == lost


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_a_magic_job_lost_is_what_is_named(
    by_magic: SparkSession, tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str, seed: int
) -> None:
    """Its `_SUCCESS` lists the files that it saw, so that alone it reveals nothing."""
    lost, told = magic_lost_and_told(by_magic, tmp_path, s3, aws, bucket, seed, 0.1 if seed % 4 else 0)
    assert told == lost
