"""Read the claims of Spark's event logs: logs are located here and read in tasks, and storage names their splits.

A log that cannot be read whole is an evidence gap of every table that uses it: it may have written, or emptied, any of
them. A write whose files cannot be identified is a gap, too. Missing files without a name are among a write's totals.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import pinned
from lakeaudit.evidence.manifest.file_list import fold
from lakeaudit.evidence.manifest.file_list.reader import changes_between
from lakeaudit.evidence.manifest.records.find import with_markers
from lakeaudit.evidence.manifest.spark_event_log import SparkEventLogManifest, log_files, names, stored_parts
from lakeaudit.evidence.manifest.spark_event_log.log_files import EventLog
from lakeaudit.evidence.manifest.spark_event_log.rows import Homes, application_of, rows_of
from lakeaudit.evidence.manifest.spark_event_log.write_jobs import SUCCEEDED
from lakeaudit.evidence.protocol import (
    Batches,
    Changes,
    Claims,
    Clock,
    Context,
    EvidenceGap,
    Part,
    SnapshotWindow,
    SourceInfo,
    TableState,
    Totals,
    note_row,
    utc_now,
)
from lakeaudit.evidence.storage.versions import prefixes_of
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import DECLARED, SAME_SPLIT

KIND = "spark_event_log"
PACKED = 10
"""Approximate bytes of events for each byte of a compressed log."""
_HIDES = "files that its application wrote, removed or replaced"


def manifests_of(table: Table) -> tuple[SparkEventLogManifest, ...]:
    """Return the table's event logs."""
    return tuple(each for each in table.manifests if isinstance(each, SparkEventLogManifest))


@dataclass(frozen=True)
class Logs:
    """Holds the logs of one place, for the tables that name it; `refused` says why they cannot be listed."""

    place: Location
    tables: tuple[Table, ...]
    logs: tuple[EventLog, ...] = ()
    refused: str | None = None

    def homes(self) -> dict[Location, str]:
        """Return the locations of its tables."""
        return {table.location: table.name for table in self.tables}

    def since(self, now: datetime) -> dict[str, datetime]:
        """Return by table the time since which files must still exist, for tables with a retention."""
        return {
            table.name: now - manifest.keep
            for table in self.tables
            for manifest in manifests_of(table)
            if manifest.location == self.place and manifest.keep is not None
        }


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """Return the claims of all tables that name event logs. If the run is not live, later writes are left out."""
    start = clock()
    return _claims(find(tables, ctx.clients), ctx, source_id, start, clock)


def _claims(found: Sequence[Logs], ctx: Context, source_id: str, start: datetime, clock: Clock) -> Claims:
    """Return the claims of logs that were located from `start` on."""
    kept = ctx.engine.keep([_part(each, log, ctx, source_id) for each in found for log in each.logs])
    homes = {home: name for each in found for home, name in each.homes().items()}
    storage = ctx.stored_rows() if kept.counts.get("writes") else ()
    claimed = ctx.engine.meet(
        [kept, *storage], partial(_project, prefixes_of(homes)), partial(names.resolved, source_id)
    )
    lacking = pa.Table.from_batches(claimed.batches("short"), DECLARED)
    short = with_markers(lacking, ctx.clients) if ctx.live else lacking
    cut = SnapshotWindow(start, clock()) if ctx.live else SnapshotWindow(ctx.as_of, ctx.as_of)
    notes = [json.loads(str(note["data"])) for note in kept.notes]
    holes = _unread(found, notes, source_id)
    return Claims(
        SourceInfo(
            source_id,
            "manifest",
            KIND,
            _places(found),
            digest(found),
            cut,
            kept.counts.get("splits", 0),
            None,
        ),
        rows=(claimed,),
        fold=partial(fold.claims, source=source_id, kind=KIND),
        states=_states(found, notes, cut.start),
        holes=(*holes, *_unidentified_writes(short, source_id)),
        warnings=tuple(_warnings(found)),
        attempts=pa.Table.from_batches(claimed.batches("attempts"), SAME_SPLIT),
        totals=Totals(_counts(found, notes), short, {h.table: h.reason for h in holes if h.table}),
    )


def changes(claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now) -> Changes:
    """Return the changes in the logs since `claims` were read; none if the logs are the same."""
    start = clock()
    found = find(tables, ctx.clients)
    if digest(found) == claims.info.identity:
        return Changes(fold.CHANGED.empty_table())
    return changes_between(claims, _claims(found, replace(ctx, live=True), claims.info.id, start, clock))


def find(tables: Sequence[Table], clients: Clients) -> list[Logs]:
    """Locate the logs of every place that tables name; each place is listed once."""
    named: dict[Location, list[Table]] = defaultdict(list)
    for table in tables:
        for manifest in manifests_of(table):
            named[manifest.location].append(table)
    return [_logs_of(place, tuple(those), clients) for place, those in sorted(named.items())]


def _logs_of(place: Location, tables: tuple[Table, ...], clients: Clients) -> Logs:
    try:
        logs = tuple(log_files.find(clients, place))
    except SourceError as error:
        return Logs(place, tables, refused=str(error))
    missing = f"{place.uri} holds no event log of Spark: check the location of the manifest"
    return Logs(place, tables, logs, None if logs else missing)


def _part(each: Logs, log: EventLog, ctx: Context, source_id: str) -> Part:
    clients = ctx.clients
    homes = Homes(each.homes(), clients.names, each.since(ctx.as_of))
    until = None if ctx.live else ctx.as_of
    weight = log.size * (1 if log.files[0].codec == "plain" else PACKED)
    return Part(source_id, partial(_read, log, homes, clients, until, source_id), weight)


def _read(
    log: EventLog,
    homes: Homes,
    clients: Clients,
    until: datetime | None,
    source_id: str,
    con: Connection,  # noqa: ARG001
) -> Batches:
    application, lacks = application_of(clients, log)
    facts: dict[str, Any] = {"log": log.place.uri, "lacks": lacks}
    for kind, rows in rows_of(application, homes, until, log.written_at):
        if kind == "writes":
            facts |= {"oldest": _oldest(rows), "writes": _committed_counts(rows)}
        yield kind, rows
    yield "notes", note_row(source_id, log.place.uri, data=json.dumps(facts))


def _oldest(writes: pa.Table) -> dict[str, str]:
    """Return by table when its first write of this log began."""
    found: dict[str, datetime] = {}
    for row in writes.select(["table_name", "started_at"]).to_pylist():
        if row["started_at"] is not None:
            found[row["table_name"]] = min(found.get(row["table_name"], row["started_at"]), row["started_at"])
    return {name: at.isoformat() for name, at in found.items()}


def _committed_counts(writes: pa.Table) -> dict[str, int]:
    """Count by table the committed writes of this log."""
    rows = writes.select(["table_name", "outcome"]).to_pylist()
    return dict(Counter(row["table_name"] for row in rows if row["outcome"] == SUCCEEDED))


def _project(homes: pa.Table, con: Connection, kind: str, rows: Rows) -> Batches:
    """Yield storage's objects with names as in Spark's output; writes and splits pass unchanged."""
    if kind == "versions":
        yield "parts", stored_parts.parts(con, rows, homes)
    elif kind in ("writes", "splits"):
        yield kind, rows


def _states(
    found: Sequence[Logs], notes: Sequence[Mapping[str, Any]], read_at: datetime
) -> dict[str, TableState]:
    oldest: dict[str, datetime] = {}
    for note in notes:
        for name, text in note["oldest"].items():
            at = datetime.fromisoformat(text).replace(tzinfo=UTC)
            oldest[name] = min(oldest.get(name, at), at)
    return {
        table.name: TableState(
            table.name,
            read_at,
            oldest.get(table.name),
            refused=next((e.refused for e in found if table in e.tables and e.refused), None),
            complete=all(manifest.complete for manifest in manifests_of(table)),
        )
        for each in found
        for table in each.tables
    }


def _unread(found: Sequence[Logs], notes: Sequence[Mapping[str, Any]], source_id: str) -> list[EvidenceGap]:
    lacking = {note["log"]: note["lacks"] for note in notes if note["lacks"]}
    return [
        EvidenceGap(source_id, lacking[log.place.uri], log.place.uri, table=table.name, hides=_HIDES)
        for each in found
        for log in each.logs
        if log.place.uri in lacking
        for table in each.tables
    ]


def _unidentified_writes(short: pa.Table, source_id: str) -> list[EvidenceGap]:
    """Return a gap for each write whose files cannot be identified: any file in its folder may be its own."""
    return [
        EvidenceGap(
            source_id,
            f"write {row['commit_id']}: {row['untold']} ({row['files']} files, {row['bytes']} bytes)",
            Location(row["bucket"], row["path"]).uri,
            table=row["table_name"],
            hides="which files it wrote",
        )
        for row in short.to_pylist()
        if row["untold"]
    ]


def _counts(found: Sequence[Logs], notes: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count by table the committed writes."""
    counted = Counter({table.name: 0 for each in found for table in each.tables})
    for note in notes:
        counted.update(note["writes"])
    return dict(counted)


def _warnings(found: Sequence[Logs]) -> list[str]:
    return [
        f"{each.place.uri}: {open_} of {len(each.logs)} applications have not ended; their last writes are not judged"
        for each in found
        if (open_ := sum(log.is_open for log in each.logs))
    ]


def digest(found: Sequence[Logs]) -> str:
    """Identify exactly which logs were read."""
    return pinned((file.file for each in found for log in each.logs for file in log.files), "log files")


def _places(found: Sequence[Logs]) -> str:
    return found[0].place.uri if len(found) == 1 else f"{len(found)} places"
