"""Check profiles in a second process, which imports Great Expectations while this one reads the evidence.

The import takes seconds in which no other thread of its process runs. The second process gets suites and profiles as
JSON, and ends with its answer. If it cannot be started, or does not answer, this process checks them itself.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from lakeaudit.gates.expectation_suites import Broken, check, check_suite, great_expectations, suite_of
from lakeaudit.runtime.extras import install_hint, missing_of

Profile = Sequence[Mapping[str, Any]]
Checker = Callable[[Mapping[str, Profile]], list[Broken]]
"""Returns the expectations that do not hold for these profiles, by their gates."""
NOT_CHECKED = Broken(
    "all",
    f"not checked, because Great Expectations 1.6 or newer is not installed ({install_hint('gates')})",
    "warning",
    (),
)
"""The answer for all gates together if the extra `gates` is not installed."""
PATIENCE = 120
"""Seconds until the second process counts as stuck."""


@contextmanager
def checker() -> Iterator[Checker]:
    """Begin to import Great Expectations, and yield a function that checks profiles."""
    process = None if "great_expectations" in sys.modules or missing_of("gates") else _start()
    if process is None:
        yield check_here
        return
    try:
        yield partial(_ask, process)
    finally:
        _end(process)


def check_here(profiles: Mapping[str, Profile]) -> list[Broken]:
    """Check profiles in this process; without Great Expectations, the answer is that nothing was checked."""
    if missing_of("gates"):
        return [NOT_CHECKED]
    return [broken for gate, profile in profiles.items() for broken in check(gate, profile)]


def _start() -> "subprocess.Popen[str] | None":
    """Start the second process with the same packages; None if that is impossible."""
    try:
        return subprocess.Popen(  # noqa: S603 - this program
            [sys.executable, "-P", "-m", __name__],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, map(str, sys.path)))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C ends the audit, and the audit ends it
        )
    except (OSError, ValueError, TypeError):
        return None


def _end(process: "subprocess.Popen[str]") -> None:
    """Kill the second process and all that it started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):
        process.communicate(timeout=5)


def _ask(process: "subprocess.Popen[str]", profiles: Mapping[str, Profile]) -> list[Broken]:
    try:
        asked = [(gate, suite_of(gate), profile) for gate, profile in profiles.items()]
        answer, _ = process.communicate(json.dumps(asked), timeout=PATIENCE)
        checked, found = json.loads(answer)
        broken = [
            Broken(**{**each, "where": (*each["where"],), "failed": (*each["failed"],)}) for each in found
        ]
    except (OSError, ValueError, TypeError, LookupError, AttributeError, subprocess.TimeoutExpired):
        return check_here(profiles)
    return broken if process.returncode == 0 and checked == [*profiles] else check_here(profiles)


def main() -> None:
    """Answer one question: read suites and profiles from standard input, and print what does not hold."""
    great_expectations()
    asked = json.load(sys.stdin)
    found = [asdict(broken) for gate, suite, profile in asked for broken in check_suite(gate, suite, profile)]
    json.dump([[gate for gate, _, _ in asked], found], sys.stdout)


if __name__ == "__main__":
    main()
