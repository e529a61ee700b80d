"""The commit axis: commits of tables' logs that were written twice. Only the few suspicious ones are read.

What a lost version added is looked up in the claims of its table: what a later commit has added again is not lost.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.compare import commits
from lakeaudit.compare.commits import Loss, Rewritten
from lakeaudit.config import Table
from lakeaudit.digests import digest
from lakeaudit.evidence.protocol import (
    Claims,
    CommitContents,
    CommitFile,
    CommitLogs,
    Doubt,
    Fold,
    Kept,
    Part,
)
from lakeaudit.formatting import count, second, size
from lakeaudit.kinds import KINDS
from lakeaudit.ledger.resolution import RESTORED
from lakeaudit.pipeline.audit_context import AuditContext
from lakeaudit.pipeline.chunks import Reading
from lakeaudit.pipeline.engine import AuditEngine
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, plain_time

OVERWRITTEN = "overwritten_commit"
MOST_OF_TABLE, MOST = 20, 200
"""Rewritten commits that are read of one table, and of all of them, in one run."""

Finding = dict[str, Any]


@dataclass
class CommitChecks:
    """Rows for FINDINGS; subjects that a look has shown to be whole, as `words`; tables not all judged, and why."""

    rows: list[Finding] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)
    unsure: dict[str, str] = field(default_factory=dict)

    def words(self) -> pa.Table:
        """What the run says of known subjects, see `ledger.resolution.resolutions`."""
        return duck.small(_WORDS, [(id_, RESTORED, True) for id_ in self.whole])

    def warnings(self) -> list[str]:
        """What to say of the tables that were not all judged."""
        return [f"{table}: {why}" for table, why in sorted(self.unsure.items())]


_WORDS = pa.schema([("discrepancy_id", pa.string()), ("n_resolution", pa.string()), ("n_live", pa.bool_())])


def commit_checks(audit: AuditContext, engine: AuditEngine, versions: Rows) -> CommitChecks:
    """What is wrong with single commits of the tables in scope; `versions` are LOG_VERSIONS rows."""
    found = CommitChecks()
    if not audit.partitions:  # of a part nothing can be said about its table
        for read in audit.observed.evidence.claims:
            if read.commits is not None:
                _check(audit, engine, versions, read, read.commits, found)
    return found


def _check(
    audit: AuditContext,
    engine: AuditEngine,
    versions: Rows,
    read: Claims,
    logs: CommitLogs,
    found: CommitChecks,
) -> None:
    tables = {table.name: table for table in audit.scope}
    places = {name: table.location for name, table in tables.items()}
    suspects = _limited(_not_copied(commits.rewritten(audit.con, versions, places, logs.since), logs), found)
    contents = (
        logs.read([file for one in suspects for file in _both(one)], audit.context.clients)
        if suspects
        else None
    )
    if contents is not None:
        claims = _claims_of(audit.con, engine, read, commits.added_by_lost(audit.con, contents.files))
        names = [one.table for one in suspects]
        lost = commits.losses(audit.con, contents.files, contents.commits, claims, names)
        for number, one in enumerate(suspects):
            _judge(audit, tables[one.table], one, contents, number, lost[number], found)
    known = {row["subject"] for row in found.rows}
    doubts = [doubt for doubt in logs.doubts(audit.context.clients) if doubt.commit.table in tables]
    found.rows += [_by_time(tables[d.commit.table], d) for d in doubts if d.commit.place.uri not in known]


def _not_copied(rewritten: Sequence[Rewritten], logs: CommitLogs) -> list[Rewritten]:
    return [
        one for one in rewritten
        if not commits.is_copied(one, [plain_time(logs.written_at(one.table, one.version + n)) for n in (-1, 1)])
    ]  # fmt: skip


def _limited(rewritten: Sequence[Rewritten], found: CommitChecks) -> list[Rewritten]:
    """As many as may be read in one run, newest first; the tables of the others are not all judged."""
    taken: Counter[str] = Counter()
    chosen: list[Rewritten] = []
    for one in rewritten:
        if taken[one.table] < MOST_OF_TABLE and len(chosen) < MOST:
            taken[one.table] += 1
            chosen.append(one)
        else:
            found.unsure[one.table] = "more of its commits were written twice than are read in one run"
    return chosen


def _both(one: Rewritten) -> tuple[CommitFile, CommitFile]:
    """The lost version of a commit and the one that took its place."""
    at = (one.table, one.root, one.version, one.place)
    return CommitFile(*at, one.lost_version_id), CommitFile(*at, one.version_id)


def _claims_of(con: Connection, engine: AuditEngine, read: Claims, keys: pa.Table) -> Relation:
    """What the tables' states say of a few keys: CLAIM rows."""
    rows: list[Part | Kept] = []
    for source in read.rows:
        rows += source if isinstance(source, tuple) else [source]
    if not keys.num_rows:
        return duck.relation(con, CLAIM.empty_table())
    answers = engine.run(rows, [partial(_folded, read.fold)], Reading(partial(_only, keys)))
    batches = [batch for kind, batch in answers if kind == "folded"]
    return duck.relation(con, pa.Table.from_batches(batches, None if batches else CLAIM))


def _only(keys: pa.Table, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Of the rows of a part those about these keys."""
    if {"bucket", "key"} <= set(duck.relation(con, rows).columns):
        yield (
            kind,
            duck.query(con, "SELECT * FROM input SEMI JOIN keys USING (bucket, key)", input=rows, keys=keys),
        )


def _folded(fold: Fold, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    yield "folded", duck.conform(con, fold(con, rows), CLAIM)


def _judge(
    audit: AuditContext, table: Table, one: Rewritten, contents: CommitContents, number: int, loss: Loss,
    found: CommitChecks,
) -> None:  # fmt: skip
    lost, current = contents.commits[2 * number : 2 * number + 2]
    if unread := lost.unread or current.unread:
        if one.sure:
            found.rows.append(_finding(table, one, f"its versions cannot be compared: {unread}", None))
        else:
            found.unsure[table.name] = f"{one.place.uri} has two versions that cannot be compared: {unread}"
    elif loss:
        found.rows.append(_finding(table, one, _in_words(lost.operation, loss), loss))
    else:
        found.whole.append(digest(audit.stamp.lake, table.name, "commit", "commit", one.place.uri))


def _finding(table: Table, one: Rewritten, told: str, loss: Loss | None) -> Finding:
    return _row(table, one.version, one.place) | {
        "severity": table.severity_of(OVERWRITTEN, "critical"),
        "files": loss.files if loss else None,
        "rows_at_stake": loss.rows if loss else None,
        "bytes_at_stake": loss.bytes if loss else None,
        "manifest_etag": one.lost_etag,
        "manifest_version_id": one.lost_version_id,
        "manifest_time": one.lost_at,
        "storage_etag": one.etag,
        "storage_version_id": one.version_id,
        "storage_time": one.written_at,
        "recoverable": "yes" if loss else "unknown",
        "recovery": "older_version" if loss else None,
        "recovery_version_id": one.lost_version_id if loss else None,
        "explanation": f"commit {one.version} was written at {second(one.lost_at)} and again, with other content, at "
        f"{second(one.written_at)}: the first commit is gone; {told}",
    }


def _in_words(operation: str, loss: Loss) -> str:
    """What the lost version said and nothing says since."""
    rows = f", {count(loss.rows)} rows" if loss.rows is not None else ""
    sample = f" ({', '.join(loss.sample)}{', ...' if loss.files > len(loss.sample) else ''})"
    told = [
        f"added {count(loss.files)} files{rows}, {size(loss.bytes)}, that no state lists{sample}"
        if loss.files
        else "",
        f"removed {count(loss.undone)} files that are listed still" if loss.undone else "",
        "changed the table's metadata" if loss.of_table else "",
    ]
    return f"the lost version{f' ({operation})' if operation else ''} " + "; ".join(filter(None, told))


def _by_time(table: Table, doubt: Doubt) -> Finding:
    likely = "" if doubt.sure else "probably "
    return _row(table, doubt.commit.version, doubt.commit.place) | {
        "severity": table.severity_of(OVERWRITTEN, "critical" if doubt.sure else "warning"),
        "recoverable": "unknown",
        "explanation": f"commit {doubt.commit.version} was {likely}written twice: {doubt.why}; what the first one said "
        "is not known here: look for an older version of the file, and for files never committed of that time",
    }


def _row(table: Table, version: int, place: Any) -> Finding:
    """What findings about a commit have in common."""
    return {
        "table_name": table.name,
        "axis": KINDS[OVERWRITTEN].axis,
        "kind": OVERWRITTEN,
        "subject_type": "commit",
        "subject": place.uri,
        "bucket": place.bucket,
        "key": place.key,
        "category": "log",
        "table_version": version,
        "commit_id": str(version),
        "manifest_kind": "delta",
        "confirmation": "not_needed",
    }
