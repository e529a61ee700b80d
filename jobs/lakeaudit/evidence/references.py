"""The references of tables to some files, by the tables' newest states."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

Key = tuple[str, str]
"""Bucket and key."""

LIVE, HISTORY, FREE, UNKNOWN = "live", "history", "free", "unknown"
"""The newest state lists the file; an older state lists it that is still promised to readers; none does; unknown."""
READ = "read"
"""Perhaps no state lists the file, but requests read it."""


@dataclass(frozen=True)
class Reference:
    """The reference of one manifest of one table to one file. `decides`: an audit decides by this manifest.

    If `answer` is `READ`, `manifest` is `events` and `table` is empty.
    """

    table: str
    manifest: str
    answer: str
    why: str = ""
    decides: bool = True


Said = Mapping[Key, Sequence[Reference]]
"""References by file; `FREE` ones may be left out, `UNKNOWN` ones may not."""


class References(Protocol):
    """Reads the newest state of every table that could list a file."""

    @property
    def longest(self) -> Mapping[str, timedelta]:
        """Return by table the longest time that one of the inspected commits took."""
        ...

    @property
    def whole(self) -> Collection[str]:
        """Return the tables of the lake file whose deciding manifests were all read completely."""
        ...

    def of(self, keys: Collection[Key]) -> Said: ...
