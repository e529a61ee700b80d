"""A million files in three sources and 300,000 findings, on executors of their own, with a driver of 768 MiB.

`LAKEAUDIT_SOAK_FILES` sets another number of files.
"""

import json
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakeaudit.config import load_lake
from lakeaudit.kinds import FILE_AXES
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.install import make_ready
from lakeaudit.runtime.java import find_java
from lakeaudit.runtime.spark_settings import launch_environment
from tests.bench.watch import family
from tests.builders.biglake import TABLE, BigLake
from tests.conftest import Aws

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

FILES = int(os.environ.get("LAKEAUDIT_SOAK_FILES", "1000000"))
ROOT = Path(__file__).parents[2]
RUN = "big"
CLUSTER = ("--master", "local-cluster[2,1,2048]", "--driver-memory", "768m", "--executor-memory", "2048m")
SETTINGS = ("--conf", "spark.driver.maxResultSize=16m", "--conf", "spark.ui.enabled=false")


@dataclass
class Peaks:
    """The peak resident memory by kind of process, in KiB."""

    root: int
    by_kind: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        for pid in family(self.root):
            kind, peak = _kind(pid), _peak(pid)
            if kind and peak:
                self.by_kind[kind] = max(self.by_kind.get(kind, 0), peak)


def _peak(pid: int) -> int:
    lines = _text(Path(f"/proc/{pid}/status")).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def _kind(pid: int) -> str:
    command = _text(Path(f"/proc/{pid}/cmdline"))
    signs = {
        "CoarseGrainedExecutorBackend": "executor JVM",
        "lakeaudit.runtime.python_worker": "executor Python",
        "deploy.SparkSubmit": "driver JVM",
        "audit.py": "driver Python",
    }
    return next((kind for sign, kind in signs.items() if sign in command), "")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process has ended
        return ""


@contextmanager
def watched(pid: int) -> Iterator[Peaks]:
    peaks, over = Peaks(pid), threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            peaks.look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peaks
    finally:
        over.set()
        watcher.join()


@dataclass(frozen=True)
class Submitted:
    """The output of one spark-submit, and the resources that it used."""

    summary: dict[str, Any]
    stages: dict[str, float]
    seconds: float
    peaks: dict[str, int]


def submit(lake_file: Path) -> Submitted:
    """The documented line, with a cluster's master and a small driver."""
    folder = lake_file.parent
    make_ready(folder / "spark-conf", os.environ)
    environment = os.environ | launch_environment(find_java(os.environ))
    environment |= {"SPARK_CONF_DIR": str(folder / "spark-conf"), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_LOCAL_DIRS": str(folder / "scratch"), "SPARK_WORKER_DIR": str(folder / "work")}
    line = [
        f"{environment['SPARK_HOME']}/bin/spark-submit",
        *CLUSTER,
        *SETTINGS,
        "jobs/audit.py",
        str(lake_file),
    ]
    line += ["--run-id", RUN, "--fail-on", "never", "--status-file", str(folder / "status.json")]
    begun = time.monotonic()
    with (folder / "out").open("wb") as out:  # spark-submit gives what Python tells on stderr to stdout
        process = subprocess.Popen(line, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            with watched(process.pid) as peaks:
                code = process.wait()
        finally:
            process.kill()
    seconds = time.monotonic() - begun
    told = (folder / "out").read_text(errors="replace")
    assert code == 0, told[-5000:]
    lines = [json.loads(text) for text in told.splitlines() if text.startswith('{"time"')]
    stages = {each["stage"]: each["seconds"] for each in lines}
    return Submitted(json.loads((folder / "status.json").read_text()), stages, seconds, peaks.by_kind)


def test_a_million_files_are_audited_exactly_by_a_small_driver(
    aws: Aws, s3: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = BigLake(f"test-{uuid.uuid4().hex[:12]}", FILES)
    big.lay(aws.s3, tmp_path)
    lake_file = big.lake_file(tmp_path, s3)
    done = submit(lake_file)
    with capsys.disabled():
        print(_figures(done))  # noqa: T201 - docs/benchmark.md describes the figures
    assert (done.summary["status"], done.summary["findings"]) == ("complete", big.expected)
    shares = {axis: told["decided_share"] for axis, told in done.summary["coverage"][TABLE].items()}
    assert {axis: shares[axis] for axis in FILE_AXES} == dict.fromkeys(FILE_AXES, 1.0)
    _check_results(lake_file, big)


def _check_results(lake_file: Path, big: BigLake) -> None:
    """What the commands read: counts over all findings, each file once, and the worst of them."""
    lake = load_lake(lake_file, {})
    results = Results(lake.results, clients_of(lake), lake.name)
    assert results.published(None)["run_id"] == RUN
    (content,) = [row for row in results.coverage(RUN) if row["axis"] == "content"]
    assert (content["files"], content["findings"]) == (
        big.files, big.expected["dropped"] + big.expected["size_mismatch"],
    )  # fmt: skip
    keys: dict[str, set[str]] = {kind: set() for kind in big.expected}
    for batch in results.findings(RUN):
        for kind, subject in zip(
            batch.column("kind").to_pylist(), batch.column("subject").to_pylist(), strict=True
        ):
            keys[kind].add(subject)
    assert {kind: len(found) for kind, found in keys.items()} == big.expected
    assert keys["dropped"] == {f"s3://{big.bucket}/{key}" for key in big.dropped()}
    assert {row["severity"] for row in results.worst(RUN, 3)} == {"critical"}
    left = DeltaTable(str(Path(lake.results.spark_path, "leftover_files"))).to_pyarrow_dataset().count_rows()
    assert left == big.strays


def _figures(done: Submitted) -> str:
    stages = "".join(f"\n  {name}: {seconds:.1f} s" for name, seconds in done.stages.items())
    peaks = "".join(f"\n  {kind}: {peak / 1024:.0f} MiB" for kind, peak in sorted(done.peaks.items()))
    rate = FILES / done.seconds
    return f"\n{FILES} files x 3 sources in {done.seconds:.1f} s, {rate:.0f} files/s{stages}\npeak RSS{peaks}"
