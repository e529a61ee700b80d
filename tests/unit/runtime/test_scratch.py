"""Temporary files lie where Spark spills."""

import os
from pathlib import Path

from lakeaudit.runtime.scratch import scratch_root


def test_a_folder_of_spark_is_taken_before_yarns(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    assert scratch_root({"SPARK_LOCAL_DIRS": str(one), "LOCAL_DIRS": str(other)}) == str(one)
    assert scratch_root({"LOCAL_DIRS": str(other)}) == str(other)
    both = [str(one), str(other)]
    assert scratch_root({"SPARK_LOCAL_DIRS": ",".join(both)}) == both[os.getpid() % 2]


def test_without_a_usable_folder_the_system_chooses(tmp_path: Path) -> None:
    assert scratch_root({}) is None
    assert scratch_root({"SPARK_LOCAL_DIRS": ""}) is None
    assert scratch_root({"SPARK_LOCAL_DIRS": str(tmp_path / "gone")}) is None
