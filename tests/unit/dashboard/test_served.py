"""The dashboard that tests start: it ends with the test, also if the test fails or is interrupted."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lakeaudit.keys import Location
from tests.builders.results import covered, publish, run

ROOT = Path(__file__).parents[3]
FAILING = """
import pathlib
from collections.abc import Iterator

import pytest

from tests.builders.served import Served, serving

LAKE, PORTS = {lake!r}, pathlib.Path({ports!r})

def note(server: Served) -> None:
    with PORTS.open("a") as lines:
        print(server.pid, server.url, file=lines)

@pytest.fixture(scope="session")
def server() -> Iterator[Served]:
    with serving(LAKE) as server:
        note(server)
        yield server

def test_of_a_shared_server(server: Served) -> None:
    raise AssertionError("the page is wrong")

def test_with_a_server_of_its_own() -> None:
    with serving(LAKE) as server:
        note(server)
        raise AssertionError("the page is wrong")

def test_that_is_interrupted() -> None:
    with serving(LAKE) as server:
        note(server)
        raise KeyboardInterrupt
"""


def is_running(pid: int, lake: str) -> bool:
    """Return whether a process of this id serves the lake."""
    try:
        return lake in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def is_open(url: str) -> bool:
    place = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((place.hostname or "", place.port or 0)) == 0


def test_a_test_that_fails_ends_its_server(tmp_path: Path, place: Location, lake: str) -> None:
    publish(place, runs=[run()], coverage=[covered()])
    ports, file = tmp_path / "ports", tmp_path / "test_pages.py"
    file.write_text(FAILING.format(lake=lake, ports=str(ports)))
    line = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", str(file)]
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'jobs'}{os.pathsep}{ROOT}"}
    ended = subprocess.run(line, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == pytest.ExitCode.INTERRUPTED, ended.stdout
    assert "2 failed" in ended.stdout
    servers = [each.split() for each in ports.read_text().splitlines()]
    assert len({pid for pid, _ in servers}) == len({url for _, url in servers}) == 3
    assert [url for pid, url in servers if is_running(int(pid), lake) or is_open(url)] == []
