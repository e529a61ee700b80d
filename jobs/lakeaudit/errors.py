"""What ends a command: one line naming what, where and the way out, and the exit code that goes with it.

A finding is a row and never one of these; an exception here means that something could not be done.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

INTERRUPTED = 130
"""The exit code that a shell, and typer, makes of Ctrl-C."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_-])")
"""ANSI escape sequences: libraries colour their errors."""


def one_line(text: str, most: int | None = None) -> str:
    """The text as one line of visible characters, cut at `most`.

    Messages quote object keys and other programs' errors, which are hostile: no line breaks, no terminal control codes,
    no marks that turn the direction of text.
    """
    words = " ".join(_ESCAPES.sub("", text).split())
    line = "".join(char if char.isprintable() else " " for char in words)
    return line if most is None or len(line) <= most else f"{line[: most - 1]}\u2026"


class AuditError(Exception):
    """A failure that a user can act on. It survives pickling, so Spark's Python workers may raise it.

    Args:
        where: the source, object or setting it was met at.
        what: the problem, in words.
        hint: what to do about it.
        retryable: whether it may be gone when the same is tried again, though nobody has done anything.
    """

    exit_code: ClassVar[int] = 70
    retryable = False

    def __init__(self, where: str, what: str, hint: str, retryable: bool = False) -> None:
        self.where = where
        self.what = one_line(what)  # it may quote another program's error, with its colours
        self.hint = one_line(hint)
        self.retryable = retryable
        super().__init__(where, what, hint, retryable)

    def __str__(self) -> str:
        return one_line(f"{self.where}: {self.what}; {self.hint}")


class BadInput(AuditError):
    """The command line or the lake file is wrong."""

    exit_code = 2


class LakeFileError(BadInput):
    """The lake file cannot be used: every problem of it, one a line.

    Args:
        problems: what is wrong, in the file's order; each says file, line, what and way out as its text.
    """

    def __init__(self, problems: Sequence[object]) -> None:
        self.problems = list(problems)
        self.where, self.what = "the lake file", f"has {len(self.problems)} problems"
        self.hint = "`problems` has each one with its line"
        Exception.__init__(self, self.problems)

    def __str__(self) -> str:
        return "\n".join(one_line(str(problem)) for problem in self.problems)


class SourceError(AuditError):
    """One source cannot be read at all; the rest of the audit may go on."""

    exit_code = 3


class GateFailed(AuditError):
    """A gate that must hold does not: nothing of the run is published."""

    exit_code = 11


class CannotAudit(AuditError):
    """Nothing could be audited: no Java, no evidence."""

    exit_code = 10


class Busy(AuditError):
    """Another audit writes the results, or has taken over from this one."""

    exit_code = 13


class CannotPublish(AuditError):
    """The results could not be written."""

    exit_code = 14
