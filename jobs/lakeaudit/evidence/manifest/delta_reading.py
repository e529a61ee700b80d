"""Reads the actions of many logs once, and holds them.

It chooses the base states, passes over broken checkpoints, and looks again when a log was cleaned up meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from lakeaudit.evidence.manifest.delta_actions import FILE_ACTIONS, LogFile, read_actions
from lakeaudit.evidence.manifest.delta_checkpoints import Content, look_into
from lakeaudit.evidence.manifest.delta_lines import UNREAD, VANISHED
from lakeaudit.evidence.manifest.delta_listing import Clock, Listed, list_logs
from lakeaudit.evidence.manifest.delta_log import Checkpoint, Log, Plan, base_time, commit_times, plan
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location

_ATTEMPTS = 4


@dataclass(frozen=True)
class Reading:
    """One table's log as it was read.

    `broken` are checkpoint files that cannot be read, `torn` the (version, file, reason) of commits of which something
    could not be understood, `undecodable` how many of its paths could not.
    """

    listed: Listed
    plan: Plan | None = None
    broken: Mapping[Location, str] = field(default_factory=dict)
    torn: tuple[tuple[int, Location, str], ...] = ()
    undecodable: int = 0
    refused: str | None = None

    @property
    def log(self) -> Log:
        return self.listed.log or Log(self.listed.location, {})


@dataclass(frozen=True)
class Readings:
    """All tables, and their actions: EVENT rows, held on the executors' disks so that every user sees the same."""

    tables: tuple[Reading, ...]
    events: DataFrame


def read_logs(listed: Sequence[Listed], ctx: Context, clock: Clock) -> Readings:
    """Rebuilds every table's readable history."""
    readings = [Reading(one, refused=one.refused) for one in listed]
    for attempt in range(_ATTEMPTS):
        readings, contents = _choose(readings, ctx)
        files = [file for reading in readings for file in _files(reading, contents)]
        events = read_actions(ctx.spark, files, ctx.clients).persist(StorageLevel.DISK_ONLY)
        troubles = _troubles(events, files)
        settled = not _shaken(troubles) or attempt == _ATTEMPTS - 1
        readings = [
            _after(reading, troubles.get(reading.listed.name, _NONE), settled) for reading in readings
        ]
        if settled:
            break
        events.unpersist()
        readings = _listed_again(readings, troubles, ctx, clock)
    return Readings(tuple(readings), events)


def read_commits(listed: Sequence[tuple[Listed, int]], ctx: Context) -> Readings:
    """Only the commits after a version of each table."""
    readings, files = [], []
    for one, judged in listed:
        newer = tuple(version for version in sorted(one.log.commits if one.log else ()) if version > judged)
        chosen = Plan(None, newer, max([judged, *newer]))
        readings.append(Reading(one, chosen, refused=one.refused))
        files += _commits(readings[-1], commit_times(readings[-1].log))
    events = read_actions(ctx.spark, files, ctx.clients).persist(StorageLevel.DISK_ONLY)
    troubles = _troubles(events, files)
    after = [_after(reading, troubles.get(reading.listed.name, _NONE), True) for reading in readings]
    return Readings(tuple(after), events)


def _choose(
    readings: Sequence[Reading], ctx: Context
) -> tuple[list[Reading], dict[frozenset[Location], Content]]:
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
            return chosen, contents
        contents |= look_into(list(wanted.values()), ctx)
        chosen = [_looked_into(reading, contents) for reading in chosen]


def _planned(reading: Reading) -> Reading:
    if reading.refused is not None or reading.listed.log is None:
        return reading
    return replace(reading, plan=plan(reading.log, reading.broken.keys()))


def _needed(reading: Reading) -> list[Checkpoint]:
    if reading.refused is not None or reading.plan is None:
        return []
    base = [reading.plan.base] if reading.plan.base else []
    return [*base, *reading.log.checkpoints[-1:]]


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


def _files(reading: Reading, contents: Mapping[frozenset[Location], Content]) -> list[LogFile]:
    if reading.refused is not None or reading.plan is None:
        return []
    times = commit_times(reading.log)
    files = _commits(reading, times)
    if reading.plan.base is None:
        return files
    listed, base = reading.listed, reading.plan.base
    at = base_time(reading.plan, times)
    for file, counted in contents[base.places].files:
        seen_as, rows = (counted.seen_as, counted.rows) if counted else (None, None)
        files.append(LogFile(listed.name, listed.location, base.version, at, True, file, seen_as, rows))
    return files


def _commits(reading: Reading, times: Mapping[int, object]) -> list[LogFile]:
    listed, log = reading.listed, reading.log
    versions = reading.plan.commits if reading.plan and reading.refused is None else ()
    return [
        LogFile(listed.name, listed.location, version, times[version], False, log.commits[version])  # type: ignore[arg-type]
        for version in versions
    ]


@dataclass(frozen=True)
class _Trouble:
    """What went wrong while one table's files were read."""

    torn: tuple[tuple[int, Location, str], ...] = ()
    short: tuple[Location, ...] = ()
    undecodable: int = 0


_NONE = _Trouble()


def _troubles(events: DataFrame, files: Sequence[LogFile]) -> dict[str, _Trouble]:
    """The one pass over the logs: it fills the store, and gives a few rows for files that were not read whole."""
    per_file = events.groupBy("file").agg(
        F.count(F.lit(1)).alias("rows"),
        F.min(F.when(F.col("kind") == "problem", F.col("text"))).alias("problem"),
        F.count(F.when(_undecodable(), 1)).alias("undecodable"),
    )
    rows = [(number, file.rows) for number, file in enumerate(files)]
    expected = events.sparkSession.createDataFrame(rows, "file bigint, expected bigint")
    known = expected.join(per_file, "file", "left")
    short = F.coalesce(F.coalesce("rows", F.lit(0)) < F.col("expected"), F.lit(False))
    bad = known.withColumn("short", short).filter("short or problem is not null or undecodable > 0")
    found: dict[str, _Trouble] = {}
    for row in bad.collect():
        file = files[row["file"]]
        found[file.table] = _with(found.get(file.table, _NONE), file, row)
    return found


def _undecodable() -> Column:
    vector_unknown = F.col("vector_place").isNotNull() & F.col("vector_place.key").isNull()
    return F.col("kind").isin(*FILE_ACTIONS) & (F.col("place.key").isNull() | vector_unknown)


def _with(known: _Trouble, file: LogFile, row: Row) -> _Trouble:
    place = file.file.place
    short = (*known.short, place) if row["short"] else known.short
    torn = (*known.torn, (file.version, place, row["problem"])) if row["problem"] else known.torn
    return _Trouble(torn, short, known.undecodable + (row["undecodable"] or 0))


def _shaken(troubles: Mapping[str, _Trouble]) -> bool:
    """Whether files changed while they were read, or a checkpoint proved to be broken: worth another attempt."""
    return any(t.short or any(why == VANISHED for _, _, why in t.torn) for t in troubles.values())


def _after(reading: Reading, trouble: _Trouble, settled: bool) -> Reading:
    if reading.refused is not None:
        return reading
    broken = dict(reading.broken) | dict.fromkeys(trouble.short, "it is damaged inside, or gone")
    unread = [(place, why) for _, place, why in trouble.torn if why.startswith(UNREAD)]
    refused = None
    if settled and unread:
        refused = f"{unread[0][0].uri}: {unread[0][1].removeprefix(UNREAD)}"
    elif settled and trouble.short:
        refused = f"{trouble.short[0].uri}: its log changes faster than it can be read; run again"
    return replace(
        reading, broken=broken, torn=trouble.torn, undecodable=trouble.undecodable, refused=refused
    )


def _listed_again(
    readings: Sequence[Reading], troubles: Mapping[str, _Trouble], ctx: Context, clock: Clock
) -> list[Reading]:
    """Tables with trouble start afresh from a new listing; what is known to be broken stays known."""
    names = [r.listed for r in readings if r.listed.name in troubles and r.refused is None]
    again = {one.name: one for one in list_logs(names, ctx, clock)}
    return [
        Reading(again[r.listed.name], broken=r.broken, refused=again[r.listed.name].refused)
        if r.listed.name in again
        else r
        for r in readings
    ]
