"""Store the checkpoints of a log in packed form: streams write one after every tenth commit. Pure.

Names and meanings: "Checkpoints" of the Delta protocol.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import overload

import numpy as np

from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.delta.log.commit_runs import Numbers, micros, time_at
from lakeaudit.keys import Location


@dataclass(frozen=True)
class Checkpoint:
    """Holds a whole state at one version: its top-level files, several only for a multi-part checkpoint."""

    version: int
    parts: tuple[File, ...]

    @property
    def is_json(self) -> bool:
        return self.parts[0].name.endswith(".json")

    @property
    def places(self) -> frozenset[Location]:
        return frozenset(part.place for part in self.parts)

    @property
    def written_at(self) -> datetime:
        """Return when the last of its files was written."""
        return max(part.modified_at for part in self.parts)


@dataclass(frozen=True, eq=False)
class Checkpoints(Sequence[Checkpoint]):
    """Lists the complete checkpoints of a log, oldest first; each is built on access.

    `versions` and `begins` have one number for each checkpoint: its version, and where its files begin in `sizes`
    (bytes), `times` (microseconds since 1970) and `names` (without the version: nearly all logs have few such names).
    """

    folder: Location
    versions: Numbers
    begins: Numbers
    sizes: Numbers
    times: Numbers
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.versions)

    @overload
    def __getitem__(self, at: int) -> Checkpoint: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Checkpoint]: ...
    def __getitem__(self, at: int | slice) -> Checkpoint | Sequence[Checkpoint]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        end = int(self.begins[number + 1]) if number + 1 < len(self) else len(self.names)
        version = int(self.versions[number])
        return Checkpoint(
            version, tuple(self._file(version, n) for n in range(int(self.begins[number]), end))
        )

    @property
    def newest(self) -> int | None:
        """Return the newest version; None if there is no checkpoint."""
        return int(self.versions[-1]) if len(self) else None

    @property
    def since(self) -> datetime | None:
        """Return when the oldest file was written; None if there is no file."""
        return time_at(self.times.min()) if len(self) else None

    @property
    def write_times(self) -> Numbers:
        """Return for each checkpoint when the last of its files was written."""
        return np.maximum.reduceat(self.times, self.begins) if len(self) else self.times

    def before(self, version: int) -> int:
        """Count the checkpoints that are older."""
        return int(np.searchsorted(self.versions, version - 1, "right"))

    def up_to(self, version: int) -> "Checkpoints":
        """Return the checkpoints that are not newer."""
        count = self.before(version + 1)
        files = int(self.begins[count]) if count < len(self) else len(self.names)
        return Checkpoints(
            self.folder, self.versions[:count], self.begins[:count], self.sizes[:files], self.times[:files],
            self.names[:files],
        )  # fmt: skip

    def _file(self, version: int, number: int) -> File:
        place = self.folder.join(f"{version:020}.{self.names[number]}")
        return File(place, int(self.sizes[number]), time_at(self.times[number]))


def packed(folder: Location, found: Iterable[tuple[int, Sequence[File]]]) -> Checkpoints:
    """Pack checkpoints that are given as (version, its files), in any order."""
    ordered = sorted(found, key=lambda one: (one[0], one[1][0].name))
    files = list(chain.from_iterable(parts for _, parts in ordered))
    begins = np.cumsum([0, *(len(parts) for _, parts in ordered)], dtype=np.int64)[:-1]
    known: dict[str, str] = {}
    names = tuple(known.setdefault(name, name) for name in _without_version(files))
    return Checkpoints(
        folder,
        _numbers(version for version, _ in ordered),
        begins,
        _numbers(file.size for file in files),
        _numbers(micros(file.modified_at) for file in files),
        names,
    )


def _without_version(files: Sequence[File]) -> Iterator[str]:
    return (file.name.partition(".")[2] for file in files)


def _numbers(values: Iterable[int]) -> Numbers:
    return np.fromiter(values, dtype=np.int64)
