"""The demo: whatever is broken in a lake that Spark and others wrote, the audit finds it, and nothing else."""

import copy
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.aws import Endpoint
from lakeaudit.config.load import load_lake
from lakeaudit.demo import MOST_FAULTS, USUAL_FAULTS, story
from lakeaudit.demo.compare import Comparison
from lakeaudit.demo.server import INVENTORIES, LAKE, Server, forget
from lakeaudit.errors import BadInput
from lakeaudit.progress import SilentProgress

QUIET = SilentProgress()
SEEDS = [random.SystemRandom().randrange(1_000_000) for _ in range(20)]
"""Drawn anew for every test run; a failing test's name says which."""

Audit = Callable[[story.Draw], Comparison]


@pytest.fixture(scope="module")
def audit_damaged(
    spark: SparkSession, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Audit]:
    """Breaks the one healthy lake anew for every draw, and audits it."""
    from moto.s3.models import FakeKey

    # what is brought back for the next draw must not have been closed with its last version
    dispose, FakeKey.dispose = FakeKey.dispose, lambda *_, **__: None  # type: ignore[method-assign]
    server = Server(s3)
    server.create_buckets()
    story.build(spark, server, QUIET)
    restore = remembered()

    def audited(draw: story.Draw) -> Comparison:
        restore()
        made = story.damage(server.clients, draw, QUIET)
        assert len(made) == draw.faults
        lake = load_lake(story.write_lake_file(tmp_path_factory.mktemp("demo"), server), {})
        return story.judge(spark, lake, made, draw, QUIET).comparison

    try:
        yield audited
    finally:
        FakeKey.dispose = dispose  # type: ignore[method-assign]
        forget()


def remembered() -> Callable[[], None]:
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
            for key, held in versions[name].items():
                bucket.keys.setlist(key, list(held))
        tables.update({name: copy.deepcopy(table) for name, table in rows.items()})

    return restore


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [*SEEDS[:3], *(pytest.param(s, marks=pytest.mark.soak) for s in SEEDS[3:])])
def test_what_was_broken_is_found_and_nothing_else(audit_damaged: Audit, seed: int) -> None:
    comparison = audit_damaged(story.Draw.of(seed, None))
    assert [difference.words for difference in comparison.differences] == []
    assert len(comparison.faults) >= USUAL_FAULTS[0]


@pytest.mark.timeout(600)
def test_a_healthy_lake_has_no_finding_at_all(audit_damaged: Audit) -> None:
    assert [difference.words for difference in audit_damaged(story.Draw.of(1, 0)).differences] == []


@pytest.mark.timeout(900)
@pytest.mark.spark
def test_the_whole_command_leaves_its_page_and_results(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    code = (
        "import sys; from pathlib import Path; from lakeaudit.demo import run; "
        "from lakeaudit.progress import SilentProgress; "
        "sys.exit(run(Path(sys.argv[1]), seed=None, faults=None, progress=SilentProgress()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "What the demo broke" in (folder / "report.html").read_text(encoding="utf-8")
    assert load_lake(folder / "lake.yaml", {}).results.key == str(folder / "results")[1:]
    assert (folder / "results" / "findings" / "_delta_log").is_dir()


@pytest.mark.parametrize("faults", [-1, MOST_FAULTS + 1])
def test_a_number_of_faults_that_cannot_be_made_is_refused(faults: int) -> None:
    with pytest.raises(BadInput, match="ask for 0 to 40"):
        story.Draw.of(1, faults)


def test_a_draw_is_the_same_for_the_same_seed() -> None:
    assert story.Draw.of(5, None) == story.Draw.of(5, None)
    low, high = USUAL_FAULTS
    assert all(low <= story.Draw.of(seed, None).faults <= high for seed in range(200))


def test_only_a_folder_of_the_demo_is_replaced(tmp_path: Path) -> None:
    story.prepare(tmp_path / "lake")
    (tmp_path / "lake" / "old").touch()
    story.prepare(tmp_path / "lake")
    assert [path.name for path in (tmp_path / "lake").iterdir()] == [story.MARK]
    mine = tmp_path / "mine"
    mine.mkdir()
    story.prepare(mine)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    with pytest.raises(BadInput, match="not a folder that a demo left"):
        story.prepare(tmp_path / "other")
    assert (tmp_path / "other" / "thesis.txt").exists()
