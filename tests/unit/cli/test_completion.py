"""Completion of shells: the scripts, their installation, and the completed words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import shellingham  # type: ignore[import-untyped]

from lakeaudit import cli

Captured = pytest.CaptureFixture[str]
SCRIPTS = {
    "bash": "complete -o default -F _lakeaudit_completion lakeaudit",
    "zsh": "compdef _lakeaudit_completion lakeaudit",
    "fish": "complete --command lakeaudit",
}
INSTALLED = {
    "bash": ".bash_completions/lakeaudit.sh",
    "zsh": ".zfunc/_lakeaudit",
    "fish": ".config/fish/completions/lakeaudit.fish",
}


def run_in(monkeypatch: pytest.MonkeyPatch, shell: str | None) -> None:
    """The process runs in this shell; None: the shell cannot be found."""

    def detect() -> tuple[str, str]:
        if shell is None:
            raise shellingham.ShellDetectionFailure
        return shell, f"/bin/{shell}"

    monkeypatch.setattr(shellingham, "detect_shell", detect)


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_of_the_shell_is_printed(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    run_in(monkeypatch, shell)
    assert cli.main(["--show-completion"]) == 0
    shown = capsys.readouterr()
    assert SCRIPTS[shell] in shown.out
    run_in(monkeypatch, None)
    monkeypatch.setenv("_LAKEAUDIT_COMPLETE", f"source_{shell}")
    assert cli.main([]) == 0
    named = capsys.readouterr()
    assert (named.out.strip(), named.err, shown.err) == (shown.out.strip(), "", "")


@pytest.mark.parametrize("shell", INSTALLED)
def test_the_script_is_installed(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run_in(monkeypatch, shell)
    assert cli.main(["--install-completion"]) == 0
    assert str(tmp_path / INSTALLED[shell]) in capsys.readouterr().out.replace("\n", "")
    assert SCRIPTS[shell] in (tmp_path / INSTALLED[shell]).read_text()


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
@pytest.mark.parametrize(
    ("shell", "words"),
    [("tcsh", "there is no completion for the shell tcsh"), (None, "the shell is not known")],
)
def test_an_odd_shell_is_one_line_with_another_way(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, option: str, shell: str | None, words: str
) -> None:
    run_in(monkeypatch, shell)
    assert cli.main([option]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(
        f"lakeaudit: completion: {words}; `_LAKEAUDIT_COMPLETE=source_bash lakeaudit`"
    )
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("lakeaudit rec", {"reconcile"}),
        ("lakeaudit reconcile ", {"plan", "apply", "undo", "purge"}),
        ("lakeaudit --qu", {"--quiet"}),
        ("lakeaudit --quiet findings lake.yaml --kind dropped_", {"dropped_history"}),
        ("lakeaudit findings lake.yaml --no-color --severity w", {"warning"}),
        ("lakeaudit findings lake.yaml --format ju", {"junit"}),
        ("lakeaudit findings lake.yaml --nothing-like-it", set()),
        ("lakeaudit findings ", set()),
    ],
)
def test_words_are_completed(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, line: str, expected: set[str]
) -> None:
    words = line.split(" ")
    monkeypatch.setenv("_LAKEAUDIT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    assert cli.main([]) == 0
    printed = capsys.readouterr()
    assert ({*printed.out.split()}, printed.err) == (expected, "")


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    """A real shell reads the script and calls the command that it names."""
    command = tmp_path / "lakeaudit"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m lakeaudit "$@"\n')
    command.chmod(0o755)
    script = """
eval "$(lakeaudit --show-completion)"
COMP_WORDS=(lakeaudit discrepancies lake.yaml --state res) COMP_CWORD=4
_lakeaudit_completion lakeaudit
echo "${COMPREPLY[@]}"
"""
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("resolved\n", "")
