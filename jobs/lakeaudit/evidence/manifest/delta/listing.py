"""Lists the logs of many tables, log files only; those of very many in tasks."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import list_files, read_bytes
from lakeaudit.evidence.manifest.delta.lines import EPOCH, in_commit_time
from lakeaudit.evidence.manifest.delta.log import Log, parse
from lakeaudit.evidence.protocol import Clock, Context
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients

LOG_FOLDER = "_delta_log"
_THREADS = 16
_TASK_TABLES = 64
_LISTING_BYTES = 16 << 10
"""About what a table costs in a list of its log: a thousand tables are work for tasks."""


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


def list_logs(tables: Sequence[Named], ctx: Context, clock: Clock) -> list[Listed]:
    """One `Listed` per table; a table that cannot be listed is refused, and the others go on."""
    named = [(table.name, table.location) for table in tables]
    groups = [named[start : start + _TASK_TABLES] for start in range(0, len(named), _TASK_TABLES)]
    until = None if ctx.live else ctx.as_of
    listed = ctx.engine.map(
        partial(_list_all, ctx.clients, until, clock), groups, len(named) * _LISTING_BYTES
    )
    return [one for group in listed for one in group]


def _list_all(
    clients: Clients, until: datetime | None, clock: Clock, tables: Sequence[tuple[str, Location]]
) -> list[Listed]:
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda table: _listed(table[0], table[1], clients, until, clock), tables))


def _listed(name: str, location: Location, clients: Clients, until: datetime | None, clock: Clock) -> Listed:
    folder = location.join(LOG_FOLDER)
    try:
        log = parse(folder, list_files(clients, folder, flat=True))
        read_at = until or clock()
        log = _as_of(log, until, clients) if until else log
    except SourceError as error:
        return Listed(name, location, clock(), refused=str(error))
    refused = _refusal(location, log, until)
    return Listed(name, location, read_at, None if refused else log, refused)


def _refusal(location: Location, log: Log, until: datetime | None) -> str | None:
    if log.newest is None and not log.lost_parts:
        when = f" at {until.isoformat()}" if until else ""
        return f"not a Delta table{when}: no commit and no checkpoint in {location.join(LOG_FOLDER).uri}"
    if "//" in location.key and log.checkpoints:
        return f"Hadoop cannot open checkpoints below {location.uri}: its path has an empty part"
    return None


def _as_of(log: Log, as_of: datetime, clients: Clients) -> Log:
    """The log as far as it had been committed then, by the time that commits carry, else by their files' times."""
    times = log.times
    versions = sorted(log.commits)
    if versions and _carried(log, versions[-1], clients) is not None:
        committed = _bisect(versions, lambda v: (_carried(log, v, clients) or times[v]) <= as_of)
    else:
        committed = _bisect(versions, lambda v: times[v] <= as_of)
    written = [c.version for c in log.checkpoints if max(part.modified_at for part in c.parts) <= as_of]
    newest = max([*versions[committed - 1 : committed], *written], default=-1)
    return log.until(newest)


def _bisect(versions: Sequence[int], committed: Callable[[int], bool]) -> int:
    """How many of the versions were committed; times only grow."""
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if committed(versions[middle]) else (low, middle)
    return low


def _carried(log: Log, version: int, clients: Clients) -> datetime | None:
    content = read_bytes(clients, log.commits[version].place) or b""
    stamp = in_commit_time(content.partition(b"\n")[0].decode("utf-8", "replace"))
    return None if stamp is None else EPOCH + timedelta(milliseconds=stamp)
