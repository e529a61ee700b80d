"""Reads the actions of many logs: what can be read at once is held, large checkpoints are left for later.

It chooses the base states, passes over broken checkpoints, and looks again when a log was cleaned up meanwhile.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.manifest.delta.checkpoints import Content, look_into
from lakeaudit.evidence.manifest.delta.lines import UNREAD, VANISHED
from lakeaudit.evidence.manifest.delta.listing import Listed, list_logs
from lakeaudit.evidence.manifest.delta.log import Checkpoint, Log, Plan, plan
from lakeaudit.evidence.manifest.delta.metadata import NO_ACTION, NotReadable, understand
from lakeaudit.evidence.manifest.delta.notes import LOST, LogFile, is_large
from lakeaudit.evidence.manifest.delta.parts import checkpoints_of, runs_of
from lakeaudit.evidence.manifest.delta.paths import KIND, STEP
from lakeaudit.evidence.protocol import Clock, Context, Kept, Part
from lakeaudit.keys import Location

_ATTEMPTS = 4


@dataclass(frozen=True)
class Vacuum:
    """A commitInfo (JSON text) that records the begin of a vacuum; `time` is its commit's, by the file."""

    version: int
    time: datetime
    text: str


@dataclass
class Troubles:
    """What the notes of one table's files say.

    `torn` are (version, file, reason) of files of which something could not be understood, `short` checkpoint files
    that cannot be read and why, `sidecars` that there are such as nobody has looked for, `newest` (version, JSON text)
    by protocol and metaData.
    """

    torn: list[tuple[int, Location, str]] = field(default_factory=list)
    short: dict[Location, str] = field(default_factory=dict)
    sidecars: bool = False
    undecodable: int = 0
    newest: dict[str, tuple[int, str]] = field(default_factory=dict)
    vacuums: list[Vacuum] = field(default_factory=list)

    @property
    def shaken(self) -> bool:
        """Whether files changed while they were read, or a checkpoint proved to be other than thought: read again."""
        return bool(self.short) or self.sidecars or any(why == VANISHED for _, _, why in self.torn)

    def one_reason_a_file(self) -> tuple[tuple[int, Location, str], ...]:
        """`torn`, oldest first, each file once."""
        reasons: dict[tuple[int, Location], str] = {}
        for version, place, why in self.torn:
            reasons[version, place] = min(why, reasons.get((version, place), why))
        return tuple((version, place, why) for (version, place), why in sorted(reasons.items()))


@dataclass(frozen=True)
class Reading:
    """One table's log as it was read, for the `number`th time.

    `broken` are checkpoint files that cannot be read, `torn` the (version, file, reason) of commits of which something
    could not be understood, `undecodable` how many of its paths could not; `state` are the newest protocol and
    metaData as JSON text, `files` what was or is to be read, `needed` how far back its history has to reach. Only a
    `careful` reading looks into small checkpoints before it reads them: nearly always they are what they seem.
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
    files: tuple[LogFile, ...] = ()
    needed: datetime | None = None
    careful: bool = False

    @property
    def log(self) -> Log:
        return self.listed.log or Log(self.listed.location, {})


@dataclass(frozen=True)
class Readings:
    """All tables, and their STEP rows: those that are held, and those of large checkpoints."""

    tables: tuple[Reading, ...]
    kept: tuple[Kept, ...]
    late: tuple[Part, ...]


def read_logs(
    listed: Sequence[Listed], ctx: Context, source: str, clock: Clock, promised: Mapping[str, timedelta]
) -> Readings:
    """Rebuilds as much of every table's history as an audit needs, see `_back`.

    `promised` is by table for how long what was removed or never listed has to be known. Only tables whose logs changed
    meanwhile, or whose own metadata promises more, are read again.
    """
    done: dict[str, Reading] = {}
    kept: list[Kept] = []
    pending = [Reading(one, refused=one.refused, needed=_back(ctx, promised[one.name])) for one in listed]
    for attempt in range(_ATTEMPTS):
        last = attempt == _ATTEMPTS - 1
        chosen = _choose([replace(reading, number=attempt) for reading in pending], ctx)
        files = [file for reading in chosen for file in reading.files if not file.is_large]
        if files:
            kept.append(ctx.engine.keep(runs_of(files, source, ctx.clients)))
        troubles = _troubles(kept[-1].notes if files else (), files)
        done |= {r.listed.name: _after(r, troubles.get(r.listed.name, Troubles()), last) for r in chosen}
        shaken = [done[name] for name, trouble in troubles.items() if trouble.shaken]
        deeper = [r for one in chosen if (r := _deeper(done[one.listed.name], ctx)) is not None]
        again = {reading.listed.name: reading for reading in (*shaken, *deeper)}
        if last or not again:
            break
        pending = _listed_again(list(again.values()), ctx, clock)
    tables = tuple(done[one.name] for one in listed)
    late = [file for r in tables if r.refused is None for file in r.files if file.is_large]
    return Readings(tables, tuple(kept), tuple(checkpoints_of(late, source, ctx.clients)))


def read_commits(
    listed: Sequence[tuple[Listed, int]], ctx: Context, source: str
) -> tuple[list[Reading], pa.Table]:
    """Only the commits after a version of each table, and their STEP rows."""
    readings = []
    for one, judged in listed:
        newer = tuple(version for version in sorted(one.log.commits if one.log else ()) if version > judged)
        reading = Reading(one, plan=Plan(None, newer, max([judged, *newer])), refused=one.refused)
        readings.append(replace(reading, files=_commits(reading)))
    files = [file for reading in readings for file in reading.files]
    kept = ctx.engine.keep(runs_of(files, source, ctx.clients)) if files else None
    troubles = _troubles(kept.notes if kept else (), files)
    after = [_after(reading, troubles.get(reading.listed.name, Troubles()), True) for reading in readings]
    return after, pa.Table.from_batches(kept.batches(KIND) if kept else (), STEP)


def _choose(readings: Sequence[Reading], ctx: Context) -> list[Reading]:
    """A plan for each table whose base can be read. The newest checkpoint is looked into as well: readers use it."""
    contents: dict[frozenset[Location], Content] = {}
    chosen = list(readings)
    while True:
        chosen = [_planned(reading) for reading in chosen]
        wanted = {
            point.places: (reading.log, point)
            for reading in chosen for point in _needed(reading) if point.places not in contents
        }  # fmt: skip
        if not wanted:
            return [_with_files(reading, contents) for reading in chosen]
        contents |= look_into(list(wanted.values()), ctx)
        chosen = [_looked_into(reading, contents) for reading in chosen]


def _planned(reading: Reading) -> Reading:
    if reading.refused is not None or reading.listed.log is None:
        return reading
    return replace(reading, plan=plan(reading.log, reading.broken.keys(), reading.needed))


def _needed(reading: Reading) -> list[Checkpoint]:
    if reading.refused is not None or reading.plan is None:
        return []
    base, newest = reading.plan.base, reading.log.checkpoints[-1:]
    unsure = [base] if base and (reading.careful or not _is_plain(base)) else []
    return [*unsure, *(point for point in newest if point != base)]


def _is_plain(base: Checkpoint) -> bool:
    """Whether a base is one small Parquet file, which can be read without being looked into."""
    return len(base.parts) == 1 and not base.is_json and not is_large(base.parts[0])


def _looked_into(reading: Reading, contents: Mapping[frozenset[Location], Content]) -> Reading:
    """A checkpoint with a broken sidecar is as broken as its own file."""
    found = [(point, contents[point.places]) for point in _needed(reading)]
    broken = dict(reading.broken)
    for point, content in found:
        broken |= content.broken
        if content.broken:
            broken |= {place: broken.get(place, "") for place in point.places}
    refused = next((content.refused for _, content in found if content.refused), reading.refused)
    return replace(reading, broken=broken, refused=refused)


def _with_files(reading: Reading, contents: Mapping[frozenset[Location], Content]) -> Reading:
    """What is to be read of a log: its commits, and the checkpoint that they go on from."""
    if reading.refused is not None or reading.plan is None:
        return reading
    files = _commits(reading)
    if reading.plan.base is None:
        return replace(reading, files=files)
    listed, base = reading.listed, reading.plan.base
    at, content = reading.log.time_of(base), contents.get(base.places)
    files += tuple(
        LogFile(
            listed.name, listed.location, base.version, at, True, file, reading.number, content is not None
        )
        for file in (content.files if content else base.parts)
    )
    return replace(reading, files=files, state=content.state if content else {})


def _commits(reading: Reading) -> tuple[LogFile, ...]:
    listed, log = reading.listed, reading.log
    versions = reading.plan.commits if reading.plan and reading.refused is None else ()
    times = log.times
    return tuple(
        LogFile(
            listed.name, listed.location, version, times[version], False, log.commits[version], reading.number
        )
        for version in versions
    )


def _troubles(notes: Iterable[Mapping[str, object]], files: Iterable[LogFile]) -> dict[str, Troubles]:
    """What the notes of these files say, by table."""
    places = {file.file.place.uri: file.file.place for file in files}
    found: dict[str, Troubles] = {}
    for note in notes:
        data = json.loads(str(note["data"]))
        _add_note(found.setdefault(data["table"], Troubles()), data, note, places[str(note["subject"])])
    return found


def _add_note(known: Troubles, data: Mapping[str, Any], note: Mapping[str, Any], place: Location) -> None:
    kind, version = data["kind"], data["version"]
    if kind == "undecodable":
        known.undecodable += note["count"]
    elif kind == "vacuum":
        known.vacuums.append(Vacuum(version, datetime.fromisoformat(data["time"]), data["text"]))
    elif kind == "sidecars":
        known.sidecars = True
    elif kind == "problem" and note["reason"] in LOST:
        known.short[place] = str(note["reason"])
    elif kind == "problem":
        known.torn.append((version, place, note["reason"]))
    elif version >= known.newest.get(kind, (version, ""))[0]:
        known.newest[kind] = (version, data["text"])


def _after(reading: Reading, trouble: Troubles, last: bool) -> Reading:
    if reading.refused is not None:
        return reading
    unread = [(place, why) for _, place, why in trouble.torn if why.startswith(UNREAD)]
    refused = None
    if unread and (last or not trouble.shaken):
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
    )


def _listed_again(readings: Sequence[Reading], ctx: Context, clock: Clock) -> list[Reading]:
    """Tables start afresh from a new listing; what is known to be broken stays known."""
    names = [reading.listed for reading in readings if reading.refused is None]
    again = {one.name: one for one in list_logs(names, ctx, clock)}
    known = {reading.listed.name: reading for reading in readings}
    return [
        Reading(one, broken=was.broken, refused=one.refused, needed=was.needed, careful=True)
        for one, was in ((one, known[one.name]) for one in again.values())
    ]


HISTORY = timedelta(days=7)
"""How much longer than it must a table's history reaches back: so many nights have a chance to see what it explains."""


def _back(ctx: Context, promised: timedelta) -> datetime:
    """How far back a history has to reach: the oldest picture that is held against it is to find all of that in it."""
    return before(before(ctx.oldest_cut or ctx.as_of, promised), HISTORY)


def before(time: datetime, span: timedelta) -> datetime:
    """So long before a time, and never before all time."""
    try:
        return time - span
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _deeper(reading: Reading, ctx: Context) -> Reading | None:
    """The reading once more, where its metadata promises removed files for longer than was read; None: it does not."""
    with suppress(NotReadable, *NO_ACTION):
        meta = understand(reading.state.get("protocol"), reading.state.get("metaData"))
        needed = _back(ctx, meta.retention)
        if reading.needed and needed < reading.needed and reading.plan:
            further = plan(reading.log, reading.broken.keys(), needed)
            if further and further.base_version < reading.plan.base_version:
                return replace(reading, needed=needed)
    return None
