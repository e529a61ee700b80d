"""Lists the logs of many tables, log files only; those of very many in tasks."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, Protocol, cast

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, read_bytes, stat
from lakeaudit.evidence.lineage import ABSENT
from lakeaudit.evidence.manifest.delta.checksums import declared
from lakeaudit.evidence.manifest.delta.commit_runs import micros
from lakeaudit.evidence.manifest.delta.hints import Hint, read_hint
from lakeaudit.evidence.manifest.delta.lines import commit_moment, in_commit_time, moment_of
from lakeaudit.evidence.manifest.delta.log import Log, parse
from lakeaudit.evidence.protocol import Clock, Context, DeclaredState
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients

LOG_FOLDER = "_delta_log"
_THREADS = 16
_TASK_TABLES = 64
_LISTING_BYTES = 16 << 10
"""About what a table costs in a list of its log: a thousand tables are work for tasks."""
_SHORT = 5000
"""Names of a log that is listed with many others; longer ones are begun again, a few a task."""
_TASK_LONG = 4
_LOOKS = 3
"""How often a log is listed in which a commit is there that the listing lacks: it may have been made just then."""
_LONG_BYTES = 4 << 20
"""About what the list of a longer log costs: four of them are work for tasks."""


class Named(Protocol):
    """What is needed of a table of the lake file."""

    @property
    def name(self) -> str: ...
    @property
    def location(self) -> Location: ...


@dataclass(frozen=True)
class Listed:
    """One table's log as it was listed at `read_at`; `log` is None where `refused` says why."""

    name: str
    location: Location
    read_at: datetime
    log: Log | None = None
    refused: str | None = None
    declared: DeclaredState | None = None
    """What the newest version's checksum counts; None: it has none, or nobody asked."""
    missing: str = ""
    """`lineage.ABSENT` where the log's folder was listed and is empty."""
    hint: Hint | None = None
    """What `_last_checkpoint` names; None: there is none, or it was not read."""


def list_logs(
    tables: Sequence[Named], ctx: Context, clock: Clock, known: Mapping[str, int] | None = None
) -> list[Listed]:
    """One `Listed` per table; a table that cannot be listed is refused, and the others go on.

    `known` are versions by table: of a log that still has such a version or a later one nothing older is listed. Such
    a second look also requests the commit after the newest listed one by its name: a store that lists a log short once
    does so again.
    """
    asked = [_Asked(table.name, table.location, (known or {}).get(table.name)) for table in tables]
    until = None if ctx.live else ctx.as_of
    listing = _Listing(ctx.clients, until, clock)
    found = _each(ctx, replace(listing, most=_SHORT), asked, _TASK_TABLES, _LISTING_BYTES)
    longer = [table for table, one in zip(asked, found, strict=True) if one is None]
    rest = iter(_each(ctx, listing, longer, _TASK_LONG, _LONG_BYTES))
    return [one or cast("Listed", next(rest)) for one in found]


def _each(
    ctx: Context, listing: "_Listing", tables: Sequence["_Asked"], at_once: int, weight: int
) -> list[Listed | None]:
    groups = [tables[start : start + at_once] for start in range(0, len(tables), at_once)]
    found = ctx.engine.map(listing.all, groups, len(tables) * weight) if groups else []
    return [one for group in found for one in group]


class _Asked(NamedTuple):
    """A table whose log is listed, from a version on where that is enough."""

    name: str
    location: Location
    since: int | None


class _LongLogError(Exception):
    """A log has more names than are listed at once with many others."""


@dataclass(frozen=True)
class _Listing:
    """How logs are listed: as of a time, and up to so many names each; a longer log gives None."""

    clients: Clients
    until: datetime | None
    clock: Clock
    most: int | None = None

    def all(self, tables: Sequence[_Asked]) -> list[Listed | None]:
        """One after the other, in a task."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(self._one, tables))

    def _one(self, table: _Asked) -> Listed | None:
        name, location, _ = table
        try:
            log = self._second_look(location.join(LOG_FOLDER), table.since)
            read_at = self.until or self.clock()
            log = _as_of(log, self.until, self.clients) if self.until else log
        except SourceError as error:
            return Listed(name, location, self.clock(), refused=str(error))
        except _LongLogError:
            return None
        refused = _refusal(location, log, self.until)
        if refused or table.since is not None:
            missing = ABSENT if log.newest is None and not log.lost_parts and self.until is None else ""
            return Listed(name, location, read_at, None if refused else log, refused, missing=missing)
        hint = read_hint(log.folder, self.clients) if log.hinted_at and self.until is None else None
        return Listed(name, location, read_at, log, declared=declared(log, self.clients), hint=hint)

    def _second_look(self, folder: Location, since: int | None) -> Log:
        """The log; where a version of it is known already, no commit may follow the newest one that is listed.

        Raises:
            SourceError: one does, and listing the log again does not show it.
        """
        for _ in range(_LOOKS):
            log = self._log(folder, since)
            if since is None or self.until is not None or log.newest is None or folder.is_local:
                return log
            following = log.commit_place(log.newest + 1)
            if stat(self.clients, following) is None:
                return log
        what = f"exists, and the store's listing of the log ends with version {log.newest}"
        raise SourceError(following.uri, what, "the store's listings of this folder cannot be relied on")

    def _log(self, folder: Location, since: int | None) -> Log:
        """The log, from a version on if there is anything left of it from there on."""
        if since is not None:
            log = parse(folder, self._files(folder, f"{since:020}"))
            if log.newest is not None:
                return log
        return parse(folder, self._files(folder))

    def _files(self, folder: Location, after: str = "") -> Iterator[File]:
        for number, file in enumerate(list_files(self.clients, folder, start_after=after, flat=True)):
            if number == self.most:
                raise _LongLogError
            yield file


def _refusal(location: Location, log: Log, until: datetime | None) -> str | None:
    if log.newest is None and not log.lost_parts:
        when = f" at {until.isoformat()}" if until else ""
        return f"not a Delta table{when}: no commit and no checkpoint in {location.join(LOG_FOLDER).uri}"
    return None


def _as_of(log: Log, as_of: datetime, clients: Clients) -> Log:
    """The log as far as it had been committed then, by the time that commits carry, else by their files' times."""
    versions, made = [*log.commits], log.made.times <= micros(as_of)
    if versions and _carried(log, versions[-1], clients) is not None:

        def committed(at: int) -> bool:
            carried = _carried(log, versions[at], clients)
            return bool(made[at]) if carried is None else carried <= as_of

        count = bisect_left(range(len(versions)), True, key=lambda at: not committed(at))
    else:
        count = int(made.sum())
    written = log.checkpoints.versions[log.checkpoints.written <= micros(as_of)].tolist()
    newest = max([*versions[count - 1 : count], *written], default=-1)
    return log.until(newest)


def _carried(log: Log, version: int, clients: Clients) -> datetime | None:
    content = read_bytes(clients, log.commit_place(version)) or b""
    stamp = in_commit_time(content.partition(b"\n")[0].decode("utf-8", "replace"))
    written_at = log.commits.written_at(version)
    return commit_moment(stamp, written_at) if written_at else moment_of(stamp)
