"""An audit killed anywhere and run again leaves what a run that was never killed leaves."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeaudit.errors import CannotAudit
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.catcher import catching
from tests.builders.frozen import RECEIVER, Frozen, assert_same, freeze, tables_at
from tests.builders.killed import Cycle, killed_ahead, moments_of_one_audit, new_seed
from tests.conftest import Aws

pytestmark = pytest.mark.variant

COUNT = 1
"""Moments of the quick suite; tests/soak kills at sixty."""
SEED = new_seed()
MOMENTS = moments_of_one_audit(COUNT, SEED)


@pytest.fixture(scope="module")
def frozen(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frozen]:
    with catching() as caught, pytest.MonkeyPatch.context() as patch:
        patch.setenv(RECEIVER, f"json://127.0.0.1:{caught.port}/")
        folder = tmp_path_factory.mktemp("frozen")
        yield freeze(aws, s3, folder, caught.posts, firsts={moment.first for moment in MOMENTS})


@pytest.fixture(scope="module")
def cycles(frozen: Frozen, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Cycle]]:
    with killed_ahead(frozen, MOMENTS, tmp_path_factory.mktemp("killed"), each=COUNT, finish=True) as cycles:
        yield cycles


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(COUNT))
def test_killed_and_run_again_is_as_if_never_killed(frozen: Frozen, cycles: list[Cycle], number: int) -> None:
    print(f"LAKEAUDIT_KILL_SEED={SEED}: {cycles[number].moment}")  # noqa: T201 - to repeat it
    cycles[number].check(frozen)


@pytest.mark.timeout(600)
def test_spark_submit_gives_the_same_rows(frozen: Frozen, cycles: list[Cycle]) -> None:
    """The audit that the others are the remains of, once it is at its end."""
    done = cycles[0].killed.result()
    quiet = (done.home / "stderr").read_text() == ""
    assert (done.code, quiet) == (1, True), done.output  # critical findings
    assert_same(tables_at(done.home / "results"), frozen.expected[cycles[0].moment.first])
    status = json.loads((done.home / "status.json").read_text())
    assert status["findings"] == {"dropped": 1, "size_mismatch": 1, "uncommitted": 1}


@pytest.mark.parametrize(
    "left", ["part-00000.snappy.parquet", "_delta_log/.00000000000000000000.json.4f1c.tmp"]
)
def test_a_truncated_first_write_does_no_damage(tmp_path: Path, left: str) -> None:
    file = tmp_path / "runs" / left
    file.parent.mkdir(parents=True)
    file.write_text("{")
    with pytest.raises(CannotAudit, match="no finished audit"):
        Results(Location.parse(str(tmp_path)), Clients(), "shop").published(None)
