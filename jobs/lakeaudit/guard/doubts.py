"""Describe why a table may need more files than `guard` knows."""

from dataclasses import dataclass

from lakeaudit.keys import Location


@dataclass(frozen=True)
class Doubt:
    """A reason why a table may list more files than were read: files below `place`, or any file if it is None."""

    table: str
    why: str
    place: Location | None = None
