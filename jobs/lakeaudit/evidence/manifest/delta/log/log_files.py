"""Name the files of logs that are read, and split them into pieces for tasks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.delta.log.commit_runs import CommitRuns, Numbers
from lakeaudit.keys import Location

_SMALL_PARQUET = 1 << 20
_TASK_BYTES = 32 << 20
_TASK_FILES = 256


@dataclass(frozen=True)
class LogFile:
    """Names a log file to read: `time` is its commit's, by the file; `reading` numbers the readings of one table."""

    table: str
    root: Location
    version: int
    time: datetime
    checkpoint: bool
    file: File
    reading: int = 0
    summarized: bool = True
    """Whether a checkpoint's state of the table is already known; a small one is parsed when it is read."""
    recent: bool = False
    """Whether it is one of the newest commits, whose numbers of added and removed files are recorded."""
    summed: bool = False
    """Whether its entries are summed, see `entry_sums`."""

    @property
    def is_parquet(self) -> bool:
        return self.file.name.endswith(".parquet")

    @property
    def is_large(self) -> bool:
        """Return whether it is read only when its rows are needed."""
        return is_large(self.file)


def is_large(file: File) -> bool:
    """Return whether a log file is too large to be read together with many others."""
    return file.name.endswith(".parquet") and file.size > _SMALL_PARQUET


@dataclass(frozen=True)
class CommitFiles:
    """Names commits of one table to read, at the times when they were made, in few bytes each."""

    table: str
    root: Location
    folder: Location
    commits: CommitRuns
    reading: int = 0
    recent_from: int = 0
    """The version at which the newest commits begin, see `LogFile.recent`."""
    summed_to: int = -1
    """The last version whose entries are summed, see `LogFile.summed`."""

    def files(self) -> Iterator[LogFile]:
        """Yield each file; this runs in the task that reads it."""
        for version, size, time in self.commits.files():
            file = File(self.folder.join(f"{version:020}.json"), size, time)
            recent = version >= self.recent_from
            summed = version <= self.summed_to
            yield LogFile(
                self.table, self.root, version, time, False, file, self.reading, recent=recent, summed=summed
            )


Pieces = Sequence[CommitFiles | LogFile]


def each(pieces: Pieces) -> list[LogFile]:
    """Return all files of some pieces."""
    return [
        file for piece in pieces for file in (piece.files() if isinstance(piece, CommitFiles) else (piece,))
    ]


def weight(pieces: Pieces) -> int:
    """Return their bytes."""
    return sum(int(_sizes(piece).sum()) for piece in pieces)


def runs(files: Iterable[CommitFiles | LogFile]) -> Iterator[Pieces]:
    """Yield files in their order, as many together as one task reads."""
    run: list[CommitFiles | LogFile] = []
    count = held = 0
    for file in files:
        ends = np.cumsum(_sizes(file))
        begin = 0
        while begin < len(ends):
            before = int(ends[begin - 1]) if begin else 0
            full = int(np.searchsorted(ends, before + _TASK_BYTES - held, "right"))
            end = min(full, begin + _TASK_FILES - count)
            if run and end <= begin:
                yield tuple(run)
                run, count, held = [], 0, 0
                continue
            end = max(end, begin + 1)
            run.append(_part(file, begin, end))
            count, held, begin = count + end - begin, held + int(ends[end - 1]) - before, end
    if run:
        yield tuple(run)


def _sizes(piece: CommitFiles | LogFile) -> Numbers:
    return piece.commits.sizes if isinstance(piece, CommitFiles) else np.array([piece.file.size])


def _part(file: CommitFiles | LogFile, begin: int, end: int) -> CommitFiles | LogFile:
    return replace(file, commits=file.commits.part(begin, end)) if isinstance(file, CommitFiles) else file
