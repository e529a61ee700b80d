"""An `apply` is killed at one of its requests, and run again; tests/soak kills and stops every command everywhere."""

import random
from pathlib import Path

import pytest

from lakeaudit.runtime.aws import Endpoint
from tests.builders.attacked import attacked, drawn_positions, killed_and_run_again
from tests.builders.killed import new_seed
from tests.builders.strikes import undisposed
from tests.builders.zygote import zygote
from tests.conftest import Aws

SEED = new_seed()


def test_killed_and_run_again_is_as_if_never_killed(
    aws: Aws, s3: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"LAKEAUDIT_KILL_SEED={SEED}")  # noqa: T201 - to repeat it
    monkeypatch.setenv("LAKEAUDIT_TEST_RECEIVER", "json://127.0.0.1:9/")
    commands = ("audit", "plan", "apply")
    with (
        undisposed(),
        attacked(aws, s3, tmp_path, on_s3=False, commands=commands) as one,
        zygote(tmp_path) as victims,
    ):
        for which in drawn_positions(one, victims, "apply", 1, random.Random(SEED)):
            assert killed_and_run_again(one, victims, which) == ""
