"""Replays of certificates that no audit has written."""

from pathlib import Path
from typing import Any

import pytest

from lakeaudit.certificate.rules_version import rules_version
from lakeaudit.certificate.verification import BAD, check_unsigned
from lakeaudit.commands.replay_certificate import replayed
from lakeaudit.config import load_lake
from lakeaudit.runtime.progress import SilentProgress


@pytest.mark.parametrize(
    "times",
    [
        {"as_of": "never", "started_at": None},
        {"as_of": "2026-11-01T00:00:00Z", "started_at": "0001-01-01T00:00:00+14:00"},
    ],
)
def test_a_text_instead_of_a_time_is_a_fault_of_the_certificate(times: dict[str, Any], lake: Path) -> None:
    loaded = load_lake(lake, {})
    stated: Any = {"lake": loaded.name, "rules": rules_version(), "evidence": [], **times}
    (check,) = replayed(loaded, stated, SilentProgress())
    assert (check.answer, check.text) == (BAD, "statement: a time in it is not a time")


@pytest.mark.parametrize("depth", [900, 973, 1_500])
def test_deep_nesting_is_not_valid(depth: int) -> None:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    _, checks = check_unsigned({"digest": "sha256:0", "evidence": nested})
    assert checks[-1].answer == BAD
