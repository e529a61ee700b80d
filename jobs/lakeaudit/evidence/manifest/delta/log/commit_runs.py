"""Store files of a log by version in packed form: a table with a commit a minute has 43,200 of them in 30 days. Pure.

Runs of consecutive versions, and 16 bytes a file for its size and time: a driver stores ten million of them in 170 MB.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

NEWEST_POSSIBLE = 2**63 - 1
"""Versions are 64-bit numbers; a file name has room for larger ones, which no writer makes."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_A_STEP = 1000
"""Microseconds that Delta adds to the previous commit's time, if a commit's file is not younger."""


def micros(time: datetime) -> int:
    """Return microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def time_at(micros: int) -> datetime:
    """Return the time for microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=int(micros))


@dataclass(frozen=True, eq=False)
class CommitRuns:
    """Lists the commits of a log, oldest first.

    `firsts` are the first versions of runs of consecutive ones, `begins` where in `sizes` (bytes) and `times`
    (microseconds since 1970) each run begins.
    """

    firsts: Numbers
    begins: Numbers
    sizes: Numbers
    times: Numbers

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[int]:
        """Yield the versions."""
        for first, last in self.runs():
            yield from range(first, last + 1)

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self._index(version) is not None

    @property
    def newest(self) -> int | None:
        """Return the newest version; None if there is no commit."""
        return int(self.firsts[-1]) + len(self) - 1 - int(self.begins[-1]) if len(self) else None

    @property
    def since(self) -> datetime | None:
        """Return when the oldest file was written; None if there is no commit."""
        return time_at(self.times.min()) if len(self) else None

    @property
    def weight(self) -> int:
        """Return the bytes of all files."""
        return int(self.sizes.sum())

    @property
    def last_run(self) -> tuple[int, int] | None:
        """Return the first and last version of the newest run; None if there is no commit."""
        newest = self.newest
        return None if newest is None else (int(self.firsts[-1]), newest)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the first and last version of every run."""
        lengths = np.diff(self.begins, append=len(self))
        for first, length in zip(self.firsts.tolist(), lengths.tolist(), strict=True):
            yield first, first + length - 1

    def written_at(self, version: int) -> datetime | None:
        """Return when the file of a version was written; None if the file is missing."""
        index = self._index(version)
        return None if index is None else time_at(self.times[index])

    def files(self) -> Iterator[tuple[int, int, datetime]]:
        """Yield version, size and time of each file."""
        for version, size, time in zip(self, self.sizes.tolist(), self.times.tolist(), strict=True):
            yield version, size, time_at(time)

    def up_to(self, version: int) -> "CommitRuns":
        """Return the commits that are not newer."""
        return self.part(0, self._before(version + 1))

    def after(self, version: int) -> "CommitRuns":
        """Return the commits that are newer."""
        return self.part(self._before(version + 1), len(self))

    def part(self, begin: int, end: int) -> "CommitRuns":
        """Return the commits from the `begin`th to before the `end`th, without a copy."""
        if begin >= end:
            return NONE
        first, last = (int(np.searchsorted(self.begins, at, "right")) - 1 for at in (begin, end - 1))
        begins = np.maximum(self.begins[first : last + 1] - begin, 0)
        firsts = self.firsts[first : last + 1].copy()
        firsts[0] += max(begin - int(self.begins[first]), 0)
        return CommitRuns(firsts, begins, self.sizes[begin:end], self.times[begin:end])

    @cached_property
    def increasing(self) -> "CommitRuns":
        """Return the same commits at increasing times, as Delta defines them: a millisecond apart at least."""
        steps = np.arange(len(self), dtype=np.int64) * _A_STEP
        times = np.maximum.accumulate(self.times - steps) + steps
        return self if np.array_equal(times, self.times) else self._at(times)

    def has_successor(self) -> NDArray[np.bool_]:
        """Return for each commit but the last whether the next one has the next version."""
        follow = np.ones(max(len(self) - 1, 0), dtype=np.bool_)
        follow[self.begins[1:] - 1] = False
        return follow

    def versions_of(self, indexes: Numbers) -> list[int]:
        """Return the versions at these indexes."""
        run = np.searchsorted(self.begins, indexes, "right") - 1
        found: list[int] = (self.firsts[run] + indexes - self.begins[run]).tolist()
        return found

    def indexes_of(self, versions: Numbers) -> Numbers:
        """Return the indexes of versions; a missing version gets the index after the last."""
        run = np.searchsorted(self.firsts, versions, "right") - 1
        lengths = np.diff(self.begins, append=len(self))
        if not len(self):
            return np.zeros(len(versions), dtype=np.int64)
        within = versions - self.firsts[run]
        return np.where((run >= 0) & (within < lengths[run]), self.begins[run] + within, len(self))

    def _at(self, times: Numbers) -> "CommitRuns":
        return CommitRuns(self.firsts, self.begins, self.sizes, times)

    def _index(self, version: int) -> int | None:
        index = self._before(version)
        return index if index < self._before(version + 1) else None

    def _before(self, version: int) -> int:
        """Count the commits that are older."""
        run = int(np.searchsorted(self.firsts, min(version, NEWEST_POSSIBLE), "right")) - 1
        if run < 0:
            return 0
        end = int(self.begins[run + 1]) if run + 1 < len(self.begins) else len(self)
        return min(int(self.begins[run]) + version - int(self.firsts[run]), end)


def packed(files: Iterable[tuple[int, int, datetime]]) -> CommitRuns:
    """Pack files that are given as (version, size, time), in any order; the last one of each version counts."""
    columns: tuple[array[int], ...] = (array("q"), array("q"), array("q"))
    for version, size, time in files:
        for column, value in zip(columns, (version, size, micros(time)), strict=True):
            column.append(value)
    versions, sizes, times = (_numbers(column) for column in columns)
    if len(versions) and not bool((versions[1:] > versions[:-1]).all()):
        order = np.argsort(versions, kind="stable")
        last = np.append(versions[order][1:] != versions[order][:-1], True)
        versions, sizes, times = (column[order][last] for column in (versions, sizes, times))
    begins = np.flatnonzero(np.append(True, versions[1:] - 1 != versions[:-1]))[: len(versions)]
    return CommitRuns(versions[begins], begins.astype(np.int64), sizes, times)


def _numbers(column: Any) -> Numbers:
    return np.frombuffer(column, dtype=np.int64) if column else np.empty(0, dtype=np.int64)


NONE = packed(())
