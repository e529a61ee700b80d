"""Remember removed objects that no table needed, since a later commit may list them. Pure.

Some jobs write a file, another program deletes it, and the commit that lists it comes last: then the event of the
delete was decided before any table needed the file. A RESTORE to files that a vacuum has deleted is alike.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from lakeaudit.evidence.references import Key
from lakeaudit.follow import decide
from lakeaudit.follow.events import ObjectEvent
from lakeaudit.follow.index import key_hash

MOST = 10_000
"""Objects that are remembered, the last ones; about 15 MB."""


@dataclass(frozen=True, slots=True)
class _Removed:
    """A removed object: the table around it, and the last event about it."""

    table: str
    event: ObjectEvent


@dataclass
class RemovedObjects:
    """The last removed objects, and the tables that have committed since."""

    most: int = MOST
    _objects: OrderedDict[Key, _Removed] = field(default_factory=OrderedDict)
    _of_table: Counter[str] = field(default_factory=Counter)
    _committed: set[str] = field(default_factory=set)
    _read_at: dict[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, key: Key, table: str, events: Sequence[ObjectEvent]) -> None:
        """Add a removed object in the location of a table."""
        self.discard(key)
        self._objects[key] = _Removed(table, events[-1])
        self._of_table[table] += 1
        while len(self._objects) > self.most:
            self.discard(next(iter(self._objects)))

    def discard(self, key: Key) -> None:
        """Forget an object, which was written again or is judged."""
        if (removed := self._objects.pop(key, None)) is not None:
            self._of_table[removed.table] -= 1
            if not self._of_table[removed.table]:
                del self._of_table[removed.table]

    def commit(self, table: str) -> None:
        """Record that an object was written to the log of a table."""
        if table in self._of_table:
            self._committed.add(table)

    def to_read(self, now: float) -> list[str]:
        """Return the tables whose newest commits are to be read, because they may list a removed object."""
        never = float("-inf")
        return [each for each in self._committed if now - self._read_at.get(each, never) >= decide.REFRESH]

    def commits_read(
        self, table: str, added: Collection[int], now: float
    ) -> list[tuple[Key, list[ObjectEvent]]]:
        """Return the removed objects that new commits of a table list, with their events, and forget them.

        Args:
            table: its name.
            added: hashes of the files that the commits have added.
            now: the time.
        """
        self._committed.discard(table)
        self._read_at = {name: at for name, at in self._read_at.items() if now - at < decide.REFRESH} | {
            table: now
        }
        if not added or table not in self._of_table:
            return []
        listed = [
            (key, [removed.event])
            for key, removed in self._objects.items()
            if removed.table == table and key_hash(key) in added
        ]
        for key, _ in listed:
            self.discard(key)
        return listed
