"""The commit axis: commits that were written twice, and batches that were. Only the few suspicious ones are read.

What a lost version added is looked up in the claims of its table: what a later commit has added again is not lost.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from lakeaudit.compare import commits
from lakeaudit.compare.commits import Loss, Rewritten
from lakeaudit.compare.repeated_batches import live_batches
from lakeaudit.config import Table
from lakeaudit.digests import digest
from lakeaudit.evidence.protocol import (
    Claims,
    CommitContents,
    CommitFile,
    CommitLogs,
    Fold,
    pieces,
)
from lakeaudit.ledger.resolution import RESTORED
from lakeaudit.pipeline.audit_context import AuditContext
from lakeaudit.pipeline.chunks import Reading
from lakeaudit.pipeline.commit_rows import Finding, doubted, in_words, overwritten, repeated
from lakeaudit.pipeline.engine import AuditEngine
from lakeaudit.pipeline.lifecycles import ends
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, OLDER_VERSIONS, plain_time

MOST_OF_TABLE, MOST = 20, 200
"""Rewritten commits that are read of one table, and of all of them, in one run."""


@dataclass
class CommitChecks:
    """Rows for FINDINGS; subjects that a look has shown to be whole, as `words`; tables not all judged, and why.

    `lost` are versions that can bring something back, each with its finding; `untold`: what of their ends is unknown.
    """

    rows: list[Finding] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)
    unsure: dict[str, str] = field(default_factory=dict)
    lost: list[tuple[Rewritten, Finding]] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)

    def words(self) -> pa.Table:
        """What the run says of known subjects, see `ledger.resolution.resolutions`."""
        return duck.small(_WORDS, [(id_, RESTORED, True) for id_ in self.whole])

    def warnings(self) -> list[str]:
        """What to say of the tables that were not all judged, and of lost versions."""
        return [*(f"{table}: {why}" for table, why in sorted(self.unsure.items())), *self.untold]


_WORDS = pa.schema([("discrepancy_id", pa.string()), ("n_resolution", pa.string()), ("n_live", pa.bool_())])


def commit_checks(audit: AuditContext, engine: AuditEngine, versions: Rows, alike: Rows) -> CommitChecks:
    """What is wrong with single commits of the tables in scope, from LOG_VERSIONS and REPEATED rows."""
    found = CommitChecks()
    if not audit.partitions:  # of a part nothing can be said about its table
        for read in audit.observed.evidence.claims:
            if read.commits is not None:
                _check(audit, engine, versions, read, read.commits, found)
                _check_batches(audit, engine, alike, read, read.commits, found)
        _say_until_when(audit, found)
    return found


def _say_until_when(audit: AuditContext, found: CommitChecks) -> None:
    """Until when the lost versions are kept, by the lifecycle of their buckets."""
    lost = [(one.place.bucket, one.place.key, one.lost_version_id, one.lost_size, one.replaced_at, one.newer)
            for one, _ in found.lost]  # fmt: skip
    ended, found.untold = ends(audit.con, duck.small(OLDER_VERSIONS, lost), audit.lifecycles)
    told = {(row["bucket"], row["key"], row["version_id"]): row for row in duck.rows_of(ended)}
    for one, row in found.lost:
        if end := told.get((one.place.bucket, one.place.key, one.lost_version_id)):
            row["recoverable_until"] = end["recoverable_until"]
            row["explanation"] += f"; {end['kept_words']}"


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
    found.rows += [doubted(tables[d.commit.table], d) for d in doubts if d.commit.place.uri not in known]


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
    if not keys.num_rows:
        return duck.relation(con, CLAIM.empty_table())
    answers = engine.run([*pieces(*read.rows)], [partial(_folded, read.fold)], Reading(partial(_only, keys)))
    batches = [batch for kind, batch in answers if kind == "folded"]
    return duck.relation(con, pa.Table.from_batches(batches, None if batches else CLAIM))


def _only(keys: pa.Table, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Of the rows of a part those about these keys."""
    if {"bucket", "key"} <= set(duck.relation(con, rows).types):
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
            found.rows.append(overwritten(table, one, f"its versions cannot be compared: {unread}", None))
        else:
            found.unsure[table.name] = f"{one.place.uri} has two versions that cannot be compared: {unread}"
    elif loss:
        found.rows.append(overwritten(table, one, in_words(lost.operation, loss), loss))
        found.lost.append((one, found.rows[-1]))
    else:
        found.whole.append(digest(audit.stamp.lake, table.name, "commit", "commit", one.place.uri))


def _check_batches(
    audit: AuditContext,
    engine: AuditEngine,
    alike: Rows,
    read: Claims,
    logs: CommitLogs,
    found: CommitChecks,
) -> None:
    """Batches that were appended twice and are live twice."""
    tables = {table.name: table for table in audit.scope}
    known = {row["subject"] for row in found.rows}
    pairs = [pair for pair in duck.rows_of(duck.relation(audit.con, alike)) if pair["table_name"] in tables]
    for pair in pairs[MOST:]:
        found.unsure[pair["table_name"]] = "more of its commits look like one batch than are read in one run"
    files = [
        _commit(tables[pair["table_name"]], pair[end])
        for pair in pairs[:MOST]
        for end in ("older", "younger")
    ]
    if not files:
        return
    contents = logs.read(files, audit.context.clients)
    keys = duck.table(
        duck.query(audit.con, "SELECT DISTINCT bucket, key FROM f WHERE added", f=contents.files)
    )
    claims = _claims_of(audit.con, engine, read, keys)
    live = live_batches(audit.con, contents.files, claims, [file.table for file in files])
    for number, pair in enumerate(pairs[:MOST]):
        older, younger = files[2 * number : 2 * number + 2]
        unread = [
            content.unread for content in contents.commits[2 * number : 2 * number + 2] if content.unread
        ]
        if unread:
            found.unsure[older.table] = f"a commit that looks like another one cannot be read: {unread[0]}"
        elif live[2 * number].mostly and live[2 * number + 1].mostly and younger.place.uri not in known:
            found.rows.append(repeated(tables[older.table], pair, (older, younger), live[2 * number + 1]))


def _commit(table: Table, version: int) -> CommitFile:
    place = table.location.join("_delta_log", f"{version:020}.json")
    return CommitFile(table.name, table.location, version, place)
