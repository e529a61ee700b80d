"""docs/operations.md as a newcomer types it, from the lake to the DAG; only setting up is taken as done."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from standalone import AIRFLOW, CHECKOUT, airflow_env

GUIDE = (CHECKOUT / "docs" / "operations.md").read_text()
SERVERS = (".venv/bin/lakeaudit dashboard", "make airflow")

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]


def typed() -> list[str]:
    """The shell blocks of the seven steps, one after the other."""
    steps = GUIDE.partition("## The DAG")[0]
    return [block for block in re.findall(r"```sh\n(.*?)```", steps, re.DOTALL) if block != "make install\n"]


def sh(folder: Path, block: str, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        ["sh", "-eu", "-c", block], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def served(folder: Path, line: str) -> str:
    """The first line of a command that serves until it is interrupted."""
    with subprocess.Popen(line.split(), cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
    return first


def test_every_command_of_the_guide(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(CHECKOUT / ".venv")
    (tmp_path / "conf").mkdir()
    told = {}
    for block in typed():
        if not block.startswith(SERVERS):
            told[block.splitlines()[0]] = sh(tmp_path, block)
    audits = [said for line, said in told.items() if "OK: " in said or "CRITICAL" in said]
    assert "No finding of severity warning or higher in 1 table" in "".join(told.values())
    assert any("exit code 1" in said and "CRITICAL: 1 file dropped in 1 table" in said for said in audits)
    assert (tmp_path / "report.html").is_file()
    assert "http://127.0.0.1:" in served(tmp_path, ".venv/bin/lakeaudit dashboard conf/my-lake.yaml")

    env = airflow_env(tmp_path / "conf", tmp_path / "airflow")
    sh(tmp_path, f"{AIRFLOW} db migrate", env)
    # in Airflow 3.0 `dags test` refuses the assets of a DAG that was not stored before (apache/airflow#51644)
    sh(tmp_path, f"{AIRFLOW} dags reserialize", env)
    said = sh(tmp_path, f"{AIRFLOW} dags test lake_audit_my-lake", {**os.environ, **env})
    assert "audit ended with exit code 0: complete, 1 critical" in said
    assert "1 accepted finding" in said, "the baseline of step 6"
    assert (tmp_path / "my-results" / "report.html").is_file()
