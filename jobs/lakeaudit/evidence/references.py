"""What the newest states of tables say of some files: which tables list them now."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

Key = tuple[str, str]
"""Bucket and key."""

LIVE, HISTORY, FREE, UNKNOWN = "live", "history", "free", "unknown"
"""Listed by the newest state; by an older one that is still promised to readers; by none; nobody can tell."""
READ = "read"
"""Listed by none, perhaps, but somebody reads it."""


@dataclass(frozen=True)
class Reference:
    """What one manifest of one table says of one file. `decides`: in an audit it is this manifest that does.

    Of READ `manifest` is `events`, and `table` is empty.
    """

    table: str
    manifest: str
    answer: str
    why: str = ""
    decides: bool = True


Said = Mapping[Key, Sequence[Reference]]
"""By file what manifests say of it: all that are FREE of it may be left out, those that are UNKNOWN not."""


class References(Protocol):
    """Reads the newest state of every table that could list a file."""

    @property
    def longest(self) -> Mapping[str, timedelta]:
        """By table the longest time that a commit took, of those that were looked at."""
        ...

    @property
    def whole(self) -> Collection[str]:
        """The tables of the lake file of which every manifest that decides was read completely."""
        ...

    def of(self, keys: Collection[Key]) -> Said: ...
