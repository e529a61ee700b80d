"""Runs Airflow on this machine, to audit the lakes of CONF/*.yaml: `python dags/standalone.py [CONF]`.

Without CONF it builds and serves a broken demo lake and audits that. Airflow comes from .venv-airflow and
keeps to the loopback. Ctrl-C ends all of it. For a trial or a small team: there is no login.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen, TimeoutExpired

import requests

from lake_files import LakeFile, lake_files

CHECKOUT = Path(__file__).resolve().parents[1]
OTHER_VERSION = os.environ.get("LAKEAUDIT_AIRFLOW")
"""Another version of Airflow than that of the lock file (`make check-airflow AIRFLOW=3.0.6`)."""
AIRFLOW = (
    CHECKOUT / (f".venv-airflow-{OTHER_VERSION}" if OTHER_VERSION else ".venv-airflow") / "bin" / "airflow"
)
PORT = 8080
PATIENCE = 180
"""Seconds until Airflow has to respond."""
DEMO = "lake_audit_demo"


class CannotServe(Exception):
    """Airflow does not start; the text states the reason."""


@dataclass(frozen=True)
class Service:
    """A running Airflow."""

    url: str


def main(arguments: list[str]) -> int:
    """Serve until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            conf, home = _lakes(arguments, stack)
            service = stack.enter_context(airflow_served(airflow_env(conf, home)))
            create_pools(service, conf)
            if not arguments:
                start_run(service, DEMO)
            print(f"Airflow: {service.url}/dags   lake files: {conf}   Ctrl-C ends it", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except CannotServe as error:
        print(f"lakeaudit: {error}", file=sys.stderr)
        return 10
    return 0


def _lakes(arguments: list[str], stack: ExitStack) -> tuple[Path, Path]:
    """Return the folder of lake files, and Airflow's home."""
    if arguments:
        return Path(arguments[0]), CHECKOUT / ".airflow"
    from lakeaudit.demo.scenario import Draw
    from lakeaudit.demo.standing_lake import CONF, lake_served
    from lakeaudit.runtime.progress import progress_on

    folder = CHECKOUT / "demo-airflow"
    stack.enter_context(lake_served(folder, Draw.of(None, None), progress_on(sys.stderr)))
    return folder / CONF, folder / "airflow"


def airflow_env(conf: Path, home: Path) -> dict[str, str]:
    """Return the environment of an Airflow that audits the lakes of a folder; it overrides the current one."""
    own = {
        "AIRFLOW_HOME": str(home.absolute()),
        "AIRFLOW__CORE__DAGS_FOLDER": str(CHECKOUT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "LAKEAUDIT_CONF": str(conf.absolute()),
        "PATH": f"{AIRFLOW.parent}{os.pathsep}{os.environ['PATH']}",  # it starts its parts by name
    }
    connection = {"AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[*]"}'}
    return {**connection, **os.environ, **own}


@contextmanager
def airflow_served(env: Mapping[str, str]) -> Iterator[Service]:
    """`airflow standalone` in a process group of its own, on free ports of the loopback, until the block ends.

    Raises:
        CannotServe: it ended, or did not respond in time; the text names its log.
    """
    api, workers, triggers = _free_ports(PORT if _is_free(PORT) else 0, 0, 0)
    url = f"http://127.0.0.1:{api}"
    own = {
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(api),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(workers),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(triggers),
    }
    log = Path(env["AIRFLOW_HOME"]) / "standalone.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        process = Popen(
            [AIRFLOW, "standalone"],
            env={**env, **own}, stdin=DEVNULL, stdout=out, stderr=STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        _wait_until_healthy(process, url, log)
        yield Service(url)
    finally:
        _end(process)


def create_pools(service: Service, conf: Path) -> None:
    """Create the pools that the lake files name, each with one slot; a pool that exists is not changed."""
    files = [file for file in lake_files(conf) if isinstance(file, LakeFile)]
    for pool in sorted({file.pool for file in files if file.pool}):
        _post(f"{service.url}/api/v2/pools", {"name": pool, "slots": 1}, (201, 409))


def start_run(service: Service, dag_id: str) -> None:
    """Start a DAG as soon as Airflow knows it; by its schedule it would wait for the next full hour.

    Raises:
        CannotServe: Airflow does not know the DAG in time.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if _post(f"{service.url}/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None}, (200, 404)) == 200:
            return
        time.sleep(1)
    raise CannotServe(f"Airflow has no DAG {dag_id} after {PATIENCE} s")


def _post(url: str, body: object, expected: tuple[int, ...]) -> int:
    """Send a request, and return the status of the answer.

    Raises:
        CannotServe: there is no answer, or it has another status than the expected ones.
    """
    try:
        response = _session().post(url, json=body, timeout=60)
    except requests.RequestException as error:
        raise CannotServe(f"{url}: {error}") from error
    if response.status_code not in expected:
        raise CannotServe(f"{url}: {response.status_code} {response.text[:500]}")
    return response.status_code


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # a proxy cannot reach this machine
    return session


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def _free_ports(*ports: int) -> list[int]:
    """Return these ports, with any free one for each 0."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in ports]
        for each, port in zip(sockets, ports, strict=True):
            each.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # connections to an ended Airflow may linger
            each.bind(("127.0.0.1", port))
        return [each.getsockname()[1] for each in sockets]


def _wait_until_healthy(process: "Popen[bytes]", url: str, log: Path) -> None:
    """Wait until all parts of Airflow are healthy."""
    session = _session()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise CannotServe(f"Airflow ended with {process.returncode}: see {log}")
        with suppress(requests.RequestException):
            parts = session.get(f"{url}/api/v2/monitor/health", timeout=5).json()
            if all(
                parts[name]["status"] == "healthy" for name in ("metadatabase", "scheduler", "dag_processor")
            ):
                return
        time.sleep(0.5)
    raise CannotServe(f"Airflow was not healthy after {PATIENCE} s: see {log}")


def _end(process: "Popen[bytes]") -> None:
    """End the whole process group: `airflow standalone` does not end its own parts."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(TimeoutExpired):
            process.wait(10)
        if not _lives(process.pid):
            return


def _lives(group: int) -> bool:
    """Return whether a process of the group is left after 10 s."""
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
