"""Answers for each line of a delete list whether a table needs the file that it names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakeaudit.collect.last_reads import last_reads
from lakeaudit.config import Lake, Table
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.manifest.file_list.fold import CHANGED
from lakeaudit.evidence.protocol import Context
from lakeaudit.guard.cleared import cleared_hashes
from lakeaudit.guard.doubts import Doubt
from lakeaudit.guard.guarded_rows import KeyEvidence, judged_keys
from lakeaudit.guard.lines import line_answers
from lakeaudit.guard.long_lists import LongList, is_among
from lakeaudit.guard.manifests import Manifests
from lakeaudit.guard.named_keys import distinct_lines, named_keys
from lakeaudit.guard.objects import current_objects
from lakeaudit.guard.references import KnownBefore, ListedReferences, changed_rows, read_references
from lakeaudit.keys import Location, uri_of
from lakeaudit.rules.guard_rules import FREE, LIVE, STATUSES
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.runtime.progress import Progress
from lakeaudit.schemas import rows_of

SHOWN_OF_LONG = 1000
"""The most live files of a long list that get an answer of their own."""


@dataclass(frozen=True)
class Question:
    """The lines of a list, and how to understand and check them.

    Attributes:
        listed: LISTED rows, or a long list, of which only some live files get an answer of their own.
        relative_to: locations to which relative paths belong.
        limit: the most objects that are requested from storage.
        doubts: why the lake may have tables that are not known.
        left_out: tables that the lake file leaves out; they may list files of others.
    """

    listed: Relation | LongList
    relative_to: Sequence[Location]
    limit: int
    doubts: tuple[Doubt, ...] = ()
    left_out: tuple[Table, ...] = ()


@dataclass(frozen=True)
class GuardAnswers:
    """The answers.

    Attributes:
        lines: a row for each file of the list: line, lines, text, bucket, key, status, reason, table_name,
            table_version, rows, until, size, etag, version_id, modified_at.
        read_at: when the newest commits were read.
        holds_until: until when the answers may be used.
        doubts: why tables could not be read completely.
        cleared: the number of further files of a long list, which are live.
    """

    lines: Relation
    read_at: datetime
    holds_until: datetime
    doubts: tuple[Doubt, ...]
    cleared: int = 0

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Return the number of files of the list by status."""
        rows = duck.rows_of(self._select("SELECT status, count(*) AS files FROM input GROUP BY status"))
        found = {row["status"]: row["files"] for row in rows}
        return {status: found.get(status, 0) + (status == LIVE) * self.cleared for status in STATUSES}

    def rows(self, *statuses: str, most: int | None = None) -> Iterator[Mapping[str, Any]]:
        """Yield the answers with these statuses in the order of the list; at most so many."""
        limit = "" if most is None else f"LIMIT {most}"
        chosen = f"SELECT * FROM input WHERE status IN ({duck.literals(statuses)}) ORDER BY line {limit}"
        yield from rows_of(self._select(chosen).to_arrow_reader(duck.BATCH_ROWS))

    def write_free_keys(self, path: str) -> int:
        """Write each object that is free once as CSV, in the order of the list; return their number."""
        free = f"status = {duck.literal(FREE)}"
        buckets = duck.rows_of(self._select(f"SELECT DISTINCT bucket FROM input WHERE {free}"))
        roots = "".join(
            f" WHEN {duck.literal(row['bucket'])} THEN {duck.literal(uri_of(row['bucket'], ''))}"
            for row in buckets
        )
        uri = f"CASE bucket{roots} END || key" if roots else "NULL"
        turn = "row_number() OVER (PARTITION BY bucket, key ORDER BY line)"
        sql = f"""SELECT bucket, key, {uri} AS uri, size, etag, version_id FROM (
            SELECT * FROM input WHERE {free} QUALIFY {turn} = 1) ORDER BY line"""
        return self._select(sql).write_csv(path)

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
        manifests = Manifests.of(lake, context)
        lines, cleared, expected = _uncleared(engine, manifests, con, question.listed)
        roots = {table.location for table in lake.tables}
        named = named_keys(con, lines, context.clients.names, question.relative_to, roots)
        listed = duck.hold(con, distinct_lines(con, named))
        duck.drop(con, lines)
        keys = duck.query(con, "SELECT * EXCLUDE fault FROM listed WHERE fault IS NULL", listed=listed)
        log.note(objects=duck.count_of(keys) + cleared)
    with progress.stage("read the tables") as log:
        log.watch(engine.work)
        known = KnownBefore(manifests, expected, question.doubts, question.left_out)
        references = read_references(lake, engine, context, con, keys, known)
        log.note(tables=len(lake.tables))
    with progress.stage("look at storage") as log:
        objects = current_objects(lake, engine, context, con, references.found, question.limit, pause)
        reads = _last_reads(lake, engine, context, references.found)
        log.note(objects=duck.count_of(objects))
    with progress.stage("read the newest commits"):
        read_at = clock()
        newer, doubts = _newest_commits(con, context, references)
    evidence = KeyEvidence(references.found, newer, objects, reads, doubts, references.longest, read_at)
    alone, several = (
        judged_keys(con, lake.tables, replace(evidence, found=_rows_where(references.found, condition)))
        for condition in ("NOT several", "several")
    )
    answers = line_answers(con, listed, alone, several)
    return GuardAnswers(answers, read_at, read_at + _shortest_grace(lake), doubts, cleared)


def _uncleared(
    engine: AuditEngine, manifests: Manifests, con: Connection, listed: Relation | LongList
) -> tuple[Relation, int, int | None]:
    """Return the lines that are compared by their text, how many others are live, and how many may have references.

    The first live files of a long list are compared by their text, too, because the command prints their tables.
    """
    if not isinstance(listed, LongList):
        return listed, 0, None
    found = cleared_hashes(engine, manifests, listed.once)
    shown = listed.first(found.live, SHOWN_OF_LONG)
    live = found.live[~is_among(found.live, shown)]
    expected = found.others + len(listed.repeated) + len(shown)
    return listed.lines_without(con, live), len(live), expected


def _rows_where(found: Relation, condition: str) -> Relation:
    return duck.query(found.con, f"SELECT * FROM found WHERE {condition}", found=found)


def _last_reads(lake: Lake, engine: AuditEngine, context: Context, found: Relation) -> pa.Table:
    """Return bucket, key and r_read of keys without a table that recorded requests have read recently."""
    if not lake.events:
        return _READS.empty_table()
    sql = "SELECT DISTINCT bucket, key FROM input WHERE r_live_table IS NULL AND r_history_table IS NULL"
    keys = duck.table(duck.query(found.con, sql, input=found))
    reads = last_reads(lake, engine, context, keys).items()
    return duck.small(_READS, [(*key, last.description) for key, last in reads])


_READS = pa.schema([("bucket", pa.string()), ("key", pa.string()), ("r_read", pa.string())])


def _newest_commits(
    con: Connection, context: Context, references: ListedReferences
) -> tuple[Relation, tuple[Doubt, ...]]:
    """Return the changes of the tables since they were read, and all doubts."""
    changes = [read.changes(context) for read in references.reads]
    doubts = [Doubt(name, why) for each in changes for name, why in each.unsure.items()]
    tables = {name: table for read in references.reads for name, table in read.tables.items()}
    rows = [changed_rows(con, each, tables) for each in changes]
    doubts += [doubt for _, stores in rows for doubt in stores]
    newer = duck.union(con, [CHANGED.empty_table(), references.logs, *(each for each, _ in rows)])
    return duck.hold_any(con, newer), tuple(dict.fromkeys([*references.doubts, *doubts]))


def _shortest_grace(lake: Lake) -> timedelta:
    """Return how long the answers hold: a new commit may list a file again."""
    return min((table.settings.grace for table in lake.tables), default=lake.settings.grace)
