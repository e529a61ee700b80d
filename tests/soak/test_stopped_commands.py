"""Commands that stand still for longer than their lease: another run takes over, and they write nothing after it."""

import os
import random
from pathlib import Path

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.attacked import PACE, attacked, drawn_positions, stopped_and_overtaken
from tests.builders.catcher import catching
from tests.builders.killed import new_seed
from tests.builders.strikes import undisposed
from tests.builders.zygote import zygote
from tests.conftest import Aws

pytestmark = pytest.mark.soak
STOPS = int(os.environ.get("LAKEAUDIT_STOPS", "120"))
COMMANDS = {"apply": 0.35, "undo": 0.25, "purge": 0.2, "plan": 0.08, "alert": 0.08, "audit": 0.04}
SEED = new_seed()


@pytest.mark.timeout(14_400)
def test_what_stood_still_writes_nothing_after_another_took_over(
    aws: Aws, s3: Endpoint, tmp_path: Path
) -> None:
    wrong, done, chance = list[str](), 0, random.Random(SEED)
    with (
        catching() as caught,
        pytest.MonkeyPatch.context() as patch,
        undisposed(),
    ):
        patch.setenv("LAKEAUDIT_TEST_RECEIVER", f"json://127.0.0.1:{caught.port}/")
        with attacked(aws, s3, tmp_path, on_s3=True) as one, zygote(tmp_path) as victims:
            victims.pace = PACE
            for command in os.environ.get("LAKEAUDIT_STOPPED", ",".join(COMMANDS)).split(","):
                for which in drawn_positions(
                    one, victims, command, max(1, round(STOPS * COMMANDS[command])), chance
                ):
                    told = stopped_and_overtaken(one, victims, which)
                    done += 1
                    wrong += [told] if told else []
                    print(f"LAKEAUDIT_KILL_SEED={SEED}: {which}: {told or 'as it should be'}", flush=True)  # noqa: T201
    assert not wrong, f"{len(wrong)} of {done}:\n" + "\n".join(wrong)
