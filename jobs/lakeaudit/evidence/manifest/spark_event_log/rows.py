"""Turn one log into rows: the writes of its application into the lake's tables, and the reason for missing events."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.evidence.manifest.spark_event_log import log_files
from lakeaudit.evidence.manifest.spark_event_log.log_files import EventLog, LostError, TornError
from lakeaudit.evidence.manifest.spark_event_log.names import SPLITS, WRITES
from lakeaudit.evidence.manifest.spark_event_log.write_jobs import SUCCEEDED, Application, WriteJob
from lakeaudit.keys import Aliases, Location, owner_of, place_by_name
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import plain_time


def application_of(clients: Clients, log: EventLog) -> tuple[Application, str | None]:
    """Read a log; return its application and why some events are missing."""
    application = Application(log.name)
    torn = None
    try:
        application.take(log_files.lines(clients, log))
    except TornError as error:
        torn = None if log.is_open and not isinstance(error, LostError) else f"the log {error}"
    return application, torn or _lacks(log, application)


def _lacks(log: EventLog, application: Application) -> str | None:
    if application.rejected and not (application.rejected == 1 and log.is_open):
        more = f" and {application.rejected - 1} more" if application.rejected > 1 else ""
        return f"{application.fault}{more}"
    if application.unread:
        return f"{application.unread} writes have a plan that cannot be understood"
    if short := sum(map(_lacks_tasks, application.writes())):
        return f"{short} writes counted more rows than the tasks whose ends are in the log"
    if log.missing:
        return f"the log lacks files, file {log.missing[0]} first"
    if log.is_compacted:
        return "the log was compacted: what ended before is not in it any more"
    if not application.ended and not log.is_open:
        return "the log ends before its application does"
    return None


def _lacks_tasks(job: WriteJob) -> bool:
    """Return whether ends of tasks are missing, as after Spark's listeners were too slow and events were dropped."""
    committed = sum(attempts[-1].records for attempts in job.splits.values())
    return job.outcome == SUCCEEDED and job.totals.get("records", 0) > committed


@dataclass(frozen=True)
class Homes:
    """Holds the tables whose writes are requested, by location.

    `since` is by table the time since which files must still exist; in a table without it all must exist.
    """

    tables: Mapping[Location, str]
    aliases: Aliases = ()
    since: Mapping[str, datetime] = field(default_factory=dict)

    def stays(self, table: str, path: Location, at: datetime | None) -> bool:
        """Return whether files written there at that time must exist: not temporary, not old enough to be removed."""
        home = next(
            (home for home, name in self.tables.items() if name == table and home.contains(path)), path
        )
        if re.search(keys.UNSEEN, path.key[len(home.key) :]):
            return False
        since = self.since.get(table)
        return since is None or at is None or at >= since

    def write(self, job: WriteJob) -> tuple[Location, str] | None:
        """Return (output path, table); None if no requested table holds the path."""
        named = place_by_name(self.aliases, job.path.rstrip("/"))
        if named is None:
            return None
        path = Location(*named)
        table = self.tables.get(path) or owner_of(self.tables, *path)
        return None if table is None else (path, table)


def rows_of(
    application: Application, homes: Homes, until: datetime | None, written_at: datetime
) -> Iterator[tuple[str, pa.Table]]:
    """Yield WRITES and SPLITS rows of the writes into tables; those that ended after `until` are left out.

    A write counts as ended at the latest when its log was written, whatever its writer's clock showed.
    """
    writes: list[tuple[Any, ...]] = []
    splits: list[tuple[Any, ...]] = []
    for each in application.writes():
        job = replace(each, ended_at=min(each.ended_at, written_at)) if each.ended_at else each
        found = homes.write(job)
        at = job.ended_at or job.started_at
        if found is None or (until is not None and at is not None and at > until):
            continue
        path, table = found
        name = f"{job.application}/{job.execution}"
        base = without_partitions(path.key)
        dynamic = bool(job.dynamic and job.by and job.mode == "Overwrite")
        writes.append(
            (table, path.bucket, base, name, path.key, *_emptied_place(job, path), job.by, dynamic, job.outcome,
             plain_time(job.started_at), plain_time(job.ended_at), job.totals.get("partitions"),
             job.totals.get("files"), homes.stays(table, path, at))
        )  # fmt: skip
        splits += [
            (path.bucket, base, name, number, attempts[-1].records, attempts[-1].bytes, number in job.retried)
            for number, attempts in job.splits.items()
        ]
    yield "writes", duck.small(WRITES, writes)
    yield "splits", duck.small(SPLITS, splits)


def _emptied_place(job: WriteJob, path: Location) -> tuple[str | None, datetime | None]:
    """Return the key of the place that a write empties, or found empty when it began, and when; None if there is none.

    A write that may only begin in an empty place has succeeded, so all earlier files had been removed.
    """
    if job.mode == "Overwrite":
        fixed = "/".join(each.strip().strip("'\"") for each in job.fixed.split(",") if each)
        return path.join(fixed).key if fixed else path.key, plain_time(job.ended_at or job.started_at)
    if job.mode in ("ErrorIfExists", "Ignore") and job.outcome == SUCCEEDED and job.splits:
        return path.key, plain_time(job.started_at)
    return None, None


def without_partitions(folder: str) -> str:
    """Return a folder without the folders of partition values at its end; `stored_parts.base_of` is the same in SQL."""
    parts = folder.split("/")
    while parts and "=" in parts[-1] and not parts[-1].startswith("="):
        parts.pop()
    return "/".join(parts)
