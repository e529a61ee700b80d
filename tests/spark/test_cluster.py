"""The built wheel on a Spark standalone cluster: the same rows as in one process, with an executor lost as well.

The interpreter of the driver and the executors has no lakeaudit: they import it from `--py-files`.
"""

import json
import os
import re
import signal
import time
import uuid
from collections.abc import Callable, Iterator
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


@pytest.mark.timeout(300)
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


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_executors_lost_in_mid_audit_change_no_row(
    aws: Aws, s3: Endpoint, cluster: Cluster, wheel: Path, python: Path, tmp_path: Path
) -> None:
    """One is killed while it reads, the other after the exchange, so that rows which others wait for are lost."""
    big = BigLake(f"test-{uuid.uuid4().hex[:12]}", LOST)
    big.lay(aws.s3, tmp_path)
    lake = load_lake(big.lake_file(tmp_path, s3), {})
    as_of = datetime.now(UTC)
    audited(lake, run_id=NIGHTLY, as_of=as_of)
    home = tmp_path / "home"
    home.mkdir()
    text = (tmp_path / "lake.yaml").read_text().replace(f"{tmp_path}/results", f"{home}/results")
    (home / "lake.yaml").write_text(text)
    arguments = ("lake.yaml", *OPTIONS, "--as-of", as_of.isoformat())
    with submitted(cluster, home, wheel, python, *arguments, bytes_here=0) as job:
        _until(job, lambda: '"stage": "find evidence"' in job.output)
        earlier = _stages(cluster, "0") | _stages(cluster, "1")
        for executor, stages in (("0", 1), ("1", 2)):
            _until(job, lambda: len(_stages(cluster, executor) - earlier) >= stages)  # noqa: B023 - called at once
            os.kill(cluster.executors()[executor], signal.SIGKILL)
        code = job.wait()
    assert code == 1, job.output + "".join(cluster.logs().values())
    assert len(cluster.logs()) > 2, "Spark has put others in their place"
    assert_same(tables_at(home / "results", WITHOUT_ALERTS), tables_at(tmp_path / "results", WITHOUT_ALERTS))


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
