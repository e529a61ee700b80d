"""Parse which files form a table's Delta log, and plan from which of them its states are rebuilt. Pure.

Names and meanings: "File Types" and "Checkpoints" of the Delta protocol. The actions of log compactions
(`*.compacted.json`) are not read: the commits hold all of them. If compactions or `_last_checkpoint` name newer
versions, they are witnesses, see `lineage`. The counts of a version checksum (`*.crc`) are compared with the actions,
see `checksums`.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice

import numpy as np

from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.delta.log import checkpoint_runs, commit_runs
from lakeaudit.evidence.manifest.delta.log.checkpoint_runs import Checkpoint, Checkpoints
from lakeaudit.evidence.manifest.delta.log.commit_runs import NEWEST_POSSIBLE, CommitRuns, Numbers, micros
from lakeaudit.evidence.protocol import NeededFile
from lakeaudit.keys import Location

_VERSION = re.compile(r"[0-9]{20}")
_COMPACTED = re.compile(r"([0-9]{20})\.compacted\.json")
_CHECKPOINT = re.compile(r"checkpoint\.(?:parquet|[0-9A-Za-z-]+\.(?:json|parquet))")
_PART = re.compile(r"checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")
CLOCK_STEP = timedelta(seconds=2)
"""S3 times have whole seconds: a smaller difference does not make a file younger."""
_FEW, _FEW_OF = 3, 20
"""If more commits than this number, and than one in so many, were written late, the log was copied: none is suspect."""
HINT = "_last_checkpoint"
SIDECARS = "_sidecars"
_NAMED = 1000
"""Most missing parts of one checkpoint that are named: the name of one part may claim 10 billion."""
FROM_THE_START = -1
"""The base version of a log that is read from commit 0."""


@dataclass(frozen=True)
class Log:
    """Holds a listed log. `checkpoints` are the complete ones, oldest first; `lost_parts` are missing in the others.

    `checksum` is the newest version that has a checksum, `compacted` the newest one that a log compaction reaches.
    `hinted_at` is when its `_last_checkpoint` was written; None if it does not exist. `etag` is that of the newest
    commit's file; empty if there is no commit.
    """

    folder: Location
    commits: CommitRuns = field(default_factory=lambda: commit_runs.NONE)
    checkpoints: Checkpoints = field(default_factory=lambda: checkpoint_runs.packed(Location("", ""), ()))
    lost_parts: Mapping[int, tuple[Location, ...]] = field(default_factory=dict)
    checksum: int | None = None
    compacted: int | None = None
    hinted_at: datetime | None = None
    etag: str = ""

    @property
    def newest(self) -> int | None:
        """Return the newest version that the log names; None for an empty log."""
        found = (self.commits.newest, self.checkpoints.newest)
        return max((version for version in found if version is not None), default=None)

    @property
    def since(self) -> datetime | None:
        """Return when the oldest of its files was written; None for an empty log."""
        return min((time for time in (self.commits.since, self.checkpoints.since) if time), default=None)

    def until(self, version: int) -> "Log":
        """Return the log as it was when `version` was its newest."""
        lost = {number: places for number, places in self.lost_parts.items() if number <= version}
        summed = self.checksum if self.checksum is not None and self.checksum <= version else None
        return Log(self.folder, self.commits.up_to(version), self.checkpoints.up_to(version), lost, summed)

    @property
    def commits_as_made(self) -> CommitRuns:
        """Return the commits at the times when they were made: their files' times, increased as Delta does."""
        return self.commits.increasing

    def time_of(self, base: Checkpoint | None) -> datetime:
        """Return when a state was made: by its commit, else (late, never early) by the checkpoint's file.

        Raises:
            LookupError: there is no state from commit 0 on, because that commit is missing.
        """
        made = self.commits_as_made.written_at(0 if base is None else base.version)
        if made is None and base is None:
            raise LookupError("commit 0")
        return made or base.written_at  # type: ignore[union-attr]

    @cached_property
    def state_times(self) -> Numbers:
        """Return the `time_of` every checkpoint, in microseconds since 1970."""
        there = self.commits_as_made.indexes_of(self.checkpoints.versions)
        times = np.append(self.commits_as_made.times, 0)[there]
        return np.where(there < len(self.commits_as_made), times, self.checkpoints.write_times)

    def commit_place(self, version: int) -> Location:
        return self.folder.join(f"{version:020}.json")


@dataclass(frozen=True)
class Gap:
    """Names the missing commits first..last; a commit before and one after them exist."""

    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """Names the files to read: the base state, then every later commit that exists, at the time when it was made.

    `base` None: from commit 0. `gaps` are above the base, oldest first. `bridged` gaps are below it: readers of the
    newest state need nothing from them.
    """

    base: Checkpoint | None
    commits: CommitRuns
    newest: int
    gaps: tuple[Gap, ...] = ()
    bridged: tuple[Gap, ...] = ()

    @property
    def base_version(self) -> int:
        return self.base.version if self.base else FROM_THE_START

    def digest(self) -> str:
        """Return the SHA-256 of the versions, names, sizes and times of these files."""
        files = (
            [(part.name, part.size, micros(part.modified_at)) for part in self.base.parts]
            if self.base
            else []
        )
        digest = hashlib.sha256(repr(files).encode(errors="replace"))
        for numbers in (self.commits.firsts, self.commits.begins, self.commits.sizes, self.commits.times):
            digest.update(np.ascontiguousarray(numbers, dtype="<i8").tobytes())
        return f"sha256:{digest.hexdigest()}"


def parse(folder: Location, files: Iterable[File]) -> Log:
    """Parse the log from a flat listing of a `_delta_log` folder."""
    names = _Names()
    commits = commit_runs.packed(commit for file in files if (commit := names.add(file)) is not None)
    log = _with_parts(folder, commits, names.whole, names.parts)
    return replace(
        log,
        checksum=names.newest.get("crc"),
        compacted=names.newest.get("compacted"),
        hinted_at=names.hinted_at,
        etag=names.etag,
    )


@dataclass
class _Names:
    """Sorts files of a log, except commits, by their names.

    `whole` are checkpoints of one file, `parts` those of several by version, number of parts and part; `newest` is the
    newest version that has a checksum, and that a compaction reaches.
    """

    whole: list[tuple[int, tuple[File, ...]]] = field(default_factory=list)
    parts: dict[tuple[int, int], dict[int, File]] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    hinted_at: datetime | None = None
    etag: str = ""

    def add(self, file: File) -> tuple[int, int, datetime] | None:
        """Add one file; return version, size and time of a commit."""
        head, _, tail = file.name.partition(".")
        if not _VERSION.fullmatch(head) or (version := int(head)) > NEWEST_POSSIBLE:
            self.hinted_at = file.modified_at if file.name == HINT else self.hinted_at
            return None
        if tail == "json":
            if version >= self.newest.get("json", 0):
                self.etag = file.etag or ""
                self._reach("json", version)
            return version, file.size, file.modified_at
        if tail == "crc":
            self._reach("crc", version)
        elif match := _COMPACTED.fullmatch(tail):
            self._reach("compacted", int(match[1]))
        elif match := _PART.fullmatch(tail):
            self.parts.setdefault((version, int(match[2])), {})[int(match[1])] = file
        elif _CHECKPOINT.fullmatch(tail):
            self.whole.append((version, (file,)))
        return None

    def _reach(self, what: str, version: int) -> None:
        self.newest[what] = max(version, self.newest.get(what, version))


def _with_parts(
    folder: Location,
    commits: CommitRuns,
    single: list[tuple[int, tuple[File, ...]]],
    multi: Mapping[tuple[int, int], Mapping[int, File]],
) -> Log:
    whole, lost = list(single), {}
    for (version, count), parts in multi.items():
        absent = [*islice((number for number in range(1, count + 1) if number not in parts), _NAMED)]
        if absent:
            name = f"{version:020}.checkpoint.{{:010}}.{count:010}.parquet"
            lost[version] = tuple(folder.join(name.format(number)) for number in absent)
        else:
            whole.append((version, tuple(parts[number] for number in sorted(parts))))
    return Log(folder, commits, checkpoint_runs.packed(folder, whole), lost)


def plan(log: Log, broken: Collection[Location] = (), needed: datetime | None = None) -> Plan | None:
    """Plan the newest state as old as `needed` from which every later commit exists, or the oldest such state.

    If no state has every later commit, it is the newest one, with gaps above it. `needed` None: the oldest.
    `broken` are files that cannot be read: checkpoints that need one are skipped. None: there is no state.
    """
    newest, unusable = log.newest, frozenset(broken)
    for base in _bases(log, needed):
        if newest is not None and not (base and base.places & unusable):
            version = base.version if base else FROM_THE_START
            missing = gaps(log.commits, next(iter(log.commits), newest + 1), newest)
            below = tuple(gap for gap in missing if gap.last <= version)
            return Plan(
                base,
                log.commits_as_made.after(version),
                newest,
                gaps(log.commits, version + 1, newest),
                below,
            )
    return None


def needed_files(log: Log, broken: Collection[Location] = ()) -> Iterator[NeededFile]:
    """Yield the files that readers of the newest state need: the newest readable checkpoint, and later commits."""
    usable = (
        log.checkpoints[at]
        for at in reversed(range(len(log.checkpoints)))
        if log.checkpoints[at].places.isdisjoint(broken)
    )
    base = next(usable, None)
    for part in base.parts if base else ():
        yield NeededFile(part.place, part.size, part.modified_at)
    for version, size, written_at in log.commits.after(base.version if base else FROM_THE_START).files():
        yield NeededFile(log.commit_place(version), size, written_at)


def _bases(log: Log, needed: datetime | None) -> Iterator[Checkpoint | None]:
    """Yield the states from which a log can be read, the best one first; None: from commit 0."""
    points, unbroken = log.checkpoints, _oldest_of_run(log)
    whole = points.before(unbroken - 1)
    if needed is not None:
        old_enough = np.flatnonzero(log.state_times[whole:] <= micros(needed)) + whole
        yield from (points[number] for number in reversed(old_enough.tolist()))
    if unbroken == 0:
        yield None
    yield from (points[number] for number in range(whole, len(points)))
    yield from (points[number] for number in reversed(range(whole)))
    if 0 in log.commits:
        yield None


def _oldest_of_run(log: Log) -> int:
    """Return the oldest version with every commit up to the newest; newest + 1 if the newest commit is missing."""
    newest = -1 if log.newest is None else log.newest
    first, last = log.commits.last_run or (newest + 1, newest)
    return first if last == newest else newest + 1


def written_late(log: Log, since: int) -> tuple[int, ...]:
    """Return the commits after a version whose files were written later than the next commit's.

    No writer makes a commit before the one that it follows, so such a file was written again, or copied. In a log that
    was copied whole, files are in any order: if there are many such commits, none is returned.
    """
    commits = log.commits.after(since)
    later = commits.times[:-1] > commits.times[1:] + CLOCK_STEP // timedelta(microseconds=1)
    late = np.flatnonzero(commits.has_successor() & later)
    return tuple(commits.versions_of(late)) if len(late) <= max(_FEW, len(commits) // _FEW_OF) else ()


def gaps(commits: CommitRuns, first: int, last: int) -> tuple[Gap, ...]:
    """Return the runs of versions between first and last that have no commit."""
    found, expected = [], first
    for begin, end in commits.runs():
        if begin > last:
            break
        if expected < begin:
            found.append(Gap(expected, begin - 1))
        expected = max(expected, end + 1)
    if expected <= last:
        found.append(Gap(expected, last))
    return tuple(found)
