"""The second process, which checks profiles with Great Expectations, answers as this process does."""

import sys
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.gates import second_process
from lakeaudit.gates.expectation_suites import Broken
from lakeaudit.gates.second_process import check_here, checker

SOURCE = {"subject": "s3_inventory s3://inv", "readable": True, "age_of_max": 0.3, "unreadable_share": 0.0}
PROFILES = {
    "sources": [SOURCE | {"readable": False}, SOURCE | {"subject": "old", "age_of_max": 3.5}],
    "findings": [{"subject": "all findings", "kind": "any", "repeated": 1}],
}


SILENT = (
    "exit 1",
    "cat > /dev/null; echo '['", "exec sleep 60", "sleep 60", "echo '[]'", "echo '[[], []]'", "echo '[[1], [2]]'",
    "echo '{}'", """echo '[["sources", "findings"], []]'; exit 1""",
)  # fmt: skip
"""Programs that give no answer, or a wrong one."""


@pytest.fixture(scope="module")
def expected() -> list[Broken]:
    """The answer of this process."""
    answer = check_here(PROFILES)
    assert [broken.severity for broken in answer] == ["warning", "warning", "critical"]
    return answer


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Great Expectations as it is when a command begins; this process loaded it before."""
    check_here({})
    monkeypatch.delitem(sys.modules, "great_expectations", raising=False)


def replaced(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """Start another program instead."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{code}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize("code", SILENT)
def test_a_second_process_that_does_not_answer_changes_nothing(
    expected: list[Broken], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str
) -> None:
    monkeypatch.setattr(second_process, "PATIENCE", 0.5)
    replaced(monkeypatch, tmp_path, code)
    with checker() as check:
        assert check is not check_here
        assert check(PROFILES) == expected


@pytest.mark.usefixtures("unloaded")
def test_the_second_process_gives_the_same_answer_and_imports_no_module_of_the_working_folder(
    expected: list[Broken], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("great_expectations", "pandas", "json"):
        (tmp_path / f"{name}.py").write_text("import os; os.write(1, b'[[], []]'); os._exit(0)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(second_process, "check_here", lambda _: pytest.fail("the second process answers"))
    with checker() as check:
        assert check(PROFILES) == expected


@pytest.mark.usefixtures("unloaded")
def test_a_program_that_cannot_be_started_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for executable in (str(tmp_path / "gone"), "", None):
        monkeypatch.setattr(sys, "executable", executable)
        with checker() as check:
            assert check is check_here


@pytest.mark.usefixtures("unloaded")
def test_the_second_process_ends_with_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the audit fails before its gates."""
    started: list[Any] = []
    start = second_process._start

    def kept_start() -> Any:
        process = start()
        assert process is not None
        started.append(process)
        return process

    monkeypatch.setattr(second_process, "_start", kept_start)
    with pytest.raises(ZeroDivisionError), checker():
        raise ZeroDivisionError
    assert [process.poll() for process in started] == [-9]


def test_a_process_that_has_great_expectations_starts_no_other() -> None:
    check_here(PROFILES)
    with checker() as check:
        assert check is check_here
