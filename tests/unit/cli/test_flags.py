"""The options that every command has: `--quiet`, `--no-color` and its variable, `--debug`; and the help."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lakeaudit import cli
from lakeaudit.cli.flags import split_flags
from lakeaudit.keys import Location
from lakeaudit.runtime.console import console_on, has_color
from lakeaudit.runtime.progress import progress_on
from tests.builders.found_tables import lay
from tests.builders.results import covered, discrepancy, finding, publish, run
from tests.unit.cli.test_cli import later

Captured = pytest.CaptureFixture[str]
EXAMPLES = ("scan", "init", "audit", "findings", "explain", "reconcile plan")


@pytest.mark.parametrize("typed", [[], ["--help"], ["--quiet"], ["--no-color"], ["--debug", "--quiet"]])
def test_without_a_command_stdout_has_the_help_with_examples(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, typed: list[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "")  # --no-color sets it; the fixture restores it
    assert cli.main(typed) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    examples = printed.out.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert [
        name for name, line in zip(EXAMPLES, examples, strict=True) if f"lakeaudit {name} " not in line
    ] == []


@pytest.mark.parametrize(
    ("words", "flags", "rest"),
    [
        (["--quiet", "audit", "l.yaml"], {"--quiet"}, ["audit", "l.yaml"]),
        (["audit", "--no-color", "l.yaml", "--debug"], {"--no-color", "--debug"}, ["audit", "l.yaml"]),
        (
            ["explain", "l.yaml", "--quiet", "--", "--debug"],
            {"--quiet"},
            ["explain", "l.yaml", "--", "--debug"],
        ),
        (["audit", "--quietly"], set(), ["audit", "--quietly"]),
    ],
)
def test_flags_may_follow_the_command_but_not_two_dashes(
    words: list[str], flags: set[str], rest: list[str]
) -> None:
    found, others = split_flags(words)
    assert ({*found}, others) == (flags, rest)


def test_the_help_imports_no_library_of_an_audit() -> None:
    script = (
        "import sys; from lakeaudit import cli; cli.main(['--help']); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "typer" in loaded
    assert loaded.isdisjoint({"rich", "duckdb", "pyarrow", "deltalake", "botocore", "pyspark"})


# --- quiet -------------------------------------------------------------------------------------------------


@pytest.fixture
def published(place: Location) -> None:
    publish(place, runs=[run()], findings=[finding("dropped", "orders/a")], coverage=[covered()])


def outputs(capsys: Captured, *words: str) -> tuple[int, str, str]:
    code = cli.main(words)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize("typed", [["--quiet", "findings"], ["findings", "--quiet"]])
def test_quiet_omits_the_last_line_of_a_success(
    capsys: Captured, lake: str, published: None, typed: list[str]
) -> None:
    loud = outputs(capsys, "findings", lake)
    assert loud[2] == "1 finding of run r1 (complete, as of 2026-11-21 12:00:00Z)\n"
    assert outputs(capsys, *typed, lake) == (0, loud[1], "")
    assert outputs(capsys, "findings", lake) == loud, "a later command in the same process is not quiet"


DOUBTS = [
    (["findings", "--partition", "day=1"], "no finding in day=1: check the name, a partition"),
    (["findings"], "the newer run r2 failed: no inventory"),
]


@pytest.mark.parametrize(("typed", "doubt"), DOUBTS)
def test_quiet_keeps_a_doubt_about_the_result_as_a_warning(
    capsys: Captured, lake: str, published: None, place: Location, typed: list[str], doubt: str
) -> None:
    publish(place, runs=[later("r2", tables_audited=None, error="no inventory")])
    _, _, loud = outputs(capsys, typed[0], lake, *typed[1:])
    assert f"; {doubt}" in loud
    code, _, quiet = outputs(capsys, "--quiet", typed[0], lake, *typed[1:])
    assert code == 0
    assert f"warning: {doubt}" in quiet
    assert all(line.startswith("warning: ") for line in quiet.splitlines())


FAILURES = [
    (["findings", "no-such.yaml"], 2, "no such lake file"),
    (["findings", "LAKE", "--kind", "droped"], 2, "no kind droped"),
    (["report", "LAKE", "--certificate"], 1, "CRITICAL: no certificate"),
]


@pytest.mark.parametrize(("typed", "code", "words"), FAILURES)
def test_quiet_keeps_the_reason_of_a_failure(
    capsys: Captured, lake: str, published: None, place: Location, typed: list[str], code: int, words: str
) -> None:
    publish(place, discrepancies=[discrepancy(finding("dropped", "orders/a"))])
    typed = [lake if word == "LAKE" else word for word in typed]
    loud = outputs(capsys, *typed)
    assert loud[0] == code
    assert words in loud[2]
    assert outputs(capsys, *typed, "--quiet") == loud


def test_quiet_omits_progress(capsys: Captured, tmp_path: Path) -> None:
    lake = str(lay(tmp_path / "lake"))
    code, _, loud = outputs(capsys, "scan", lake)
    assert '"stage"' in loud
    quiet = outputs(capsys, "scan", lake, "--quiet")
    assert (code, quiet[0], quiet[2]) == (0, 0, "")
    assert "Files that no table lists" in quiet[1]


# --- colour ------------------------------------------------------------------------------------------------


@contextmanager
def terminal(printed: bytearray) -> Iterator[int]:
    """Yield a terminal to write to; at the end `printed` contains its output."""
    primary, secondary = pty.openpty()
    yield secondary
    os.close(secondary)
    with suppress(OSError):  # the other end is closed
        while chunk := os.read(primary, 1 << 16):
            printed += chunk
    os.close(primary)


def in_terminal(words: list[str], **env: str) -> str:
    """Run a command whose stdout and stderr are a terminal; return the output."""
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    printed = bytearray()
    with terminal(printed) as stream:
        subprocess.run(
            [sys.executable, "-m", "lakeaudit", *words], stdout=stream, stderr=stream, stdin=subprocess.DEVNULL,
            env=clean | {"TERM": "xterm-256color"} | env, timeout=60, check=False,
        )  # fmt: skip
    return printed.decode()


WAYS: list[tuple[list[str], dict[str, str], bool]] = [
    ([], {}, True),
    ([], {"NO_COLOR": "1"}, False),
    (["--no-color"], {}, False),
    (["--no-color"], {"FORCE_COLOR": "1"}, False),
]


@pytest.mark.parametrize(("flags", "env", "colored"), WAYS)
def test_findings_in_a_terminal(
    lake: str, published: None, flags: list[str], env: dict[str, str], colored: bool
) -> None:
    printed = in_terminal(["findings", lake, *flags], **env)
    assert "s3://lake/orders/a" in printed
    assert ("\x1b" in printed) is colored


@pytest.mark.parametrize(
    ("env", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_progress_in_a_terminal(monkeypatch: pytest.MonkeyPatch, env: dict[str, str], colored: bool) -> None:
    """The spinner needs ANSI sequences; the line at the end of a stage does not."""
    for name, value in ({"TERM": "xterm-256color", "NO_COLOR": ""} | env).items():
        monkeypatch.setenv(name, value)
    printed = bytearray()
    with (
        terminal(printed) as stream,
        os.fdopen(os.dup(stream), "w") as out,
        progress_on(out).stage("read") as log,
    ):
        log.note(files=3)
    assert "✓" in printed.decode()
    assert "3 files" in printed.decode()
    assert (b"\x1b" in printed) is colored


@pytest.mark.parametrize("words", [["--help"], ["--show-completion"], ["findings", "no-such.yaml"]])
def test_help_and_errors_have_no_ansi_sequence(words: list[str]) -> None:
    printed = in_terminal(words, NO_COLOR="1")
    assert printed
    assert "\x1b" not in printed


@pytest.mark.parametrize(("value", "expected"), [(None, True), ("", True), ("1", False), ("0", False)])
def test_any_value_of_no_color_turns_colour_off(value: str | None, expected: bool) -> None:
    assert has_color({} if value is None else {"NO_COLOR": value}) is expected


def test_a_console_without_colour_has_no_bold_either(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = []
    for value in ("", "1"):
        monkeypatch.setenv("NO_COLOR", value)
        console = console_on(force_terminal=True)
        with console.capture() as printed:
            console.print("[bold]x[/bold]")
        codes.append("\x1b" in printed.get())
    assert codes == [True, False]
