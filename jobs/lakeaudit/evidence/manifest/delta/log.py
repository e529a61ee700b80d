"""Which files make up a table's Delta log, and which of them its states are rebuilt from. Pure.

Names and meanings: "File Types" and "Checkpoints" of the Delta protocol. Log compactions (`*.compacted.json`), version
checksums (`*.crc`) and hints (`_last_checkpoint`) are ignored: the commits say all that they say.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise

from lakeaudit.evidence.files import File
from lakeaudit.keys import Location

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_NAMED = re.compile(r"(\d{20})\.checkpoint\.[0-9A-Za-z-]+\.(?:json|parquet)")
CLOCK_STEP = timedelta(seconds=2)
"""S3 times have whole seconds: a file is not called younger than another below this."""
_FEW, _FEW_OF = 3, 20
"""Of so many commits written late, or fewer than one in so many, each is suspicious; more of them are a copied log."""
FROM_THE_START = -1
"""The base version of a log that is read from commit 0."""


@dataclass(frozen=True)
class Checkpoint:
    """A whole state at one version: its top-level files, more than one only for a multi-part checkpoint."""

    version: int
    parts: tuple[File, ...]

    @property
    def is_json(self) -> bool:
        return self.parts[0].name.endswith(".json")

    @property
    def places(self) -> frozenset[Location]:
        return frozenset(part.place for part in self.parts)


@dataclass(frozen=True)
class Log:
    """A listed log. `checkpoints` are the complete ones, oldest first; `lost_parts` what the others lack."""

    folder: Location
    commits: Mapping[int, File]
    checkpoints: tuple[Checkpoint, ...] = ()
    lost_parts: Mapping[int, tuple[Location, ...]] = ()  # type: ignore[assignment]

    @property
    def newest(self) -> int | None:
        """The newest version that the log names; None for an empty log."""
        return max([*self.commits, *(c.version for c in self.checkpoints)], default=None)

    @property
    def since(self) -> datetime | None:
        """When the oldest of its files was written; None for an empty log."""
        files = [*self.commits.values(), *(part for point in self.checkpoints for part in point.parts)]
        return min((file.modified_at for file in files), default=None)

    def until(self, version: int) -> "Log":
        """The log as it was when `version` was its newest."""
        commits = {number: file for number, file in self.commits.items() if number <= version}
        kept = tuple(checkpoint for checkpoint in self.checkpoints if checkpoint.version <= version)
        return Log(self.folder, commits, kept, {v: p for v, p in self.lost_parts.items() if v <= version})

    @cached_property
    def times(self) -> Mapping[int, datetime]:
        """When each commit was made, by its file's modification time, made to grow as Delta does: by a millisecond."""
        times: dict[int, datetime] = {}
        last: datetime | None = None
        for version in sorted(self.commits):
            time = self.commits[version].modified_at
            last = time if last is None else max(time, last + timedelta(milliseconds=1))
            times[version] = last
        return times

    def time_of(self, base: "Checkpoint | None") -> datetime:
        """When a state came to be: by its commit, else (late, never early) by the checkpoint's file."""
        if base is None:
            return self.times[0]
        return self.times.get(base.version) or max(part.modified_at for part in base.parts)

    def commit_place(self, version: int) -> Location:
        return self.folder.join(f"{version:020}.json")


@dataclass(frozen=True)
class Gap:
    """Commits first..last are not there, and a commit before and one after them are."""

    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """What to read: the base state, then every commit after it that is there.

    `base` None: from commit 0. `gaps` lie above the base, oldest first. `bridged` gaps lie below it: readers of the
    newest state need nothing from them.
    """

    base: Checkpoint | None
    commits: tuple[int, ...]
    newest: int
    gaps: tuple[Gap, ...] = ()
    bridged: tuple[Gap, ...] = ()

    @property
    def base_version(self) -> int:
        return self.base.version if self.base else FROM_THE_START


def parse(folder: Location, files: Iterable[File]) -> Log:
    """The log that a flat listing of a `_delta_log` folder shows."""
    commits: dict[int, File] = {}
    whole: list[Checkpoint] = []
    multi: dict[tuple[int, int], dict[int, File]] = {}
    for file in files:
        if match := _COMMIT.fullmatch(file.name):
            commits[int(match[1])] = file
        elif match := _CHECKPOINT.fullmatch(file.name):
            whole.append(Checkpoint(int(match[1]), (file,)))
        elif match := _PART.fullmatch(file.name):
            multi.setdefault((int(match[1]), int(match[3])), {})[int(match[2])] = file
        elif match := _NAMED.fullmatch(file.name):
            whole.append(Checkpoint(int(match[1]), (file,)))
    return _with_parts(Log(folder, commits, tuple(whole), {}), multi)


def _with_parts(log: Log, multi: Mapping[tuple[int, int], Mapping[int, File]]) -> Log:
    whole, lost = list(log.checkpoints), {}
    for (version, count), parts in multi.items():
        absent = [number for number in range(1, count + 1) if number not in parts]
        if absent:
            name = f"{version:020}.checkpoint.{{:010}}.{count:010}.parquet"
            lost[version] = tuple(log.folder.join(name.format(number)) for number in absent)
        else:
            whole.append(Checkpoint(version, tuple(parts[number] for number in sorted(parts))))
    ordered = sorted(whole, key=lambda checkpoint: (checkpoint.version, checkpoint.parts[0].name))
    return Log(log.folder, log.commits, tuple(ordered), lost)


def plan(log: Log, broken: Collection[Location] = (), needed: datetime | None = None) -> Plan | None:
    """The newest state as old as `needed` from which every later commit is there, or the oldest one where none is.

    Where no state has every later commit, it is the newest one, with gaps above it. `needed` None: the oldest.
    `broken` are files that cannot be read: checkpoints that need one are passed over. None: no state at all.
    """
    newest = log.newest
    bases: list[Checkpoint | None] = [c for c in log.checkpoints if not c.places & set(broken)]
    if 0 in log.commits:
        bases.insert(0, None)
    if newest is None or not bases:
        return None
    unbroken = _oldest_of_run(log.commits, newest)
    whole = [base for base in bases if _version(base) >= unbroken - 1]
    old_enough = [base for base in whole if needed is not None and log.time_of(base) <= needed]
    base = [*whole[:1], *old_enough][-1] if whole else bases[-1]
    commits = tuple(version for version in sorted(log.commits) if version > _version(base))
    missing = gaps(log.commits, min(log.commits, default=newest + 1), newest)
    below = tuple(gap for gap in missing if gap.last <= _version(base))
    return Plan(base, commits, newest, gaps(log.commits, _version(base) + 1, newest), below)


def _version(base: Checkpoint | None) -> int:
    return base.version if base else FROM_THE_START


def _oldest_of_run(commits: Mapping[int, File], newest: int) -> int:
    """The oldest version from which every commit up to the newest is there; newest + 1 when even that is not."""
    version = newest
    while version in commits:
        version -= 1
    return version + 1


def written_late(log: Log, since: int) -> tuple[int, ...]:
    """Commits after a version whose files were written later than the next commit's.

    No writer makes a commit before the one that it follows, so such a file was written again, or copied. A log that was
    copied whole has its files in any order: of many such commits none is named.
    """
    times = {version: file.modified_at for version, file in log.commits.items() if version > since}
    late = tuple(v for v in sorted(times) if v + 1 in times and times[v] > times[v + 1] + CLOCK_STEP)
    return late if len(late) <= max(_FEW, len(times) // _FEW_OF) else ()


def gaps(commits: Collection[int], first: int, last: int) -> tuple[Gap, ...]:
    """Runs of versions between first and last that have no commit."""
    there = [first - 1, *sorted(version for version in commits if first <= version <= last), last + 1]
    return tuple(Gap(before + 1, after - 1) for before, after in pairwise(there) if after - before > 1)
