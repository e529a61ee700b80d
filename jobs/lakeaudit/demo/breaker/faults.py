"""What was broken, and what an audit must say of it."""

from dataclasses import dataclass


class NoVictim(Exception):
    """Nothing is left in the lake that this act could be done to."""


@dataclass(frozen=True)
class Expected:
    """One finding that has to be there.

    `key` is the object's key, a folder's with a trailing slash, or "" where the subject is a whole table or source;
    `table` is "" for a source. `severity` and `recoverable` are only given where the act decides them.
    """

    axis: str
    kind: str
    table: str
    key: str = ""
    severity: str | None = None
    recoverable: str | None = None


@dataclass(frozen=True)
class Fault:
    """One act: its name, what it did in words, and every finding it must cause.

    `gap` is the table of which the audit must say that it could not read everything. An act without findings and
    without a gap is a trap.
    """

    act: str
    what: str
    expected: tuple[Expected, ...]
    gap: str = ""

    @property
    def is_trap(self) -> bool:
        """Whether the act is harmless."""
        return not self.expected and not self.gap
