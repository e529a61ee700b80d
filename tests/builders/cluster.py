"""A Spark standalone cluster of processes on this machine: a master, two workers and their children."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lakeaudit.runtime.install import make_ready
from lakeaudit.runtime.java import find_java
from lakeaudit.runtime.spark_settings import launch_environment
from tests.builders.wheel import script_of

PATIENCE = 120.0
WORKERS = 2
_LESS_IN_THE_DRIVER = """
from lakeaudit.engine.spark import SparkEngine

SparkEngine.__init__.__defaults__ = ({bytes_here}, *SparkEngine.__init__.__defaults__[1:])

"""
"""Put before the script: the few files of a test are work for executors, too."""
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
CHEAP = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
DRIVER = (
    ("spark.driver.memory", "768m"),
    ("spark.driver.defaultJavaOptions", CHEAP),
    ("spark.executor.defaultJavaOptions", CHEAP),
    ("spark.executor.memory", "1g"),
    ("spark.executor.cores", "1"),
    ("spark.ui.enabled", "false"),
)


@dataclass(frozen=True)
class Cluster:
    """Where it is, and the processes of its workers, each of which starts one executor for each application."""

    master: str
    folder: Path
    workers: Sequence[int]

    def executors(self) -> dict[str, int]:
        """Process ids of the executors at work, by the executor's own id."""
        commands = {pid: _command(pid) for pid, parent in _parents().items() if parent in self.workers}
        return {_id(line): pid for pid, line in commands.items() if EXECUTOR in line}

    def logs(self) -> dict[str, str]:
        """Return the output of each executor by its id, including finished ones."""
        files = self.folder.glob("work-*/*/*/stderr")
        return {file.parent.name: file.read_text(errors="replace") for file in files}


def _id(command: list[str]) -> str:
    return command[command.index("--executor-id") + 1]


@contextmanager
def standing(folder: Path) -> Iterator[Cluster]:
    """A master and two workers of one core and 1 GiB each; with the block they and all they started are gone."""
    with ExitStack() as stack:
        master = stack.enter_context(_daemon(folder, "master", "org.apache.spark.deploy.master.Master"))
        address = _wait_for_log(folder / "master.log", r"Starting Spark master at (spark://\S+)")
        workers = [
            stack.enter_context(_daemon(folder, f"worker-{number}", *_worker(folder, number), address))
            for number in range(WORKERS)
        ]
        for number in range(WORKERS):
            _wait_for_log(folder / f"worker-{number}.log", r"Successfully registered with (master)")
        assert master.poll() is None
        yield Cluster(address, folder, [worker.pid for worker in workers])


def _worker(folder: Path, number: int) -> tuple[str, ...]:
    size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"))
    return ("org.apache.spark.deploy.worker.Worker", *size)


@contextmanager
def _daemon(folder: Path, name: str, main: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One daemon in a process group of its own, with the executors and Python workers that it starts."""
    env = spark_environment() | {
        "SPARK_CONF_DIR": str(folder / "no-conf"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": CHEAP,
        "SPARK_LOCAL_DIRS": str(folder / f"scratch-{name}"),
    }
    line = [
        f"{env['SPARK_HOME']}/bin/spark-class",
        main,
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--webui-port",
        "0",
    ]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*line, *arguments],
            cwd=folder,
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process.pid)
        process.wait()


def _end(group: int) -> None:
    """Every process below a daemon: executors lead no group of their own, but their Python daemons do."""
    for pid in [*_family(group), group]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def spark_environment() -> dict[str, str]:
    """This interpreter's Spark and a Java for it, and nothing else of the kind."""
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK", "PYSPARK", "JAVA", "PYTHON"))}
    return clean | launch_environment(find_java(os.environ)) | {"SPARK_LOCAL_IP": "127.0.0.1"}


@dataclass(frozen=True)
class Job:
    """An audit that was submitted from `home`, which holds the lake file and nothing of the checkout."""

    home: Path
    process: "subprocess.Popen[bytes]"

    @property
    def output(self) -> str:
        """Return what both streams hold so far."""
        return (self.home / "told").read_text(errors="replace")

    def wait(self) -> int:
        """Wait for the end; return the exit code."""
        return self.process.wait(PATIENCE)


@contextmanager
def submitted(
    cluster: Cluster,
    home: Path,
    wheel: Path,
    python: Path,
    *arguments: str,
    bytes_here: int = 1,
) -> Iterator[Job]:
    """`spark-submit` as docs/deploy.md says it: the wheel by --py-files, the interpreter by PYSPARK_PYTHON.

    Evidence of fewer than `bytes_here` bytes is read by the driver, and with 0 nothing is.
    """
    make_ready(home / "conf", os.environ)
    (home / "audit.py").write_text(
        _LESS_IN_THE_DRIVER.format(bytes_here=bytes_here) + script_of(wheel).read_text()
    )
    env = spark_environment() | {
        "SPARK_CONF_DIR": str(home / "conf"),
        "SPARK_LOCAL_DIRS": str(home / "scratch"),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "TZ": "America/St_Johns",
    }
    settings = [f"--conf={name}={value}" for name, value in DRIVER]
    line = [
        f"{env['SPARK_HOME']}/bin/spark-submit",
        "--master",
        cluster.master,
        "--py-files",
        str(wheel),
        *settings,
    ]
    with (home / "told").open("wb") as told:
        process = subprocess.Popen(
            [*line, "audit.py", *arguments], cwd=home, env=env, stdout=told, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield Job(home, process)
    finally:
        _end(process.pid)
        process.wait()


def _wait_for_log(log: Path, pattern: str) -> str:
    """Wait until a daemon's log matches the pattern; return its first group."""
    last = time.monotonic() + PATIENCE
    while (found := re.search(pattern, text := log.read_text(errors="replace"))) is None:
        assert time.monotonic() < last, text[-3000:]
        time.sleep(0.05)
    return found[1]


def _family(root: int) -> set[int]:
    """All descendants of a process."""
    parents, found = _parents(), {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def _parents() -> dict[int, int]:
    pairs = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                pairs[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    return pairs


def _command(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    return []
