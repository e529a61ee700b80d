"""Answers for each line of a delete list whether a table needs the file that it names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakeaudit.collect.last_reads import last_reads
from lakeaudit.collect.read_sources import read_storage
from lakeaudit.config import Lake
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.manifest.file_list.fold import CHANGED
from lakeaudit.evidence.protocol import Context
from lakeaudit.guard.doubts import Doubt
from lakeaudit.guard.guarded_rows import KeyEvidence, judged_keys
from lakeaudit.guard.lines import line_answers
from lakeaudit.guard.named_keys import distinct_keys, named_keys
from lakeaudit.guard.objects import current_objects
from lakeaudit.guard.references import ListedReferences, read_references
from lakeaudit.keys import Location
from lakeaudit.rules.guard_rules import FREE, STATUSES
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.runtime.progress import Progress
from lakeaudit.schemas import rows_of


@dataclass(frozen=True)
class Question:
    """The lines of a list, and how to understand and check them.

    Attributes:
        listed: LISTED rows.
        relative_to: locations to which relative paths belong.
        limit: the most objects that are requested from storage.
        doubts: why the lake may have tables that are not known.
    """

    listed: Relation
    relative_to: Sequence[Location]
    limit: int
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True)
class GuardAnswers:
    """The answers.

    Attributes:
        lines: a row for each file of the list: line, lines, text, bucket, key, status, reason, table_name,
            table_version, rows, until, size, etag, version_id, modified_at.
        read_at: when the newest commits were read.
        holds_until: until when the answers may be used.
        doubts: why tables could not be read completely.
    """

    lines: Relation
    read_at: datetime
    holds_until: datetime
    doubts: tuple[Doubt, ...]

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Return the number of files of the list by status."""
        rows = duck.rows_of(self._select("SELECT status, count(*) AS files FROM input GROUP BY status"))
        found = {row["status"]: row["files"] for row in rows}
        return {status: found.get(status, 0) for status in STATUSES}

    def rows(self, *statuses: str, most: int | None = None) -> Iterator[Mapping[str, Any]]:
        """Yield the answers with these statuses in the order of the list; at most so many."""
        limit = "" if most is None else f"LIMIT {most}"
        chosen = f"SELECT * FROM input WHERE status IN ({duck.literals(statuses)}) ORDER BY line {limit}"
        yield from rows_of(self._select(chosen).to_arrow_reader(duck.BATCH_ROWS))

    def free_keys(self) -> Iterator[Mapping[str, Any]]:
        """Yield each object once that is free, in the order of the list."""
        turn = "row_number() OVER (PARTITION BY bucket, key ORDER BY line)"
        sql = f"SELECT * FROM input WHERE status = {duck.literal(FREE)} QUALIFY {turn} = 1 ORDER BY line"
        yield from rows_of(self._select(sql).to_arrow_reader(duck.BATCH_ROWS))

    def _select(self, sql: str) -> Relation:
        return duck.made_of(self.lines.con, sql, self.lines)


def answer(
    lake: Lake,
    question: Question,
    *,
    engine: AuditEngine,
    context: Context,
    con: Connection,
    clock: Callable[[], datetime],
    progress: Progress,
    pause: Callable[[float], None],
) -> GuardAnswers:
    """Answer for every line of a list whether a table needs the file that it names.

    The manifests are read before storage, and their newest commits after it, so a file that is committed meanwhile is
    live.
    """
    with progress.stage("read the list") as log:
        roots = {table.location for table in lake.tables}
        given = named_keys(con, question.listed, context.clients.names, question.relative_to, roots)
        named = duck.hold(con, given)
        keys = duck.hold(con, distinct_keys(con, named))
        log.note(objects=duck.count_of(keys))
    with progress.stage("read the tables") as log:
        log.watch(engine.work)
        storage = read_storage(lake, context) if duck.count_of(keys) > question.limit else ()
        references = read_references(lake, engine, context, con, keys, storage)
        log.note(tables=len(lake.tables))
    with progress.stage("look at storage") as log:
        objects = current_objects(lake, context, con, references.found, question.limit, pause)
        reads = _last_reads(lake, engine, context, references.found)
        log.note(objects=duck.count_of(objects))
    with progress.stage("read the newest commits"):
        read_at = clock()
        newer, doubts = _newest_commits(con, context, references)
        doubts = (*question.doubts, *doubts)
    evidence = KeyEvidence(references.found, newer, objects, reads, doubts, references.longest, read_at)
    judged = duck.hold(con, judged_keys(con, lake.tables, evidence))
    return GuardAnswers(line_answers(con, named, judged), read_at, read_at + _shortest_grace(lake), doubts)


def _last_reads(lake: Lake, engine: AuditEngine, context: Context, found: Relation) -> pa.Table:
    """Return bucket, key and r_read of keys without a table that recorded requests have read recently."""
    if not lake.events:
        return _READS.empty_table()
    sql = "SELECT bucket, key FROM input WHERE r_live_table IS NULL AND r_history_table IS NULL"
    keys = duck.table(duck.query(found.con, sql, input=found))
    reads = last_reads(lake, engine, context, keys).items()
    rows = [
        (*key, f"it was read on {last.at:%Y-%m-%d %H:%M} by {last.by or 'somebody'}") for key, last in reads
    ]
    return duck.small(_READS, rows)


_READS = pa.schema([("bucket", pa.string()), ("key", pa.string()), ("r_read", pa.string())])


def _newest_commits(
    con: Connection, context: Context, references: ListedReferences
) -> tuple[Relation, tuple[Doubt, ...]]:
    """Return the changes of the tables since they were read, and all doubts."""
    changes = [read.changes(context) for read in references.reads]
    doubts = [Doubt(name, why) for each in changes for name, why in each.unsure.items()]
    newer = duck.union(con, [CHANGED.empty_table(), references.logs, *(each.rows for each in changes)])
    return duck.hold_any(con, newer), tuple(dict.fromkeys([*references.doubts, *doubts]))


def _shortest_grace(lake: Lake) -> timedelta:
    """Return how long the answers hold: a new commit may list a file again."""
    return min((table.settings.grace for table in lake.tables), default=lake.settings.grace)
