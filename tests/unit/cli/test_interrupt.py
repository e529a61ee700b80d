"""Ctrl-C and SIGTERM end an audit within two seconds while it reads, looks live or starts Spark, each in a process."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeaudit.keys import Location
from tests.builders.results import lake_file
from tests.builders.slowness import slowness

PROGRAM = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it is ignored
import lakeaudit.audit.run
from lakeaudit.cli import program
from lakeaudit.commands import on_spark
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.interrupt import at_interrupt
from lakeaudit.runtime.connections.quick_reads import quick_read
begun, where, released, *words = sys.argv[1:]

def read(clients, **_):
    quick_read(clients, Location("silent", "t/_delta_log/00000000000000000000.json"))

def read_table(clients, **_):
    from deltalake import DeltaTable
    from lakeaudit.runtime.connections.resolve import delta_rs_options
    DeltaTable("s3://silent/t", storage_options=delta_rs_options(clients.endpoint("silent", ""), "silent"))

def look(clients, **_):
    from concurrent.futures import ThreadPoolExecutor
    from lakeaudit.evidence.storage.head import head_object
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: head_object(clients.s3("silent"), "silent", f"t/{n}", lambda: None), range(9)))

def start_spark(engine, **_):
    engine._jobs.wait()

def count(**_):
    with duck.task_connection() as con:
        duck.rows_of(duck.query(con, "SELECT sum(hash(range)) AS n FROM range(10000000000000)"))

def wrap(**_):
    try:
        time.sleep(60)
    except KeyboardInterrupt:  # as DuckDB does, where the signal arrives in a call of Python
        raise ValueError("Table with name rows_0 does not exist!") from None

def session(*_):
    time.sleep(60)

def audit(lake, options, **given):
    with at_interrupt(lambda: pathlib.Path(released).touch()):
        pathlib.Path(begun).touch()
        globals()[where](**given)

on_spark._session = session
lakeaudit.audit.run.audit = audit
program(["audit", *words])
"""


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


WAITS = [
    pytest.param("read", ["--live"], signal.SIGINT, id="reading"),
    pytest.param("read", ["--live"], signal.SIGTERM, id="reading, SIGTERM"),
    pytest.param("look", ["--live"], signal.SIGINT, id="live check", marks=pytest.mark.variant),
    pytest.param("start_spark", [], signal.SIGINT, id="Spark start", marks=pytest.mark.variant),
    pytest.param("wrap", ["--live"], signal.SIGTERM, id="a library's own error", marks=pytest.mark.variant),
    pytest.param("read_table", ["--live"], signal.SIGINT, id="delta-rs", marks=pytest.mark.soak),
    pytest.param("read_table", ["--live"], signal.SIGTERM, id="delta-rs, SIGTERM", marks=pytest.mark.soak),
    pytest.param("count", ["--live"], signal.SIGINT, id="DuckDB", marks=pytest.mark.soak),
    pytest.param("count", ["--live"], signal.SIGTERM, id="DuckDB, SIGTERM", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("where", "options", "sign"), WAITS)
def test_an_interrupt_ends_an_audit_within_two_seconds(
    tmp_path: Path, silent: str, where: str, options: list[str], sign: signal.Signals
) -> None:
    """After SIGTERM, which a service manager sends, a retry may succeed; after Ctrl-C nobody wants one."""
    way = {"endpoint": silent, "region": "us-east-1", "path_style": True}
    lake = lake_file(tmp_path, Location.parse(str(tmp_path / "results")), s3=way)
    begun, released, status = tmp_path / "begun", tmp_path / "released", tmp_path / "status.json"
    words = [str(begun), where, str(released), lake, "--status-file", str(status), *options]
    ran = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"},
    )
    deadline = time.monotonic() + 60
    while not begun.exists():
        assert ran.poll() is None, ran.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)
    at = time.monotonic()
    os.killpg(ran.pid, sign)
    printed, said = ran.communicate(timeout=60)
    took = time.monotonic() - at
    lines = [line for line in said.splitlines() if not line.startswith("{")]
    assert (ran.returncode, printed) == (130, ""), said
    assert lines == ["lakeaudit: interrupted; nothing of this run is published"]
    ended = json.loads(status.read_text())
    assert (ended["status"], ended["retry"]) == ("failed", sign == signal.SIGTERM)
    assert took < 2 * slowness(), f"answered after {took:.1f} s"
