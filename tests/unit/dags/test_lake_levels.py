"""The levels of lines in the log of an Airflow task: those of the real output of commands."""

import io
import json
import logging
from datetime import UTC, datetime

import pytest

from lake_levels import LineLevels, level_of
from lakeaudit.runtime.progress import JsonProgress


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("CRITICAL: 12 dropped in 2 tables", "critical"),
        ("ERROR: Coverage lost in 2 tables (events, orders): no report", "error"),
        ("WARNING: 3 small files in 1 table", "warning"),
        ("UNDECIDED: Could not judge anything: the audit failed", "warning"),
        ("warning: alert not sent: the address did not answer", "warning"),
        ("OK: No finding of severity warning or higher in 2 tables", "info"),
        ("INFO: 2 uncertain", "info"),
        ("critical dropped  orders  1 row", "info"),
        ("CRITICAL", "info"),
        ("s3://lake/CRITICAL: x", "info"),
        ('{"time": "x", "stage": "publish", "level": "critical"}', "info"),
        ("", "info"),
    ],
)
def test_the_first_word_decides(line: str, level: str) -> None:
    assert level_of(line) == level


def test_lines_of_stages_have_a_level() -> None:
    out = io.StringIO()
    progress = JsonProgress(out, lambda: datetime(2026, 11, 21, tzinfo=UTC))
    with progress.stage("read") as log:
        log.say("1 dropped", severity="critical")
    with pytest.raises(OSError, match="full"), progress.stage("publish"):
        raise OSError("full")
    lines = out.getvalue().splitlines()
    levels = [json.loads(line)["level"] for line in lines]
    assert levels == [level_of(line) for line in lines] == ["critical", "info", "error"]


def test_a_hook_logs_lines_at_their_levels(caplog: pytest.LogCaptureFixture) -> None:
    log = LineLevels(logging.getLogger("hook"))
    caplog.set_level(logging.DEBUG, "hook")
    log.info("%s", "CRITICAL: 1 dropped in 1 table")
    log.info("ERROR: 100% lost")
    log.info("Command exited with return code %s", 0)
    log.warning("as it is")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("CRITICAL", "CRITICAL: 1 dropped in 1 table"),
        ("ERROR", "ERROR: 100% lost"),
        ("INFO", "Command exited with return code 0"),
        ("WARNING", "as it is"),
    ]
