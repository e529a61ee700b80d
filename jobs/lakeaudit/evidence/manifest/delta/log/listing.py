"""List the logs of many tables, log files only; a very large number of logs is listed in tasks."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, Protocol, cast

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, read_bytes, stat
from lakeaudit.evidence.lineage import ABSENT
from lakeaudit.evidence.manifest.delta.log.checksums import declared_state
from lakeaudit.evidence.manifest.delta.log.commit_runs import micros
from lakeaudit.evidence.manifest.delta.log.hints import Hint, read_hint
from lakeaudit.evidence.manifest.delta.log.layout import Log, parse
from lakeaudit.evidence.manifest.delta.log.lines import commit_moment, in_commit_time, moment_of
from lakeaudit.evidence.protocol import Clock, Context, DeclaredState
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

LOG_FOLDER = "_delta_log"
_THREADS = 16
_TASK_TABLES = 64
_LISTING_BYTES = 16 << 10
"""Approximate bytes of a list of one log: a thousand tables are enough work for tasks."""
_SHORT = 5000
"""Most names of a log that is listed with many others; longer logs are listed again, a few a task."""
_TASK_LONG = 4
_LISTINGS = 3
"""How often a log is listed if a commit exists that the listing lacks: it may have been made just then."""
_LONG_BYTES = 4 << 20
"""Approximate bytes of the list of a longer log: four of them are enough work for tasks."""


class NamedTable(Protocol):
    """A table of the lake file, reduced to the fields that a listing uses."""

    @property
    def name(self) -> str: ...
    @property
    def location(self) -> Location: ...


@dataclass(frozen=True)
class Listed:
    """Holds one table's log as it was listed at `read_at`; `log` is None if `refused` says why."""

    name: str
    location: Location
    read_at: datetime
    log: Log | None = None
    refused: str | None = None
    declared: DeclaredState | None = None
    """Counts of the newest version's checksum; None if it has none, or was not read."""
    missing: str = ""
    """`lineage.ABSENT` if the log's folder was listed and is empty."""
    hint: Hint | None = None
    """Content of `_last_checkpoint`; None if it does not exist, or was not read."""


def list_logs(
    tables: Sequence[NamedTable], ctx: Context, clock: Clock, known: Mapping[str, int] | None = None
) -> list[Listed]:
    """Return one `Listed` per table; a table that cannot be listed is refused, and the others continue.

    `known` are versions by table: if a log still has that version or a later one, older files are not listed. Such a
    second listing also requests the commit after the newest listed one by its name: a store that returns a short
    listing once does so again.
    """
    requests = [_LogRequest(table.name, table.location, (known or {}).get(table.name)) for table in tables]
    until = None if ctx.live else ctx.as_of
    listing = _Listing(ctx.clients, until, clock)
    found = _each(ctx, replace(listing, most=_SHORT), requests, _TASK_TABLES, _LISTING_BYTES)
    longer = [table for table, one in zip(requests, found, strict=True) if one is None]
    rest = iter(_each(ctx, listing, longer, _TASK_LONG, _LONG_BYTES))
    return [one or cast("Listed", next(rest)) for one in found]


def _each(
    ctx: Context, listing: "_Listing", tables: Sequence["_LogRequest"], at_once: int, weight: int
) -> list[Listed | None]:
    groups = [tables[start : start + at_once] for start in range(0, len(tables), at_once)]
    found = ctx.engine.map(listing.all, groups, len(tables) * weight) if groups else []
    return [one for group in found for one in group]


class _LogRequest(NamedTuple):
    """Names a table whose log is listed, from a version on if that is enough."""

    name: str
    location: Location
    since: int | None


class _LongLogError(Exception):
    """A log has more names than are listed at once with many others."""


@dataclass(frozen=True)
class _Listing:
    """Lists logs: as of a time, and up to so many names each; a longer log gives None."""

    clients: Clients
    until: datetime | None
    clock: Clock
    most: int | None = None

    def all(self, tables: Sequence[_LogRequest]) -> list[Listed | None]:
        """List these logs in a task."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(self._one, tables))

    def _one(self, table: _LogRequest) -> Listed | None:
        name, location, _ = table
        try:
            log = self._relist(location.join(LOG_FOLDER), table.since)
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
        return Listed(name, location, read_at, log, declared=declared_state(log, self.clients), hint=hint)

    def _relist(self, folder: Location, since: int | None) -> Log:
        """Return the log; if one of its versions is known already, no commit may follow the newest one that is listed.

        Raises:
            SourceError: a commit follows, and listing the log again does not show it.
        """
        for _ in range(_LISTINGS):
            log = self._log(folder, since)
            if since is None or self.until is not None or log.newest is None or folder.is_local:
                return log
            following = log.commit_place(log.newest + 1)
            if stat(self.clients, following) is None:
                return log
        what = f"exists, and the store's listing of the log ends with version {log.newest}"
        raise SourceError(following.uri, what, "the store's listings of this folder cannot be relied on")

    def _log(self, folder: Location, since: int | None) -> Log:
        """Return the log from a version on, or the whole log if no later version is left."""
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
    """Return the log as it was committed at a time, by the times that commits carry, else by their files' times."""
    versions, made = [*log.commits], log.commits_as_made.times <= micros(as_of)
    if versions and _recorded_time(log, versions[-1], clients) is not None:

        def is_committed(at: int) -> bool:
            carried = _recorded_time(log, versions[at], clients)
            return bool(made[at]) if carried is None else carried <= as_of

        count = bisect_left(range(len(versions)), True, key=lambda at: not is_committed(at))
    else:
        count = int(made.sum())
    written = log.checkpoints.versions[log.checkpoints.write_times <= micros(as_of)].tolist()
    newest = max([*versions[count - 1 : count], *written], default=-1)
    return log.until(newest)


def _recorded_time(log: Log, version: int, clients: Clients) -> datetime | None:
    content = read_bytes(clients, log.commit_place(version)) or b""
    stamp = in_commit_time(content.partition(b"\n")[0].decode("utf-8", "replace"))
    written_at = log.commits.written_at(version)
    return commit_moment(stamp, written_at) if written_at else moment_of(stamp)
