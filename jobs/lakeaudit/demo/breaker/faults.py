"""Defines faults and the findings that they must cause."""

from dataclasses import dataclass


class NoVictim(Exception):
    """The lake has no file left for this act."""


@dataclass(frozen=True)
class Expected:
    """A finding that the audit must have.

    `key` is the object's key, a folder's with a trailing slash, or "" where the subject is a whole table or source;
    `table` is "" for a source. `severity` and `recoverable` are set only if the act determines them.
    """

    axis: str
    kind: str
    table: str
    key: str = ""
    severity: str | None = None
    recoverable: str | None = None


@dataclass(frozen=True)
class Fault:
    """One act: its name, a description, and all findings that it must cause.

    `gap` is the table for which the audit must report an evidence gap. An act without findings and
    without a gap is a trap.
    """

    act: str
    what: str
    expected: tuple[Expected, ...]
    gap: str = ""

    @property
    def is_trap(self) -> bool:
        """Return whether the act is harmless."""
        return not self.expected and not self.gap
