"""Gives each line of a command's output its level in the log of a task. Pure.

Airflow's hooks log every line of a process at the level INFO, also `CRITICAL: 12 files dropped in 2 tables`.
"""

import re
from typing import Any

_WORDS = {
    "CRITICAL": "critical",
    "ERROR": "error",
    "WARNING": "warning",
    "UNDECIDED": "warning",
    "warning": "warning",
}
"""First words of the lines that lakeaudit prints on stderr, and their levels."""
_STAGE = re.compile(r'\{"time": "[^"]*", "level": "(critical|error|warning)"')
"""The beginning of a line about a stage that failed, or about a result that it has already."""


def level_of(line: str) -> str:
    """Return the level of a line: critical, error, warning or info."""
    if stage := _STAGE.match(line):
        return stage[1]
    word, colon, _ = line.partition(": ")
    return _WORDS.get(word, "info") if colon else "info"


class LineLevels:
    """The logger of a hook, which logs the lines of a process at their own levels."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def info(self, message: str, *values: Any, **more: Any) -> None:
        """Log a line at its level, or at INFO if it states none."""
        line = str(message % values) if values else str(message)
        getattr(self._log, level_of(line))(message, *values, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)
