"""The demo: whatever is broken in a lake that Spark and others wrote, the audit finds it, and nothing else.

What is broken is audited in this process and on Spark, with equal rows.
"""

import copy
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.demo import MARK, MOST_FAULTS, USUAL_FAULTS, scenario
from lakeaudit.demo.breaker import CATALOGUE
from lakeaudit.demo.compare import Comparison, compare, read_run
from lakeaudit.demo.repairs import RepairOutcome, repair
from lakeaudit.demo.server import INVENTORIES, LAKE, Server, forget
from lakeaudit.errors import BadInput
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.resolve import delta_rs_options
from lakeaudit.runtime.progress import SilentProgress
from tests.builders.audits import audited, results_of
from tests.builders.both_ways import assert_equal_results, audited_both_ways
from tests.builders.writer import BusyWriter

QUIET = SilentProgress()
SOAK = 20
"""How many seeds are drawn beside that of the whole command."""

TICKS = "lakehouse/ticks"
"""A table that the breaker does not know of, with the waits of a real lake, only shorter."""
WITH_TICKS = f"""tables:
  - name: soak.ticks
    location: s3://{LAKE}/{TICKS}
    manifests: [{{kind: delta}}]
    grace: 3s
    leftover_age: 60s
"""


@dataclass(frozen=True)
class DemoRun:
    """What the whole command left, and its healthy lake, which is brought back at will."""

    folder: Path
    code: int
    server: Server
    restore: Callable[[], None]
    folders: pytest.TempPathFactory

    def lake_file(self, tables: str = "tables:\n") -> Path:
        """The file of the lake, which is healthy again, with results of its own."""
        self.restore()
        folder = self.folders.mktemp("demo")
        file = scenario.write_lake_file(folder / scenario.LAKE_FILE, folder / "results", self.server)
        file.write_text(file.read_text().replace("tables:\n", tables))
        return file

    def audited(self, draw: scenario.Draw, audit: Callable[[Lake], Outcome]) -> Comparison:
        """Break the healthy lake, audit it, and compare the findings."""
        lake = load_lake(self.lake_file(), {})
        made = scenario.damage(self.server.clients, draw, QUIET)
        assert len(made) == draw.faults
        return compare(made, *read_run(results_of(lake), audit(lake).run_id))


@pytest.fixture(scope="module")
def demo_run(
    spark: SparkSession, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DemoRun]:
    """The whole command, in this process's session and on its server."""
    from moto.s3.models import FakeKey

    server, restored, play = Server(s3), [], scenario.play
    server.create_buckets()

    def save_and_play(*given: Any) -> scenario.Verdict:
        restored.append(snapshot_server())
        return play(*given)

    def audit_here_and_repair(lake: Lake, *given: Any) -> RepairOutcome:
        """The same lake is audited again without a session, as of the same moment, before anything is repaired."""
        there = results_of(lake).last_published()
        assert there
        here = lake.model_copy(update={"results": Location(lake.results.bucket, f"{lake.results.key}-here")})
        audited(here, run_id=there["run_id"], clock=lambda: there["started_at"])
        assert_equal_results(here, lake)
        return repair(lake, *given)

    with pytest.MonkeyPatch.context() as patch:
        # what is brought back for the next draw must not have been closed with its last version
        patch.setattr(FakeKey, "dispose", lambda *_, **__: None)
        patch.setattr(scenario, "serving", lambda: nullcontext(server))
        patch.setattr(scenario, "play", save_and_play)
        patch.setattr(scenario, "repair", audit_here_and_repair)
        patch.setattr(SparkSession, "stop", lambda _: None)
        folder = tmp_path_factory.mktemp("demo_run") / "lake"
        code = scenario.run(folder, seed=None, faults=None, progress=QUIET)
        yield DemoRun(folder, code, server, restored[0], tmp_path_factory)
    forget()


def snapshot_server() -> Callable[[], None]:
    """What the server holds now; calling it brings all of that back, times and versions included."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.dynamodb.models import dynamodb_backends
    from moto.s3.models import s3_backends

    buckets = {name: s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[name] for name in (LAKE, INVENTORIES)}
    tables = dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables
    versions = {
        name: {key: list(bucket.keys.getlist(key)) for key in bucket.keys} for name, bucket in buckets.items()
    }
    rows = {name: copy.deepcopy(table) for name, table in tables.items() if name.startswith("demo-")}

    def restore() -> None:
        for name, bucket in buckets.items():
            bucket.keys.clear()
            bucket.multiparts.clear()
            bucket.inventory_configs.clear()
            bucket.rules.clear()
            for key, held in versions[name].items():
                bucket.keys.setlist(key, list(held))
        tables.update({name: copy.deepcopy(table) for name, table in rows.items()})

    return restore


@pytest.mark.variant
@pytest.mark.timeout(900)
def test_the_whole_command_leaves_its_page_and_results(demo_run: DemoRun) -> None:
    """What was broken was found and nothing else, all repairable faults were repaired, and the repairs were undone."""
    assert demo_run.code == 0
    _look_at(demo_run.folder)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_whole_command_in_a_process_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    line = [sys.executable, "-m", "lakeaudit", "demo", str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # which tell the seed
    _look_at(folder)


def _look_at(folder: Path) -> None:
    """What a reader finds there."""
    assert "What the demo broke" in (folder / "report.html").read_text(encoding="utf-8")
    assert load_lake(folder / "lake.yaml", {}).results.key == str(folder / "results")[1:]
    assert (folder / "results" / "findings" / "_delta_log").is_dir()
    assert len((folder / "delete-list.txt").read_text().splitlines()) == 3


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("_number", range(SOAK))
def test_what_was_broken_is_found_both_ways_and_nothing_else(
    demo_run: DemoRun, spark: SparkSession, _number: int
) -> None:
    draw = scenario.Draw.of(None, None)
    print(f"lakeaudit demo --seed {draw.seed}")  # noqa: T201 - to repeat it
    comparison = demo_run.audited(draw, partial(audited_both_ways, spark=spark))
    assert [difference.words for difference in comparison.differences] == []
    assert len(comparison.faults) >= USUAL_FAULTS[0]


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("_number", range(SOAK))
def test_faults_are_repaired_and_restored_by_the_undo(demo_run: DemoRun, _number: int) -> None:
    draw = scenario.Draw.of(None, None)
    print(f"lakeaudit demo --seed {draw.seed}")  # noqa: T201 - to repeat it
    file = demo_run.lake_file()
    lake = load_lake(file, {})
    scenario.damage(demo_run.server.clients, draw, QUIET)
    audited(lake)
    mended = repair(lake, file, demo_run.server.clients, random.Random(draw.seed), QUIET)
    print(mended.summary)  # noqa: T201 - pytest shows it with a failure
    assert mended.well, mended.summary


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_all_acts_together_are_distinguished(demo_run: DemoRun) -> None:
    draw = scenario.Draw(scenario.Draw.of(None, None).seed, len(CATALOGUE))
    print(f"seed {draw.seed}")  # noqa: T201 - to repeat it
    comparison = demo_run.audited(draw, audited)
    assert [difference.words for difference in comparison.differences] == []


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_healthy_lake_has_no_finding_at_all(demo_run: DemoRun) -> None:
    """The whole command proves the same of all that it did not break: one finding more and it fails."""
    comparison = demo_run.audited(scenario.Draw.of(1, 0), audited)
    assert [difference.words for difference in comparison.differences] == []


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_writer_at_work_during_the_audit_disturbs_nothing(
    demo_run: DemoRun, spark: SparkSession, s3: Endpoint
) -> None:
    draw = scenario.Draw.of(None, None)
    print(f"lakeaudit demo --seed {draw.seed}")  # noqa: T201 - to repeat it
    file = demo_run.lake_file(WITH_TICKS)
    lake = load_lake(file, {})
    with BusyWriter(f"s3://{LAKE}/{TICKS}", delta_rs_options(s3, LAKE)) as writer:
        made = scenario.damage(demo_run.server.clients, draw, QUIET)
        comparison = scenario.judge(spark, lake, file, made, draw, QUIET)[0]
    assert [difference.words for difference in comparison.differences] == []
    assert writer.rounds > 3


@pytest.mark.parametrize("faults", [-1, MOST_FAULTS + 1])
def test_a_number_of_faults_that_cannot_be_made_is_refused(faults: int) -> None:
    with pytest.raises(BadInput, match="use 0 to 100"):
        scenario.Draw.of(1, faults)


def test_a_draw_is_the_same_for_the_same_seed() -> None:
    assert scenario.Draw.of(5, None) == scenario.Draw.of(5, None)
    low, high = USUAL_FAULTS
    assert all(low <= scenario.Draw.of(seed, None).faults <= high for seed in range(200))


def test_only_a_folder_of_the_demo_is_replaced(tmp_path: Path) -> None:
    scenario.prepare(tmp_path / "lake")
    (tmp_path / "lake" / "old").touch()
    scenario.prepare(tmp_path / "lake")
    assert [path.name for path in (tmp_path / "lake").iterdir()] == [MARK]
    mine = tmp_path / "mine"
    mine.mkdir()
    scenario.prepare(mine)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    with pytest.raises(BadInput, match="is not a folder of a demo"):
        scenario.prepare(tmp_path / "other")
    assert (tmp_path / "other" / "thesis.txt").exists()
