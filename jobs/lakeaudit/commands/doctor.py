"""Run `lakeaudit doctor`: print each check when it is complete, and a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

from rich.console import Console
from rich.text import Text

from lakeaudit.commands.doctor_checks import Check, examine, exit_code
from lakeaudit.config import Lake
from lakeaudit.explain import text_output
from lakeaudit.formatting import visible
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.console import console_on

STYLES = {"ok": "green", "note": "yellow", "bad": "red", "fatal": "bold red"}
MARKS = {"ok": "ok", "note": "note", "bad": "FAIL", "fatal": "FAIL"}


@dataclass(frozen=True)
class Examined:
    """The result of all checks; `retry`: a later run may succeed."""

    exit_code: int
    verdict: str
    retry: bool


def run(lake: Lake, clients: Clients, env: Mapping[str, str], now: datetime, out: TextIO) -> Examined:
    """Print each check on `out`."""
    console = console_on(out)
    checks: list[Check] = []
    for check in examine(lake, clients, env, now):
        _print(console, check, is_known=bool(checks) and check.hint == checks[-1].hint)
        checks.append(check)
    return Examined(exit_code(checks), _verdict(checks), any(check.retryable for check in checks))


def _print(console: Console, check: Check, *, is_known: bool) -> None:
    """Print a check; a hint that `is_known` from the check before is not printed again."""
    head = Text(f"{MARKS[check.state]:5}", STYLES[check.state])
    text_output.line(console, head.append_text(text_output.plain(f"{check.about}: {check.message}")))
    if check.hint and not is_known:
        text_output.line(console, text_output.plain(check.hint, "dim"), indent=5)


def _verdict(checks: list[Check]) -> str:
    broken = [check for check in checks if check.state in ("bad", "fatal")]
    if not broken:
        return f"OK: {len(checks)} checks, nothing to repair"
    names = ", ".join(check.about for check in broken[:3])
    more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
    level = "NOTHING CAN BE AUDITED" if exit_code(checks) == 10 else "PARTIAL"
    return visible(f"{level}: {len(broken)} of {len(checks)} checks failed: {names}{more}")
