"""Reports of running stages: lines for logs, and a bar on a terminal."""

import io
import json
import re
import threading
import time

import pytest
from rich.console import Console

from lakeaudit.runtime import progress
from lakeaudit.runtime.progress import JsonProgress, LiveProgress, Work, progress_on, running_text


def test_a_long_stage_is_reported_while_it_runs_and_when_it_ends() -> None:
    stream = io.StringIO()
    with JsonProgress(stream, every=0.02).stage("match") as log:
        log.watch(lambda: Work(3, 12, "parts"))
        time.sleep(0.1)
        log.note(files=7)
    *running, last = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert running
    assert {
        tuple(line[name] for name in ("stage", "running", "done", "total", "unit")) for line in running
    } == {("match", True, 3, 12, "parts")}
    assert (last["failed"], last["files"], "running" in last) == (False, 7, False)


def test_a_log_has_a_line_every_15_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is replaced: as soon as the work is known, a minute passes at once."""
    pauses: list[float] = []
    known = threading.Event()

    class Minute:
        """An event that is not set before 60 seconds have passed."""

        def wait(self, seconds: float) -> bool:
            known.wait()
            pauses.append(seconds)
            return sum(pauses) > 60

        def set(self) -> None:
            pass

    monkeypatch.setattr(progress, "Event", Minute)
    stream = io.StringIO()
    with progress_on(stream).stage("match") as log:
        log.watch(lambda: Work(3, 12, "parts"))
        known.set()
        while sum(pauses) <= 60:
            time.sleep(0.001)
    *running, last = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {*pauses} == {15.0}
    assert [(line["done"], line["total"]) for line in running] == [(3, 12)] * 4
    assert last["failed"] is False


def test_a_short_stage_is_one_line() -> None:
    stream = io.StringIO()
    with JsonProgress(stream).stage("match"):
        pass
    assert len(stream.getvalue().splitlines()) == 1


def test_a_count_that_fails_ends_neither_the_stage_nor_the_reports() -> None:
    def fail() -> Work:
        raise RuntimeError("the session has ended")

    stream = io.StringIO()
    with JsonProgress(stream, every=0.01).stage("match") as log:
        log.watch(fail)
        time.sleep(0.05)
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["failed"] is False


def test_the_line_of_a_terminal_has_a_bar_counts_and_an_estimate() -> None:
    assert running_text("match", 30, None) == "match ... 30 s"
    assert running_text("match", 30, Work(0, 4, "parts")) == f"match {'─' * 24} 0 of 4 parts, 30 s"
    bar = "━" * 18 + "─" * 6
    assert (
        running_text("match", 30, Work(3, 4, "parts")) == f"match {bar} 3 of 4 parts, 30 s, about 10 s left"
    )
    assert running_text("match", 30, Work(9, 4, "parts")).endswith("30 s, about 0 s left")


def test_a_terminal_shows_the_bar_while_the_stage_runs() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="standard", width=100)
    with LiveProgress(console).stage("match") as log:
        log.watch(lambda: Work(1, 2, "tasks"))
        time.sleep(0.9)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "1 of 2 tasks" in shown
    assert "✓ match" in shown
