"""Return witnesses from single commits: removals of unlisted files, rewrites that change rows, rival overwrites.

The rows come from one pass over all commits. Only the two commits of a pair of rivals, and the logs of tables with a
removal of an unlisted path, are read again.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from lakeaudit.checks.commits.commit_checks import MOST, MOST_OF_TABLE, claims_of_commits
from lakeaudit.checks.commits.repeated_batches import LiveBatch, live_batches
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.match_result import MatchResult
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.lineage import CHANGED_ROWS, CONTENT, IDLE_REMOVAL, RIVAL_OVERWRITES, Stake, Witness
from lakeaudit.evidence.protocol import Claims, CommitFile, CommitLogs
from lakeaudit.formatting import number
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Rows
from lakeaudit.schemas import IDLE_REMOVALS

Row = Mapping[str, Any]


def commit_witnesses(evidence: Evidence, engine: AuditEngine, matched: MatchResult) -> list[Witness]:
    """Return the witnesses of the tables in scope. An audit of partitions judges no commits."""
    if evidence.partitions:
        return []
    return [
        witness
        for read in evidence.observed.sources.claims if read.commits is not None
        for found in (
            _idle(evidence, read, read.commits, matched.rows("idle_removals")),
            _changed(evidence, read.commits, matched.rows("changed_rows")),
            _rivals(evidence, engine, read, read.commits, matched.rows("rivals")),
        )
        for witness in found
    ]  # fmt: skip


def _in_scope(evidence: Evidence, logs: CommitLogs, rows: Rows) -> list[Row]:
    """Return the rows of tables in scope, the newest commits first, limited to a number that a person can read."""
    names = {table.name for table in evidence.scope} & logs.since.keys()
    count: Counter[str] = Counter()
    selection: list[Row] = []
    for row in sorted(duck.rows_of(duck.relation(evidence.con, rows)), key=_newest_first):
        name = row["table_name"]
        if name in names and count[name] < MOST_OF_TABLE and len(selection) < MOST:
            count[name] += 1
            selection.append(row)
    return selection


def _newest_first(row: Row) -> tuple[int, int, str]:
    return -row.get("younger", row.get("version", 0)), -row.get("older", 0), row["table_name"]


_TOGETHER = """SELECT table_name, version, bool_and(from_start) AS from_start, sum(files)::BIGINT AS files,
        sum(live)::BIGINT AS live,
        CASE WHEN count(rows) = count(*) FILTER (live > 0) THEN sum(rows)::BIGINT END AS rows,
        sum(bytes)::BIGINT AS bytes, min(sample) AS sample
    FROM input GROUP BY table_name, version"""


def _idle(evidence: Evidence, read: Claims, logs: CommitLogs, rows: Rows) -> Iterator[Witness]:
    """Yield removals of unlisted files; if older states are not known, only those whose file readers still read."""
    shares = duck.relation(evidence.con, rows)
    found = _in_scope(evidence, logs, duck.made_of(evidence.con, _TOGETHER, shares))
    unlisted = {row["table_name"] for row in found if row["live"] < row["files"]}
    if unlisted and read.respelled is not None:
        more = duck.relation(evidence.con, _known_tables(read.respelled(unlisted), logs))
        both = duck.union(evidence.con, [duck.table(shares), duck.table(more)])
        found = _in_scope(evidence, logs, duck.query(evidence.con, _TOGETHER, input=both))
    for row in found:
        if row["live"] or row["from_start"]:
            yield _witness(logs, row, IDLE_REMOVAL, _in_vain(row), _stake_of_idle(row))


def _known_tables(rows: pa.Table, logs: CommitLogs) -> pa.Table:
    named = pa.array([name in logs.since for name in rows.column("table_name").to_pylist()], pa.bool_())
    return rows.filter(named).cast(IDLE_REMOVALS)


def _in_vain(row: Row) -> str:
    words = f"commit {row['version']} removes {number(row['files'], 'file')} that the version before it does not list"
    if not row["live"]:
        return (
            f"{words}, such as {row['sample']}; no version of the table ever listed "
            f"{'it' if row['files'] == 1 else 'them'}"
        )
    return (
        f"{words}; the table lists {row['live']:,} of {row['files']:,} with another path or deletion "
        f"vector, such as {row['sample']}"
    )


def _stake_of_idle(row: Row) -> Stake:
    return Stake(row["live"], row["rows"], row["bytes"]) if row["live"] else Stake(row["files"])


def _changed(evidence: Evidence, logs: CommitLogs, rows: Rows) -> Iterator[Witness]:
    for row in _in_scope(evidence, logs, rows):
        operation = f" ({row['operation']})" if row["operation"] else ""
        words = (
            f"commit {row['version']}{operation} removes files with {row['before']:,} rows and adds files with "
            f"{row['after']:,} rows"
        )
        stake = Stake(None, abs(row["after"] - row["before"]))
        yield _witness(logs, row, CHANGED_ROWS, words, stake)


def _rivals(
    evidence: Evidence, engine: AuditEngine, read: Claims, logs: CommitLogs, rows: Rows
) -> Iterator[Witness]:
    """Yield overwrites of one state that both left files live, except retries of one application."""
    pairs = _in_scope(evidence, logs, rows)
    files = [logs.file(row["table_name"], row[each]) for row in pairs for each in ("older", "younger")]
    if not files:
        return
    contents = logs.read(files, evidence.context.clients)
    claims = claims_of_commits(evidence, engine, read, contents, files)
    live = live_batches(evidence.con, contents.files, claims, [file.table for file in files])
    for at, row in enumerate(pairs):
        older, younger = contents.commits[2 * at : 2 * at + 2]
        again = bool(older.applications & younger.applications)
        if older.unread or younger.unread or again:
            continue
        yield from _both_live(files[2 * at + 1], row, live[2 * at], live[2 * at + 1])


def _both_live(file: CommitFile, row: Row, older: LiveBatch, younger: LiveBatch) -> Iterator[Witness]:
    if older.live and younger.live:
        words = (
            f"commits {row['older']} and {row['younger']} overwrite the same version of the table: "
            f"{older.live:,} files of "
            f"the first and {younger.live:,} files of the second are live"
        )
        stake = Stake(older.live, older.rows, older.bytes)
        yield Witness(file.table, RIVAL_OVERWRITES, (CONTENT,), file.place.uri, words, row["younger"], stake)


def _witness(logs: CommitLogs, row: Row, claim: str, words: str, stake: Stake) -> Witness:
    subject = logs.file(row["table_name"], row["version"]).place.uri
    return Witness(row["table_name"], claim, (CONTENT,), subject, words, row["version"], stake)
