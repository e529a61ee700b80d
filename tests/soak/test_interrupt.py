"""Ctrl-C in the middle of a Spark job."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakeaudit.keys import Location
from tests.builders.results import lake_file

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

PROGRAM = """
import sys, pathlib
import lakeaudit.pipeline.audit
from lakeaudit.cli import main
from lakeaudit.runtime.threads import beside
def audit(lake, options, *, spark, **_):
    pathlib.Path(sys.argv[1]).touch()
    with beside(1) as pool:
        pool.submit(spark.range(10**13).selectExpr("sum(hash(id))").collect).result()
lakeaudit.pipeline.audit.audit = audit
sys.exit(main(["audit", *sys.argv[2:]]))
"""


def test_ctrl_c_is_one_line_and_exit_130(tmp_path: Path) -> None:
    lake = lake_file(tmp_path, Location.parse(str(tmp_path / "results")))
    begun, status = tmp_path / "begun", tmp_path / "status.json"
    command = [sys.executable, "-c", PROGRAM, str(begun), lake, "--status-file", str(status)]
    ran = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not begun.exists():
        assert ran.poll() is None, ran.communicate()
        time.sleep(0.2)
    time.sleep(5)
    os.killpg(ran.pid, signal.SIGINT)
    printed, said = ran.communicate(timeout=300)
    lines = [line for line in said.splitlines() if not line.startswith(("{", "Setting default", "To adjust"))]
    assert (ran.returncode, printed) == (130, "")
    assert lines == ["lakeaudit: interrupted; nothing of this run is published"]
    assert json.loads(status.read_text())["status"] == "failed"
