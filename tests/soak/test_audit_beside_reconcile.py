"""An audit and `reconcile` at the same time, at many interleavings: the lease keeps them apart, and nothing is lost.

A lake file with results of its own has another lease: its audit runs in between, and claims nothing that is not so.
"""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakeaudit.config import load_lake
from lakeaudit.ledger import lease
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.attacked import (
    CODES,
    NEXT,
    PACE,
    Attacked,
    attacked,
    difference,
    drawn_positions,
    start_victim,
)
from tests.builders.audits import audited, results_of
from tests.builders.killed import new_seed
from tests.builders.strikes import Strike, striking, undisposed
from tests.builders.zygote import Zygote, zygote
from tests.conftest import Aws

pytestmark = [pytest.mark.soak, pytest.mark.timeout(14_400)]
COUNT = int(os.environ.get("LAKEAUDIT_INTERLEAVINGS", "40"))
SEED = new_seed()
HEALTHY = {"dropped", "size_mismatch", "uncommitted", "unfinished_upload"}
"""Kinds that are so before or after the plan was applied."""


def interrupted(
    one: Attacked, victims: Zygote, first: str, second: Callable[[], str], number: int
) -> list[str]:
    """Run `second` within `first`, at so many of its requests; what is wrong then."""
    wrong = []
    for which in drawn_positions(one, victims, first, number, random.Random(SEED)):
        one.back(first)
        said: list[str] = []

        def within(said: list[str] = said) -> None:
            said.append(second())

        with striking(Strike(which.at, which.after, within)):
            start_victim(one, victims, first)
            code = victims.end().code
        wrong += [f"{which}: {each}" for each in said if each]
        wrong += [] if code == CODES[first] else [f"{which}: ended with {code}"]
        wrong += [f"{which}: {odd}" for odd in [difference(one.state(), one.expected[first])] if odd]
        print(f"LAKEAUDIT_KILL_SEED={SEED}: {which}: {wrong or 'as it should be'}", flush=True)  # noqa: T201
    return wrong


def of_another_lease(one: Attacked, folder: Path) -> str:
    """An audit of the same tables with results of its own."""
    folder.mkdir()
    file = folder / "lake.yaml"
    text = (one.folder / "lake.yaml").read_text()
    file.write_text(text.replace(str(one.lake.results.uri), str(folder / "results")))
    lake = load_lake(file, os.environ)
    outcome = audited(lake, live=True, run_id="beside")
    odd = {row["kind"] for row in rows_of(results_of(lake).findings("beside"))} - HEALTHY
    return f"exit {outcome.exit_code}, found {odd}" if odd else ""


@pytest.mark.parametrize("first", ["audit", "apply", "undo"])
def test_interleaved_runs_are_kept_apart_and_claim_nothing_false(
    aws: Aws, s3: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setenv("LAKEAUDIT_TEST_RECEIVER", "json://127.0.0.1:9/")
    monkeypatch.setattr(lease, "PACE", lease.Pace(*PACE))
    commands = ("audit", "plan", "apply", "undo")
    with (
        undisposed(),
        attacked(aws, s3, tmp_path, on_s3=True, commands=commands) as one,
        zygote(tmp_path) as victims,
    ):
        victims.pace = PACE
        folders = (tmp_path / f"beside-{n}" for n in range(10_000))

        def same_results() -> str:
            beside = replace(one)
            code, said = beside.run("plan" if first == "audit" else NEXT)
            # before the lease is taken, and after it was given back, the other run is as good as alone
            return "" if code in (13, 10, 0, 1, 3) else f"ended with {code}: {said[-300:]}"

        wrong = interrupted(one, victims, first, lambda: of_another_lease(one, next(folders)), COUNT // 6)
        if first != "undo":
            wrong += [
                each for each in interrupted(one, victims, first, same_results, COUNT // 6) if "ended" in each
            ]
    assert not wrong, "\n".join(wrong)
