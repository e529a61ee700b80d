"""A Spark standalone cluster on this machine: a master and two workers in one JVM, and their children."""

import json
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from py4j.java_gateway import GatewayParameters, JavaGateway

from lakeaudit.runtime.install import make_ready
from lakeaudit.runtime.java import find_java
from lakeaudit.runtime.spark_settings import launch_environment
from tests.builders.submit import BRIEF_JVM
from tests.builders.wheel import script_of

OTHER_SPARK = os.environ.get("SPARK_PYTHON")
"""An interpreter that has another version of Spark (`make check-spark`)."""
PATIENCE = 400.0
WORKERS = 2
LESS_IN_THE_DRIVER = """
from lakeaudit.engine.spark import SparkEngine

SparkEngine.__init__.__defaults__ = ({bytes_here}, *SparkEngine.__init__.__defaults__[1:])

"""
"""Put before the script: the few files of a test are work for executors, too."""
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
HOST = "127.0.0.1"
DRIVER = (
    ("spark.driver.memory", "768m"),
    ("spark.driver.defaultJavaOptions", BRIEF_JVM),
    ("spark.executor.defaultJavaOptions", BRIEF_JVM),
    ("spark.executor.memory", "1g"),
    ("spark.executor.cores", "1"),
    ("spark.ui.enabled", "false"),
)


@dataclass(frozen=True)
class Cluster:
    """Where it is, and the process of its workers, each of which starts one executor for each application."""

    master: str
    folder: Path
    worker: int

    def executors(self) -> dict[str, int]:
        """Process ids of the executors at work, by the executor's own id."""
        commands = {pid: _command(pid) for pid, parent in _parents().items() if parent == self.worker}
        return {_id(line): pid for pid, line in commands.items() if EXECUTOR in line}

    def logs(self) -> dict[str, str]:
        """Return the output of each executor by its id, including finished ones."""
        files = self.folder.glob("work-*/*/*/stderr")
        return {file.parent.name: file.read_text(errors="replace") for file in files}


def _id(command: list[str]) -> str:
    return command[command.index("--executor-id") + 1]


@contextmanager
def standing(folder: Path, cores: int = 1, memory: int = 1024) -> Iterator[Cluster]:
    """A master and two workers, of one core and 1 GiB each; with the block they and all they started are gone.

    They are Spark's own and talk over the network, but run in one JVM: each JVM more takes 3 s of CPU time.
    """
    with java_gateway(folder) as (process, gateway):
        spark, none = gateway.jvm.org.apache.spark, gateway.jvm.scala.Option.empty()
        conf = spark.SparkConf(False)
        master = spark.deploy.master.Master.startRpcEnvAndEndpoint(HOST, 0, 0, conf)
        addresses = gateway.new_array(gateway.jvm.java.lang.String, 1)
        addresses[0] = address = master._1().address().toSparkURL()
        for number in range(WORKERS):
            place, id_ = str(folder / f"work-{number}"), gateway.jvm.scala.Option.apply(number)
            spark.deploy.worker.Worker.startRpcEnvAndEndpoint(
                HOST, 0, 0, cores, memory, addresses, place, id_, conf, none
            )
        _wait_for_workers(master._2())
        assert process.poll() is None
        yield Cluster(address, folder, process.pid)


@contextmanager
def java_gateway(
    folder: Path, jars: Iterable[Path] = (), options: Iterable[str] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], JavaGateway]]:
    """A JVM with Spark's classes and more jars, which leads a process group of its own."""
    address = folder / "gateway"
    env = spark_environment(folder)
    env |= {
        "SPARK_CONF_DIR": str(folder / "no-conf"),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        # the launcher of executors takes it from spark-submit's environment
        "SPARK_SCALA_VERSION": _scala_of(env["SPARK_HOME"]),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address),
    }
    line = [
        f"{env['JAVA_HOME']}/bin/java",
        *BRIEF_JVM.split(),
        "-Xmx512m",
        *options,
        "-cp",
        ":".join([f"{env['SPARK_HOME']}/jars/*", *map(str, jars)]),
    ]
    with (folder / "cluster.log").open("wb") as log:
        process = subprocess.Popen(
            [*line, "org.apache.spark.api.python.PythonGatewayServer"], cwd=folder, env=env, stdin=subprocess.PIPE,
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        _wait(lambda: address.exists() or process.poll(), folder / "cluster.log")
        with address.open("rb") as written:
            port, size = struct.unpack(">ii", written.read(8))
            token = written.read(size).decode()
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        yield process, gateway
        gateway.close()
    finally:
        _end(process.pid)
        process.communicate()


def _wait_for_workers(port: int) -> None:
    """Wait until the master's page at this port lists all workers."""
    last = time.monotonic() + PATIENCE
    while True:
        with urlopen(f"http://{HOST}:{port}/json/") as page:
            state = json.load(page)
        if state["aliveworkers"] == WORKERS:
            return
        assert time.monotonic() < last, state
        time.sleep(0.05)


def _end(group: int) -> None:
    """Every process below a daemon: executors lead no group of their own, but their Python daemons do."""
    for pid in [*_family(group), group]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def spark_environment(folder: Path) -> dict[str, str]:
    """This interpreter's Spark and a Java for it, and nothing else of the kind.

    Spark's home is a folder of links without Spark's library for Python as archives: every process would compile the
    modules that it imports from them, and the interpreters have the same library installed.
    """
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK", "PYSPARK", "JAVA", "PYTHON"))}
    env = clean | launch_environment(find_java(os.environ)) | {"SPARK_LOCAL_IP": HOST}
    home = folder / "spark"
    home.mkdir()
    spark = _spark_of(OTHER_SPARK) if OTHER_SPARK else Path(env["SPARK_HOME"])
    for name in ("bin", "jars"):
        (home / name).symlink_to(spark / name)
    return env | {"SPARK_HOME": str(home)}


def _spark_of(python: str) -> Path:
    """The folder of an interpreter's Spark."""
    code = "import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)"
    return Path(
        subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    )


def _scala_of(home: str) -> str:
    """The version of Scala in the name of Spark's own jar."""
    (jar,) = Path(home, "jars").glob("spark-core_*.jar")
    return jar.name.removeprefix("spark-core_").partition("-")[0]


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
    more: Iterable[tuple[str, str]] = (),
) -> Iterator[Job]:
    """`spark-submit` as docs/deploy.md says it: the wheel by --py-files, the interpreter by PYSPARK_PYTHON.

    Evidence of fewer than `bytes_here` bytes is read by the driver, and with 0 nothing is. `more` are settings.
    """
    make_ready(home / "conf", os.environ)
    (home / "audit.py").write_text(
        LESS_IN_THE_DRIVER.format(bytes_here=bytes_here) + script_of(wheel).read_text()
    )
    env = spark_environment(home) | {
        "SPARK_CONF_DIR": str(home / "conf"),
        "SPARK_LOCAL_DIRS": str(home / "scratch"),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "TZ": "America/St_Johns",
    }
    settings = [f"--conf={name}={value}" for name, value in (*DRIVER, *more)]
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


def _wait(come: Callable[[], object], log: Path) -> None:
    last = time.monotonic() + PATIENCE
    while not come():
        assert time.monotonic() < last, log.read_text(errors="replace")[-3000:]
        time.sleep(0.05)


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
