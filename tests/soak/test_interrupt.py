"""Ctrl-C in the middle of a Spark job, and in the middle of an audit without one."""

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
import lakeaudit.audit.run
from lakeaudit.cli import main
from lakeaudit.runtime.duck import task_connection
from lakeaudit.runtime import duck
from lakeaudit.runtime.threads import beside
def on_spark():
    from pyspark.sql import SparkSession
    spark = SparkSession.getActiveSession()
    with beside(1) as pool:
        pool.submit(spark.range(10**13).selectExpr("sum(hash(id))").collect).result()
def in_process():
    with task_connection() as con:
        duck.rows_of(duck.query(con, "SELECT sum(hash(range)) AS n FROM range(10000000000000)"))
def audit(lake, options, **_):
    pathlib.Path(sys.argv[1]).touch()
    in_process() if options.live else on_spark()
lakeaudit.audit.run.audit = audit
sys.exit(main(["audit", *sys.argv[2:]]))
"""


@pytest.mark.parametrize("options", [[], ["--live"]])
def test_ctrl_c_is_one_line_and_exit_130(tmp_path: Path, options: list[str]) -> None:
    lake = lake_file(tmp_path, Location.parse(str(tmp_path / "results")))
    begun, status = tmp_path / "begun", tmp_path / "status.json"
    command = [sys.executable, "-c", PROGRAM, str(begun), lake, "--status-file", str(status), *options]
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
