"""The command line: what is typed, what is printed where, and the exit code. No JVM."""

import csv
import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import __version__, cli, documents
from lakeaudit.cli import frame
from lakeaudit.formatting import visible
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.reach import listens
from tests.builders.htmltree import parse
from tests.builders.results import (
    NOON,
    covered,
    discrepancy,
    finding,
    group,
    lake_file,
    leftover,
    publish,
    run,
    transition,
)

Captured = pytest.CaptureFixture[str]


def last_line(capsys: Captured) -> str:
    return capsys.readouterr().err.splitlines()[-1]


ENDING = """
import atexit, sys, threading
from lakeaudit.cli import process
process.main = lambda argv: (print("the last row"), 3)[1]
atexit.register(lambda: print("closed", file=sys.stderr))
threading.Thread(target=threading.Event().wait).start()
process.program()
"""


FULL = (
    "lakeaudit: a disk of this machine: the disk is full: [Errno 28] No space left on device; "
    "make room there, then run it again"
)


@pytest.mark.parametrize(
    ("out", "code", "told"), [("rows", 3, ["closed"]), ("/dev/full", 14, ["closed", FULL])]
)
def test_a_process_ends_with_its_command_whatever_threads_are_left(
    tmp_path: Path, out: str, code: int, told: list[str]
) -> None:
    """Exit handlers run, every row is written, and a failed write gives a nonzero exit code."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with (tmp_path / out).open("w") as target:
        ended = subprocess.run([sys.executable, "-c", ENDING], env=environment, stdout=target, stderr=subprocess.PIPE,
                               text=True, timeout=60, check=False)  # fmt: skip
    assert (ended.returncode, ended.stderr.splitlines()) == (code, told)
    assert out == "/dev/full" or (tmp_path / out).read_text() == "the last row\n"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["audit"], "Missing argument 'LAKE'"),
        (["audit", "x.yaml", "--nope"], "No such option: --nope"),
        (["audit", "x.yaml", "--fail-on", "sometimes"], "'sometimes' is not one of"),
        (["sing"], "No such command 'sing'"),
        (["undo", "plan.jsonl"], "No such command 'undo'. Did you mean 'reconcile undo'?"),
        (["audit", "no-such.yaml"], "no such lake file"),
        (["findings", "no-such.yaml"], "no such lake file"),
        (["explain", "no-such.yaml", "s3://a/b"], "no such lake file"),
        (["doctor", "no-such.yaml"], "no such lake file"),
        (["report", "no-such.yaml"], "no such lake file"),
    ],
)
def test_a_bad_command_line_is_one_line_and_exit_2(capsys: Captured, typed: list[str], told: str) -> None:
    assert cli.main(typed) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--table", "custumers"], "no table custumers"),
        (["--as-of", "tomorrow"], "--as-of tomorrow: is not a timestamp"),
        (["--partition", "day=1"], "--partition: is for a live audit; add --live"),
        (["--live", "--partition", "day"], "--partition day: is not a partition; write col=value/col=value"),
        (["--run-id", "it's"], "is not a valid run id"),
        (["--run-id", "x" * 129], "is not a valid run id"),
    ],
)
def test_an_audit_that_makes_no_sense_starts_no_spark(
    capsys: Captured, lake: str, options: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeaudit.commands.on_spark._session", pytest.fail)
    assert cli.main(["audit", lake, *options]) == 2
    assert told in last_line(capsys)


def test_five_mistakes_of_a_lake_file_are_five_lines(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("version: 2\nlake: a b\nresults: nowhere\ncolour: red\ntables: []\n")
    assert cli.main(["audit", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    for word in ("version", "lake", "results", "colour", "tables"):
        assert any(word in line for line in lines), word


def test_version_and_help(capsys: Captured) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__
    assert cli.main(["--help"]) == 0
    assert "doctor" in capsys.readouterr().out


def test_the_schema_is_json(capsys: Captured) -> None:
    assert cli.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "lakeaudit lake file"


def fail_with(error: BaseException) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("typed", [["schema"], ["schema", "--debug"], ["--debug", "schema"]])
def test_a_bug_is_one_line_and_exit_70(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, typed: list[str]
) -> None:
    monkeypatch.setattr(documents, "document_schema", fail_with(RuntimeError("boom\nbang \x1b[31m")))
    assert cli.main(typed) == 70
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("lakeaudit: unexpected RuntimeError: boom; please report it")
    assert ("Traceback (most recent call last):" in lines) == ("--debug" in typed)
    assert len(lines) == 1 or "--debug" in typed


def test_interrupted_is_one_line_and_exit_130(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "document_schema", fail_with(KeyboardInterrupt()))
    assert cli.main(["schema"]) == 130
    assert capsys.readouterr().err == "lakeaudit: interrupted; nothing of this run is published\n"


# --- findings ----------------------------------------------------------------------------------------------

HOSTILE = "orders/=cmd|'/c calc'!A1\n\x1b[2J,\"\u202e"
GROUP = group("uncommitted", "day=1", files=2)


@pytest.fixture
def published(place: Location) -> None:
    when = datetime(2026, 11, 21, 13, 0, 0, 250_000, tzinfo=timezone(timedelta(hours=5)))
    rows = [
        finding("hidden", "orders/h"),
        finding("dropped", HOSTILE, manifest_size=7, manifest_time=when),
        GROUP,
    ]
    files = [leftover(GROUP, f"orders/day=1/{name}") for name in "ab"]
    publish(place, runs=[run("r0"), run("r1", finished_at=when + timedelta(days=1))], findings=rows)
    publish(place, leftover_files=files, coverage=[covered()])


def test_jsonl_is_exact(capsys: Captured, lake: str, published: None) -> None:
    assert cli.main(["findings", lake, "--format", "jsonl"]) == 0
    printed = capsys.readouterr()
    dropped, grouped, hidden = map(json.loads, printed.out.splitlines())
    assert [row["kind"] for row in (dropped, grouped, hidden)] == ["dropped", "uncommitted", "hidden"]
    assert dropped["key"] == HOSTILE
    assert dropped["manifest_time"] == "2026-11-21T08:00:00.250000Z"
    assert dropped["as_of_date"] == "2026-11-21"
    assert dropped["storage_size"] is None
    assert len(dropped) == 45
    assert printed.out.isascii()
    assert printed.err == "3 findings of run r1 (complete, as of 2026-11-21 12:00:00Z)\n"


def test_csv_is_safe_in_a_spreadsheet(capsys: Captured, lake: str, published: None, place: Location) -> None:
    publish(place, findings=[finding("dropped", "=1+1", bytes_at_stake=-3)])
    assert cli.main(["findings", lake, "--format", "csv", "--kind", "dropped"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["key"] for row in rows} == {visible(HOSTILE), "'=1+1"}
    assert {row["bytes_at_stake"] for row in rows} == {"", "-3"}


def test_a_table_cannot_act_on_the_terminal(capsys: Captured, lake: str, published: None) -> None:
    assert cli.main(["findings", lake]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert r"!A1\n\x1b[2J," in printed


def test_files_replace_their_group(capsys: Captured, lake: str, published: None) -> None:
    assert cli.main(["findings", lake, "--files", "--format", "jsonl", "--kind", "uncommitted"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["subject"] for row in rows] == ["s3://lake/orders/day=1/a", "s3://lake/orders/day=1/b"]
    assert cli.main(["findings", lake, "--files", "--run-id", "r1"]) == 0
    assert cli.main(["findings", lake, "--files", "--run-id", "r0"]) == 2
    assert "only the last run (r1) can be expanded" in last_line(capsys)


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--run-id", "r9"], 2, "no such run"),
        (["--kind", "droped"], 2, "no kind droped"),
        (["--table", "custumers"], 2, "no table custumers"),
        (["--run-id", "r0"], 0, "0 findings of run r0"),
        (["--partition", "day=2026-13-01"], 0, "no finding in day=2026-13-01: check the name"),
    ],
)
def test_which_findings(
    capsys: Captured, lake: str, published: None, options: list[str], code: int, told: str
) -> None:
    assert cli.main(["findings", lake, *options]) == code
    assert told in last_line(capsys)


def later(run_id: str, **given: Any) -> dict[str, Any]:
    """A failed run after all others."""
    return run(run_id, "failed", finished_at=datetime(2026, 12, 1, tzinfo=UTC), **given)


def test_the_last_run_is_shown_though_it_could_judge_nothing(
    capsys: Captured, lake: str, published: None, place: Location
) -> None:
    unread = finding("unreadable_evidence", "x", "r2", subject_type="source", table_name=None)
    publish(place, runs=[later("r2", tables_audited=1)], findings=[unread])
    for options in ([], ["--files"], ["--run-id", "r2"], ["--run-id", "r2", "--files"]):
        assert cli.main(["findings", lake, *options]) == 0
        printed = capsys.readouterr()
        assert "unreadable_evidence" in printed.out
        assert "of run r2 (failed, as of" in printed.err
    assert cli.main(["findings", lake, "--run-id", "r1"]) == 0
    assert "3 findings of run r1 (complete" in last_line(capsys)


def test_a_run_without_findings_is_named_beside_the_run_that_is_shown(
    capsys: Captured, lake: str, published: None, place: Location
) -> None:
    cause = "s3://inventories: access denied"
    publish(place, runs=[later("r2", tables_audited=None, error=cause)])
    assert cli.main(["findings", lake]) == 0
    line = last_line(capsys)
    assert line.startswith("3 findings of run r1 (complete")
    assert line.endswith(f"; the newer run r2 failed: {cause}")
    assert cli.main(["findings", lake, "--run-id", "r2"]) == 2
    assert "that run is failed: it published nothing" in last_line(capsys)


@pytest.mark.parametrize("command", ["findings", "report"])
def test_nothing_published_yet(capsys: Captured, lake: str, command: str) -> None:
    assert cli.main([command, lake]) == 10
    assert "holds no finished audit; run `lakeaudit audit` first" in last_line(capsys)


def test_a_reader_that_closes_the_pipe_causes_no_failure(lake: str, place: Location) -> None:
    publish(place, runs=[run()], findings=[finding("dropped", f"{n}" * 90) for n in range(3000)])
    command = f"{sys.executable} -m lakeaudit findings {lake} --format jsonl | head -1"
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], check=False, capture_output=True, text=True
    )
    assert (ended.returncode, len(ended.stdout.splitlines()), ended.stderr) == (0, 1, "")


# --- report ------------------------------------------------------------------------------------------------


def test_the_report_is_one_file(capsys: Captured, lake: str, published: None, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["report", lake, "-o", str(page)]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == str(page)
    assert printed.err.startswith("CRITICAL: 1 file dropped in 1 table")
    assert page.read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".html"] == ["page.html"]


def test_the_report_of_the_last_run_says_what_changed(lake: str, place: Location, tmp_path: Path) -> None:
    lost, late = finding("dropped", "orders/a"), finding("hidden", "orders/b")
    week_ago = NOON - timedelta(days=7)
    publish(
        place, runs=[run("r0", finished_at=week_ago), run()], findings=[lost], coverage=[covered()],
        discrepancies=[discrepancy(lost), discrepancy(late, last_run_id="r0", first_seen_at=week_ago)],
        transitions=[transition(lost, "opened")],
    )  # fmt: skip
    page = tmp_path / "page.html"
    assert cli.main(["report", lake, "-o", str(page)]) == 0
    said = parse(page.read_text())
    told = {
        name: [
            (row.full_text.partition("——")[0], row.one("time").attrs["title"])
            for row in said.one("section", id=name).all("tr") if row.all("time")
        ]
        for name in ("changes", "broken")
    }  # fmt: skip
    assert told["changes"] == [("newdroppedcriticalorders1", "2026-11-21 12:00:00Z")]
    assert told["broken"] == [
        ("critical droppedorders1 new", "2026-11-21 12:00:00Z"),
        ("info hiddenorders1", "2026-11-14 12:00:00Z"),
    ]


def test_a_report_that_cannot_be_written(
    capsys: Captured, lake: str, published: None, tmp_path: Path
) -> None:
    assert cli.main(["report", lake, "-o", str(tmp_path / "no" / "page.html")]) == 14
    assert "cannot be written (No such file or directory)" in last_line(capsys)


def test_times_are_utc() -> None:
    assert frame.now().tzinfo is UTC


MISTYPED = [
    (["findings", "lake.yaml", "--fiels"], "See lakeaudit findings --help."),
    (["audit"], "See lakeaudit audit --help."),
    (["explain", "lake.yaml"], "See lakeaudit explain --help."),
    (["nothing-like-it"], "See lakeaudit --help."),
]


@pytest.mark.parametrize(("typed", "hint"), MISTYPED)
def test_what_is_mistyped_names_the_help_of_its_command(
    capsys: pytest.CaptureFixture[str], typed: list[str], hint: str
) -> None:
    assert cli.main(typed) == 2
    assert capsys.readouterr().err.strip().endswith(hint)


def test_commands_on_a_demo_lake_say_that_its_server_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], s3: Endpoint
) -> None:
    (tmp_path / ".lakeaudit-demo").touch()
    told = []
    for endpoint in (s3.endpoint, "http://127.0.0.1:9"):
        listens.cache_clear()
        place = Location("", str(tmp_path / "results")[1:])
        file = lake_file(tmp_path, place, s3={"endpoint": endpoint, "region": "us-east-1"})
        assert cli.main(["findings", file]) == 10
        told.append("the S3 server of this demo lake has stopped" in capsys.readouterr().err)
    assert told == [False, True]


@pytest.mark.parametrize("format_", ["markdown", "junit", "sarif", "github"])
@pytest.mark.parametrize("command", ["findings", "discrepancies"])
def test_a_document_is_on_stdout_and_the_verdict_on_stderr(
    capsys: Captured, lake: str, published: None, place: Location, command: str, format_: str
) -> None:
    lost = finding("dropped", HOSTILE)
    publish(place, discrepancies=[discrepancy(lost)])
    assert cli.main([command, lake, "--format", format_]) == 0
    printed = capsys.readouterr()
    assert "dropped" in printed.out
    assert "10 of 10 file" in printed.out
    assert printed.out.count("\n") == len(printed.out.splitlines()), "no key starts a line"
    assert printed.err.startswith(("3 findings of run r1", "1 open discrepancy"))
