"""The built wheel on a Spark standalone cluster: the same rows as in one process, with executors that are lost as well.

The interpreter of the driver and the executors has no lakeaudit: they import it from `--py-files`.
"""

import json
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeaudit.config import load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited
from tests.builders.biglake import BigLake
from tests.builders.catcher import catching
from tests.builders.cluster import PATIENCE, Cluster, Job, standing, submitted
from tests.builders.frozen import NIGHTLY, RECEIVER, Frozen, assert_same, freeze, tables_at
from tests.conftest import Aws

pytestmark = pytest.mark.variant

OPTIONS = ("--run-id", NIGHTLY, "--status-file", "status.json")


@pytest.fixture(scope="module")
def frozen(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frozen]:
    with catching() as caught, pytest.MonkeyPatch.context() as patch:
        patch.setenv(RECEIVER, f"json://127.0.0.1:{caught.port}/")
        yield freeze(aws, s3, tmp_path_factory.mktemp("frozen"), caught.posts, firsts={True})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with standing(folder) as cluster:
        yield cluster


@pytest.mark.timeout(900)
def test_a_cluster_audits_from_the_wheel_as_one_process_does(
    frozen: Frozen, cluster: Cluster, wheel: Path, python: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    frozen.lake(home, first=True)
    arguments = ("lake.yaml", *OPTIONS, "--as-of", frozen.as_of.isoformat())
    with submitted(cluster, home, wheel, python, *arguments) as job:
        code = job.wait()
    assert code == 1, job.output + "".join(cluster.logs().values())  # critical findings
    assert_same(tables_at(home / "results"), frozen.expected[True])
    assert json.loads((home / "status.json").read_text())["exit_code"] == 1
    assert all("Finished task" in log for log in cluster.logs().values()), "both executors were at work"


LOST = 60_000
"""Files of the lake whose audit loses executors."""
WITHOUT_ALERTS = ("runs", "coverage", "leftover_files", "findings", "transitions", "discrepancies")


DECOMMISSION = [
    ("spark.decommission.enabled", "true"),
    ("spark.storage.decommission.enabled", "true"),
    ("spark.storage.decommission.rddBlocks.enabled", "true"),
    ("spark.storage.decommission.shuffleBlocks.enabled", "true"),
]
LOSSES = {
    "killed": (signal.SIGKILL, [], ""),
    "decommissioned": (signal.SIGPWR, DECOMMISSION, "Decommission executor"),
}
"""By the way in which executors end: signal, settings, and what the log of an executor then contains."""


@pytest.fixture(scope="module")
def big(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, datetime]:
    """A folder with the lake file and the results of an audit in one process, and the time of this audit."""
    folder = tmp_path_factory.mktemp("big")
    lake = BigLake(f"test-{uuid.uuid4().hex[:12]}", LOST)
    lake.lay(aws.s3, folder)
    as_of = datetime.now(UTC)
    audited(load_lake(lake.lake_file(folder, s3), {}), run_id=NIGHTLY, as_of=as_of)
    return folder, as_of


def _home_of(big: Path, home: Path) -> Path:
    """A folder with the same lake file, and without results."""
    home.mkdir()
    text = (big / "lake.yaml").read_text().replace(f"{big}/results", f"{home}/results")
    (home / "lake.yaml").write_text(text)
    return home


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", LOSSES)
def test_executors_lost_in_mid_audit_change_no_row(
    big: tuple[Path, datetime], cluster: Cluster, wheel: Path, python: Path, tmp_path: Path, way: str
) -> None:
    """One is lost while it reads, the other after the exchange, so that rows which others wait for are lost."""
    sign, settings, logged = LOSSES[way]
    folder, as_of = big
    home = _home_of(folder, tmp_path / "home")
    arguments = ("lake.yaml", *OPTIONS, "--as-of", as_of.isoformat())
    with submitted(cluster, home, wheel, python, *arguments, bytes_here=0, more=settings) as job:
        _until(job, lambda: '"stage": "find evidence"' in job.output)
        earlier = _stages(cluster, "0") | _stages(cluster, "1")
        for executor, stages in (("0", 1), ("1", 2)):
            _until(job, lambda: len(_stages(cluster, executor) - earlier) >= stages)  # noqa: B023 - called at once
            os.kill(cluster.executors()[executor], sign)
        code = job.wait()
    assert code == 1, job.output + "".join(cluster.logs().values())
    assert len(cluster.logs()) > 2, "Spark has put others in their place"
    assert all(logged in cluster.logs()[executor] for executor in "01")
    assert_same(tables_at(home / "results", WITHOUT_ALERTS), tables_at(folder / "results", WITHOUT_ALERTS))


@contextmanager
def _disk(folder: Path, size: str) -> Iterator[None]:
    """A small disk at a folder, while the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False)
    if done.returncode:
        pytest.skip("this user cannot mount a disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_executors_without_disk_space_end_the_audit_with_the_reason(
    big: tuple[Path, datetime], cluster: Cluster, wheel: Path, python: Path, tmp_path: Path
) -> None:
    """Nothing is published: an audit that lacks rows would report lost files."""
    folder, as_of = big
    home = _home_of(folder, tmp_path / "home")
    arguments = ("lake.yaml", *OPTIONS, "--as-of", as_of.isoformat())
    with _disk(cluster.folder / "scratch", "2m"):
        with submitted(cluster, home, wheel, python, *arguments, bytes_here=0) as job:
            code = job.wait()
        assert code == 14, job.output + "".join(cluster.logs().values())
    assert "disk is full" in json.loads((home / "status.json").read_text())["error"]
    assert not (home / "results" / "findings").exists()


def _stages(cluster: Cluster, executor: str) -> set[str]:
    """The stages of which an executor has begun tasks."""
    return set(re.findall(r"Running task \S+ in stage (\S+)", cluster.logs().get(executor, "")))


def _until(job: Job, come: Callable[[], bool]) -> None:
    """Wait for a moment of an audit that is under way."""
    last = time.monotonic() + PATIENCE
    while not come():
        assert job.process.poll() is None, job.output
        assert time.monotonic() < last, job.output
        time.sleep(0.05)
