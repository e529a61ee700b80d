"""The kills of tests/spark/test_kill.py, ten times as many."""

from collections.abc import Iterator

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.catcher import catching
from tests.builders.frozen import RECEIVER, Frozen, freeze
from tests.builders.killed import Cycle, killed_ahead, moments, new_seed
from tests.conftest import Aws

pytestmark = pytest.mark.soak
COUNT = 60
EACH = 4
"""Moments of one audit, which is killed at its last."""
SEED = new_seed()


@pytest.fixture(scope="module")
def frozen(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frozen]:
    with catching() as caught, pytest.MonkeyPatch.context() as patch:
        patch.setenv(RECEIVER, f"json://127.0.0.1:{caught.port}/")
        folder = tmp_path_factory.mktemp("frozen")
        yield freeze(aws, s3, folder, caught.posts, firsts=(True, False))


@pytest.fixture(scope="module")
def cycles(frozen: Frozen, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Cycle]]:
    with killed_ahead(frozen, moments(COUNT, SEED), tmp_path_factory.mktemp("killed"), each=EACH) as cycles:
        yield cycles


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(COUNT))
def test_killed_and_run_again_is_as_if_never_killed(frozen: Frozen, cycles: list[Cycle], number: int) -> None:
    print(f"LAKEAUDIT_KILL_SEED={SEED}: {cycles[number].moment}")  # noqa: T201 - to repeat it
    cycles[number].check(frozen)
