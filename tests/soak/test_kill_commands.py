"""Commands killed at every request and at any time, and run again: nothing is lost, half-done or told otherwise."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.attacked import (
    CODES,
    COMMANDS,
    Attacked,
    Kill,
    attacked,
    drawn_positions,
    killed_and_run_again,
)
from tests.builders.catcher import catching
from tests.builders.killed import new_seed
from tests.builders.strikes import undisposed
from tests.builders.zygote import Zygote, zygote
from tests.conftest import Aws

pytestmark = pytest.mark.soak
COUNT = int(os.environ.get("LAKEAUDIT_KILLS", "500"))
SHARES = {"audit": 0.03, "alert": 0.09, "plan": 0.14, "apply": 0.34, "undo": 0.24, "purge": 0.16}
NEXT_AUDITS = 25
"""One of so many is followed by an audit, too."""
SEED = new_seed()


@pytest.fixture(scope="module")
def receiver() -> Iterator[None]:
    with catching() as caught, pytest.MonkeyPatch.context() as patch, undisposed():
        patch.setenv("LAKEAUDIT_TEST_RECEIVER", f"json://127.0.0.1:{caught.port}/")
        yield


def kills(one: Attacked, victims: Zygote, number: int, chance: random.Random) -> Iterator[Kill]:
    """Kills of each command at its requests, a fifth of them at any time."""
    for command in COMMANDS:
        wanted = max(1, round(number * SHARES[command]))
        at = drawn_positions(one, victims, command, wanted - wanted // 5, chance)
        yield from at
        yield from (Kill(command, seconds=chance.uniform(0, 3)) for _ in range(wanted - len(at)))


@pytest.mark.usefixtures("receiver")
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("on_s3", [True, False])
def test_killed_and_run_again_is_as_if_never_killed(
    aws: Aws, s3: Endpoint, tmp_path: Path, *, on_s3: bool
) -> None:
    chance, wrong, done = random.Random(SEED), list[str](), Counter[str]()
    with attacked(aws, s3, tmp_path, on_s3=on_s3) as one, zygote(tmp_path) as victims:
        for number, each in enumerate(kills(one, victims, COUNT // 2, chance)):
            told = killed_and_run_again(one, victims, each, audited=number % NEXT_AUDITS == 0)
            done[each.command] += 1
            wrong += [told] if told else []
            print(f"LAKEAUDIT_KILL_SEED={SEED}: {each}: {told or 'as if never killed'}", flush=True)  # noqa: T201
    assert not wrong, f"{len(wrong)} of {done}:\n" + "\n".join(wrong)
    assert set(done) == set(CODES)
