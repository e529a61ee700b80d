"""Read the actions of many logs: small files are read at once and buffered, large checkpoints are read later.

This module chooses the base states, skips broken checkpoints, and lists a log again if it was cleaned up meanwhile.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakeaudit.evidence.lineage import Stake
from lakeaudit.evidence.manifest.delta.log import commit_runs
from lakeaudit.evidence.manifest.delta.log.checkpoint_runs import Checkpoint
from lakeaudit.evidence.manifest.delta.log.checkpoints import Content, read_contents
from lakeaudit.evidence.manifest.delta.log.earlier_states import MOST_OF_RUN, EarlierState, earlier_state
from lakeaudit.evidence.manifest.delta.log.layout import Log, Plan, plan
from lakeaudit.evidence.manifest.delta.log.lines import UNREAD
from lakeaudit.evidence.manifest.delta.log.listing import Listed, list_logs
from lakeaudit.evidence.manifest.delta.log.log_files import CommitFiles, LogFile, is_large
from lakeaudit.evidence.manifest.delta.log.metadata import NO_ACTION, NotReadable, understand
from lakeaudit.evidence.manifest.delta.log.paths import KIND, STEP
from lakeaudit.evidence.manifest.delta.state.entry_sums import EntrySums
from lakeaudit.evidence.manifest.delta.state.parts import checkpoints_of, runs_of, sums_of
from lakeaudit.evidence.manifest.delta.state.troubles import RecentCommit, Troubles, Vacuum, troubles
from lakeaudit.evidence.protocol import RECENT, BufferedRows, Clock, Context, Part, Source
from lakeaudit.keys import Location

_ATTEMPTS = 4


@dataclass(frozen=True)
class Reading:
    """Holds one table's log as it was read, for the `number`th time.

    `broken` are checkpoint files that cannot be read, `torn` the (version, file, reason) of commits with content that
    could not be understood, `undecodable` how many of its paths could not; `state` are the newest protocol and metaData
    as JSON text, `commits` and `checkpoint` the files that were or will be read, `needed` how far back its history has
    to reach. Only a `careful` reading summarizes small checkpoints before it reads them: nearly always they have no
    sidecars.
    """

    listed: Listed
    number: int = 0
    plan: Plan | None = None
    broken: Mapping[Location, str] = field(default_factory=dict)
    torn: tuple[tuple[int, Location, str], ...] = ()
    undecodable: int = 0
    refused: str | None = None
    state: Mapping[str, str] = field(default_factory=dict)
    vacuums: tuple[Vacuum, ...] = ()
    roots: tuple[Location, ...] = ()
    """Folders elsewhere that hold files of the table."""
    commits: CommitFiles | None = None
    checkpoint: tuple[LogFile, ...] = ()
    needed: datetime | None = None
    careful: bool = False
    recent: tuple[RecentCommit, ...] = ()
    newest_checkpoint: Content | None = None
    """Content of the newest checkpoint, if the state was read from an older one; None if it was not read."""
    base_content: Content | None = None
    """Content of the checkpoint from which the state is read; None if it was not summarized."""
    earlier: EarlierState | None = None
    """The state with which that checkpoint is compared; None: there is no such state, or it is too large."""
    entries: Mapping[str, EntrySums] = field(default_factory=dict)
    """Sums of the entries that were read, see `entry_sums`."""
    lacks: Mapping[int, Stake] = field(default_factory=dict)
    """By version the files and rows that a torn commit counts and does not hold."""

    @property
    def log(self) -> Log:
        return self.listed.log or Log(self.listed.location)

    @property
    def files_now(self) -> list[CommitFiles | LogFile]:
        """Return the files that are read at once."""
        small = [file for file in self.checkpoint if not file.is_large]
        return [*([self.commits] if self.commits else []), *small]


@dataclass(frozen=True)
class Readings:
    """Holds all tables, and their STEP rows: those that are buffered, and those of large checkpoints."""

    tables: tuple[Reading, ...]
    kept: tuple[BufferedRows, ...]
    late: tuple[Part, ...]
    late_of: Callable[[Collection[str]], tuple[Part, ...]]
    """Return the large checkpoints of some tables."""

    def rows_of(self, tables: Collection[str]) -> tuple[Source, ...]:
        """Return the rows of some tables; the buffered rows are those of all tables together."""
        return (*self.kept, self.late_of(tables))


def read_logs(
    listed: Sequence[Listed], ctx: Context, source: str, clock: Clock, promised: Mapping[str, timedelta]
) -> Readings:
    """Rebuild as much of every table's history as an audit needs, see `_back`.

    `promised` is by table for how long removed and never listed files have to be known. Only tables whose logs changed
    meanwhile, or whose own metadata promises more, are read again.
    """
    done: dict[str, Reading] = {}
    kept: list[BufferedRows] = []
    pending = [Reading(one, refused=one.refused, needed=_back(ctx, promised[one.name])) for one in listed]
    for attempt in range(_ATTEMPTS):
        last = attempt == _ATTEMPTS - 1
        chosen = _choose([replace(reading, number=attempt) for reading in pending], ctx)
        files = [file for reading in chosen for file in reading.files_now]
        if files:
            summed = sums_of(_earlier_commits(chosen), source, ctx.clients)
            kept.append(ctx.engine.keep([*runs_of(files, source, ctx.clients), *summed]))
        by_table = _troubles(kept[-1].notes if files else (), chosen)
        done |= {r.listed.name: _after(r, by_table.get(r.listed.name, Troubles()), last) for r in chosen}
        changed = [done[name] for name, trouble in by_table.items() if trouble.must_read_again]
        deeper = [r for one in chosen if (r := _deeper(done[one.listed.name], ctx)) is not None]
        again = {reading.listed.name: reading for reading in (*changed, *deeper)}
        if last or not again:
            break
        pending = _listed_again(list(again.values()), ctx, clock)
    tables = tuple(done[one.name] for one in listed)
    late = [file for r in tables if r.refused is None for file in r.checkpoint if file.is_large]

    def late_of(names: Collection[str]) -> tuple[Part, ...]:
        return tuple(
            checkpoints_of([file for file in late if file.table in names], source, ctx.clients, ctx.now)
        )

    return Readings(tables, tuple(kept), late_of([one.name for one in listed]), late_of)


def read_commits(
    listed: Sequence[tuple[Listed, int]], ctx: Context, source: str
) -> tuple[list[Reading], pa.Table]:
    """Read only the commits after a version of each table; return their STEP rows, too."""
    readings = []
    for one, judged in listed:
        newer = one.log.commits_as_made.after(judged) if one.log else commit_runs.NONE
        reading = Reading(one, plan=Plan(None, newer, max(judged, newer.newest or 0)), refused=one.refused)
        readings.append(replace(reading, commits=_commits(reading)))
    files = [file for reading in readings for file in reading.files_now]
    kept = ctx.engine.keep(runs_of(files, source, ctx.clients)) if files else None
    by_table = _troubles(kept.notes if kept else (), readings)
    after = [_after(reading, by_table.get(reading.listed.name, Troubles()), True) for reading in readings]
    return after, pa.Table.from_batches(kept.batches(KIND) if kept else (), STEP)


def _choose(readings: Sequence[Reading], ctx: Context) -> list[Reading]:
    """Plan each table from a base that can be read; summarize the newest checkpoint as well: readers use it."""
    contents: dict[frozenset[Location], Content] = {}
    chosen = list(readings)
    while True:
        chosen = [_with_plan(reading) for reading in chosen]
        missing = {
            point.places: (reading.log, point)
            for reading in chosen for point in _checkpoints_to_read(reading) if point.places not in contents
        }  # fmt: skip
        if not missing:
            chosen = _with_earlier(chosen, contents, ctx)
            return [_with_files(reading, contents) for reading in chosen]
        contents |= read_contents(list(missing.values()), ctx)
        chosen = [_with_broken_files(reading, contents) for reading in chosen]


def _with_earlier(
    readings: Sequence[Reading], contents: dict[frozenset[Location], Content], ctx: Context
) -> list[Reading]:
    """Add to each reading the state before its base; the commits of a run are limited, in the order of tables."""
    left, found = MOST_OF_RUN, dict[str, EarlierState]()
    for reading in readings:
        if reading.plan is None or reading.refused is not None:
            continue
        earlier = earlier_state(reading.log, reading.plan.base, reading.broken.keys())
        if earlier is not None and len(earlier.commits) <= left:
            left -= len(earlier.commits)
            found[reading.listed.name] = earlier
    logs = {reading.listed.name: reading.log for reading in readings}
    points = [(logs[name], earlier.point) for name, earlier in found.items() if earlier.point]
    contents |= read_contents([one for one in points if one[1].places not in contents], ctx) if points else {}
    return [
        replace(reading, earlier=_with_content(earlier, contents)) if earlier else reading
        for reading in readings
        for earlier in (found.get(reading.listed.name),)
    ]


def _with_content(
    earlier: EarlierState, contents: Mapping[frozenset[Location], Content]
) -> EarlierState | None:
    """Return the state with the content of its checkpoint; None if that cannot be read."""
    if earlier.point is None:
        return earlier
    content = contents[earlier.point.places]
    return None if content.broken or content.refused else replace(earlier, content=content)


def _earlier_commits(readings: Sequence[Reading]) -> list[CommitFiles]:
    return [
        CommitFiles(
            *(reading.listed.name, reading.listed.location, reading.log.folder, reading.earlier.commits),
            reading=reading.number,
            summed_to=reading.earlier.commits.newest or 0,
        )
        for reading in readings
        if reading.earlier is not None and len(reading.earlier.commits)
    ]


def _with_plan(reading: Reading) -> Reading:
    if reading.refused is not None or reading.listed.log is None:
        return reading
    return replace(reading, plan=plan(reading.log, reading.broken.keys(), reading.needed))


def _checkpoints_to_read(reading: Reading) -> list[Checkpoint]:
    if reading.refused is not None or reading.plan is None:
        return []
    base, newest = reading.plan.base, reading.log.checkpoints[-1:]
    uncertain = [base] if base and (reading.careful or not _is_plain(base)) else []
    return [*uncertain, *(point for point in newest if point != base)]


def _is_plain(base: Checkpoint) -> bool:
    """Return whether a base is one small Parquet file, which is read without a summary."""
    return len(base.parts) == 1 and not base.is_json and not is_large(base.parts[0])


def _with_broken_files(reading: Reading, contents: Mapping[frozenset[Location], Content]) -> Reading:
    """Add broken files to a reading: a checkpoint with a broken sidecar is as broken as its own file."""
    found = [(point, contents[point.places]) for point in _checkpoints_to_read(reading)]
    broken = dict(reading.broken)
    for point, content in found:
        broken |= content.broken
        if content.broken:
            broken |= {place: broken.get(place, "") for place in point.places}
    refused = next((content.refused for _, content in found if content.refused), reading.refused)
    return replace(reading, broken=broken, refused=refused)


def _with_files(reading: Reading, contents: Mapping[frozenset[Location], Content]) -> Reading:
    """Add the files to read of a log: its commits, and the checkpoint before them."""
    if reading.refused is not None or reading.plan is None:
        return reading
    newest = reading.log.checkpoints[-1:]
    later = contents.get(newest[0].places) if newest and newest[0] != reading.plan.base else None
    summed_to = newest[0].version if later and later.sums else -1
    reading = replace(reading, commits=_commits(reading, summed_to), newest_checkpoint=later)
    if reading.plan is None or reading.plan.base is None:
        return reading
    listed, base = reading.listed, reading.plan.base
    at, content = reading.log.time_of(base), contents.get(base.places)
    checkpoint = tuple(
        LogFile(
            *(
                listed.name,
                listed.location,
                base.version,
                at,
                True,
                file,
                reading.number,
                content is not None,
            ),
            summed=content is None,
        )
        for file in (content.files if content else base.parts)
    )
    state = content.state if content else {}
    return replace(reading, checkpoint=checkpoint, state=state, base_content=content)


def _commits(reading: Reading, summed_to: int = -1) -> CommitFiles | None:
    """Return the commits to read; None if there are none. Entries are summed up to a version."""
    if reading.plan is None or reading.refused is not None or not reading.plan.commits:
        return None
    listed, commits = reading.listed, reading.plan.commits
    newest = commits.part(max(len(commits) - RECENT, 0), len(commits))
    return CommitFiles(
        *(listed.name, listed.location, reading.log.folder, commits, reading.number),
        int(newest.firsts[0]),
        summed_to,
    )


def _troubles(notes: Iterable[Mapping[str, object]], readings: Sequence[Reading]) -> dict[str, Troubles]:
    """Collect the notes of these tables' files by table."""
    places = {file.file.place.uri: file.file.place for reading in readings for file in reading.checkpoint}
    return troubles(notes, places, {reading.listed.name: reading.log for reading in readings})


def _after(reading: Reading, trouble: Troubles, last: bool) -> Reading:
    if reading.refused is not None:
        return reading
    unread = [(place, why) for _, place, why in trouble.torn if why.startswith(UNREAD)]
    refused = None
    if unread and (last or not trouble.must_read_again):
        refused = f"{unread[0][0].uri}: {unread[0][1].removeprefix(UNREAD)}"
    elif trouble.short and last:
        refused = f"{next(iter(trouble.short)).uri}: its log changes faster than it can be read; run again"
    return replace(
        reading,
        broken={**reading.broken, **trouble.short},
        torn=trouble.one_reason_a_file(),
        undecodable=trouble.undecodable,
        refused=refused,
        state={**reading.state, **{kind: text for kind, (_, text) in trouble.newest.items()}},
        vacuums=tuple(trouble.vacuums),
        roots=tuple(sorted(trouble.roots)),
        recent=tuple(trouble.recent),
        entries=trouble.entries,
        lacks=trouble.lacks,
    )


def _listed_again(readings: Sequence[Reading], ctx: Context, clock: Clock) -> list[Reading]:
    """List these tables again for a new reading, which keeps the files that are known to be broken."""
    names = [reading.listed for reading in readings if reading.refused is None]
    again = {one.name: one for one in list_logs(names, ctx, clock)}
    known = {reading.listed.name: reading for reading in readings}
    return [
        Reading(one, broken=was.broken, refused=one.refused, needed=was.needed, careful=True)
        for one, was in ((one, known[one.name]) for one in again.values())
    ]


HISTORY = timedelta(days=7)
"""How much longer than it must a table's history reaches back: for so many nights a run can still explain a file."""


def _back(ctx: Context, promised: timedelta) -> datetime:
    """Return how far back a history has to reach: the oldest storage snapshot compared with it needs that much."""
    return before(before(ctx.oldest_cut or ctx.as_of, promised), HISTORY)


def before(time: datetime, span: timedelta) -> datetime:
    """Return the time so long before another one, at least the earliest possible time."""
    try:
        return time - span
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _deeper(reading: Reading, ctx: Context) -> Reading | None:
    """Return a reading that reaches further back, if the metadata promises removed files for longer; else None."""
    with suppress(NotReadable, *NO_ACTION):
        meta = understand(reading.state.get("protocol"), reading.state.get("metaData"))
        needed = _back(ctx, meta.retention)
        if reading.needed and needed < reading.needed and reading.plan:
            further = plan(reading.log, reading.broken.keys(), needed)
            if further and further.base_version < reading.plan.base_version:
                return replace(reading, needed=needed)
    return None
