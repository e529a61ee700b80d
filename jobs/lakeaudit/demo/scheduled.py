"""`python -m lakeaudit.demo.scheduled AIRFLOW DAGS [DIR]`: a broken demo lake that Airflow audits on this machine.

Serves the lake, starts Airflow's own all-in-one on free loopback ports, says where it is, and ends both on Ctrl-C.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen, TimeoutExpired

import requests

from lakeaudit.demo.server import serving
from lakeaudit.demo.story import Draw, build, build_without_spark, damage, prepare, write_lake_file
from lakeaudit.errors import AuditError, CannotAudit
from lakeaudit.progress import Progress, progress_on

PATIENCE = 180
"""Seconds until Airflow has to answer."""
CONF, HOME, LOG = "conf", "airflow", "airflow.log"


@dataclass(frozen=True)
class Service:
    """A running Airflow; `env` is that of `airflow` commands that speak of it."""

    url: str
    env: Mapping[str, str]


def main(arguments: list[str]) -> int:
    """Build, serve, wait; 0 when it was ended by hand."""
    airflow, dags, *folder = map(Path, arguments)
    try:
        with ExitStack() as stack:
            home = stack.enter_context(
                lake_served(folder[0] if folder else Path("demo-airflow"), progress_on(sys.stderr))
            )
            service = stack.enter_context(airflow_served(airflow.absolute(), dags.absolute(), home))
            print(f"Airflow: {service.url}/dags/lake_audit_demo   the lake file: {home / CONF / 'demo.yaml'}")  # noqa: T201
            print("Ctrl-C ends Airflow and the lake", flush=True)  # noqa: T201
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except AuditError as error:
        print(f"lakeaudit: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


@contextmanager
def lake_served(folder: Path, progress: Progress, draw: Draw | None = None) -> Iterator[Path]:
    """A broken demo lake on a server that lives as long as the block; its file is conf/demo.yaml of the folder."""
    from lakeaudit.spark import build_session

    prepare(folder)
    (folder / CONF).mkdir()
    with serving() as server, ThreadPoolExecutor(1) as beside:
        others = beside.submit(build_without_spark, server)
        with progress.stage("start Spark"):
            spark = build_session("lakeaudit demo", s3=server.endpoint, small=True, brief=True)
        try:
            build(spark, server, others, progress)
        finally:
            spark.stop()
        damage(server.clients, draw or Draw.of(None, None), progress)
        write_lake_file(folder / CONF / "demo.yaml", folder / "results", server)
        yield folder


def airflow_env(dags: Path, folder: Path) -> dict[str, str]:
    """The settings of an Airflow that has its home in the folder and audits the lakes of its conf/."""
    own = {
        "AIRFLOW_HOME": str(folder.absolute() / HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "LAKEAUDIT_CONF": str(folder.absolute() / CONF),
    }
    return {**os.environ, **own}


@contextmanager
def airflow_served(airflow: Path, dags: Path, folder: Path) -> Iterator[Service]:
    """`airflow standalone` in a process group of its own, on free ports of the loopback, until the block ends.

    Raises:
        CannotAudit: it ends, or does not answer in time; its log says why.
    """
    api, workers, triggers = _free_ports(3)
    url = f"http://127.0.0.1:{api}"
    env = airflow_env(dags, folder) | {
        "PATH": f"{airflow.parent}{os.pathsep}{os.environ['PATH']}",  # it starts its parts by name
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(api),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(workers),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(triggers),
    }
    log = folder / LOG
    with log.open("wb") as out:
        process = Popen(  # noqa: S603 - the program that was named
            [airflow, "standalone"], env=env, stdin=DEVNULL, stdout=out, stderr=STDOUT, start_new_session=True
        )
    try:
        _wait_until_healthy(process, url, log)
        yield Service(url, env)
    finally:
        _end(process)


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _wait_until_healthy(process: "Popen[bytes]", url: str, log: Path) -> None:
    """All its parts are at work."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise CannotAudit("Airflow", f"ended with {process.returncode}", f"see {log}")
        with suppress(requests.RequestException):
            parts = requests.get(f"{url}/api/v2/monitor/health", timeout=5).json()
            if all(
                parts[name]["status"] == "healthy" for name in ("metadatabase", "scheduler", "dag_processor")
            ):
                return
        time.sleep(0.5)
    raise CannotAudit("Airflow", f"was not healthy after {PATIENCE} s", f"see {log}")


def _end(process: "Popen[bytes]") -> None:
    """The whole group: standalone alone would leave its parts behind."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(TimeoutExpired):
            process.wait(10)
            if not _group_lives(process.pid):
                return


def _group_lives(group: int) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.2)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
