"""The demo: whatever is broken in a lake that Spark and others wrote, the audit finds it, and nothing else."""

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.aws import Endpoint, delta_rs_options
from lakeaudit.config.load import load_lake
from lakeaudit.demo import MOST_FAULTS, USUAL_FAULTS, story
from lakeaudit.demo.compare import Comparison
from lakeaudit.demo.server import INVENTORIES, LAKE, Server, forget
from lakeaudit.errors import BadInput
from lakeaudit.progress import SilentProgress
from tests.builders.writer import BusyWriter

QUIET = SilentProgress()
QUICK, SOAK = 2, 20
"""How many seeds are drawn in `make test` beside that of the whole command, and in the soak."""

Audit = Callable[..., Comparison]

TICKS = "lakehouse/ticks"
"""A table that the breaker does not know of, with the waits of a real lake, only shorter."""
WITH_TICKS = f"""tables:
  - name: soak.ticks
    location: s3://{LAKE}/{TICKS}
    manifests: [{{kind: delta}}]
    grace: 3s
    leftover_age: 60s
"""


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
    with ThreadPoolExecutor(1) as beside:
        story.build(spark, server, beside.submit(story.build_without_spark, server), QUIET)
    restore = remembered()

    def audited(
        draw: story.Draw, meanwhile: AbstractContextManager[object] | None = None, tables: str = "tables:\n"
    ) -> Comparison:
        restore()
        with meanwhile or nullcontext():
            made = story.damage(server.clients, draw, QUIET)
            assert len(made) == draw.faults
            file = story.write_lake_file(tmp_path_factory.mktemp("demo"), server)
            file.write_text(file.read_text().replace("tables:\n", tables))
            return story.judge(spark, load_lake(file, {}), made, draw, QUIET).comparison

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
@pytest.mark.parametrize(
    "_number", [*range(QUICK), *(pytest.param(n, marks=pytest.mark.soak) for n in range(QUICK, QUICK + SOAK))]
)
def test_what_was_broken_is_found_and_nothing_else(audit_damaged: Audit, _number: int) -> None:
    draw = story.Draw.of(None, None)
    print(f"lakeaudit demo --seed {draw.seed}")  # noqa: T201 - to repeat it
    comparison = audit_damaged(draw)
    assert [difference.words for difference in comparison.differences] == []
    assert len(comparison.faults) >= USUAL_FAULTS[0]


@pytest.mark.timeout(600)
def test_a_healthy_lake_has_no_finding_at_all(audit_damaged: Audit) -> None:
    assert [difference.words for difference in audit_damaged(story.Draw.of(1, 0)).differences] == []


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_writer_at_work_during_the_audit_disturbs_nothing(audit_damaged: Audit, s3: Endpoint) -> None:
    draw = story.Draw.of(None, None)
    print(f"lakeaudit demo --seed {draw.seed}")  # noqa: T201 - to repeat it
    writer = BusyWriter(f"s3://{LAKE}/{TICKS}", delta_rs_options(s3, LAKE))
    comparison = audit_damaged(draw, writer, WITH_TICKS)
    assert [difference.words for difference in comparison.differences] == []
    assert writer.rounds > 3


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
    assert done.returncode == 0, done.stdout + done.stderr  # which tell the seed
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
