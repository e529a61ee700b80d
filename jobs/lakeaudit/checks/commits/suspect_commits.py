"""Judge suspect commits: commits that may have been written twice or may repeat another one.

A commit whose file was overwritten more than once has a suspect for each lost version, and one verdict: that of the
first of their rules.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeaudit.checks.commits.commits import Loss, RewrittenCommit
from lakeaudit.checks.commits.repeated_batches import LiveBatch
from lakeaudit.evidence.protocol import CommitFile, CommitLogs, Doubt
from lakeaudit.matching.verdicts import FindingPolicy, group_verdicts
from lakeaudit.rules import file_rules
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import COMMIT, plain_time


@dataclass(frozen=True)
class RepeatedBatch:
    """The older commit of a repeated batch, and when both commits were made."""

    older: CommitFile
    older_at: datetime
    younger_at: datetime
    files: int
    transaction: str | None = None
    """The transaction of both commits; None: only their files are equal."""
    same_sums: bool = True
    """Whether both add equal numbers of files, rows and bytes."""


NO_LOSS, NONE_LIVE = Loss(), LiveBatch()


@dataclass(frozen=True)
class ComparedVersions:
    """Result of comparing both versions of a commit's file: the loss and its operation, or why it is unknown."""

    loss: Loss = NO_LOSS
    operation: str = ""
    unread: str = ""
    requested: bool = True


@dataclass(frozen=True)
class Batches:
    """The live parts of two batches, or why they are unknown."""

    older: LiveBatch = NONE_LIVE
    younger: LiveBatch = NONE_LIVE
    unread: str = ""


@dataclass(frozen=True)
class Suspect:
    """A commit with the reasons to suspect it; `written` has the write times of the commits before and after it."""

    file: CommitFile
    other: RewrittenCommit | None = None
    written: tuple[datetime | None, datetime | None] = (None, None)
    doubt: Doubt | None = None
    repeats: RepeatedBatch | None = None
    compared: ComparedVersions | None = None
    batches: Batches | None = None

    @property
    def is_rewritten(self) -> bool:
        """Return whether both versions of its file must be read; a log that was copied over another had no race."""
        facts = file_rules.facts_of(
            dict(zip(COMMIT.names, _row(self), strict=True)), file_rules.FACTS_OF["commit"]
        )
        return facts["other_version"] and not facts["copied_with_log"]

    @property
    def unread(self) -> str:
        """Return why it cannot be judged; empty if it can."""
        if self.compared and self.compared.unread:
            versions = f"{self.file.place.uri} has two versions that cannot be compared: "
            return f"{versions if self.compared.requested else ''}{self.compared.unread}"
        return self.batches.unread if self.batches else ""


@dataclass(frozen=True)
class JudgedSuspect:
    """A suspect with its verdict; `more` counts other lost versions of the commit, which have the same verdict."""

    suspect: Suspect
    rule: str
    outcome: str
    severity: str | None
    more: int = 0


def suspects(
    rewritten: Iterable[RewrittenCommit],
    doubts: Iterable[Doubt],
    pairs: Iterable[Mapping[str, Any]],
    logs: CommitLogs,
) -> list[Suspect]:
    """Return every suspect commit; `pairs` has REPEATED rows, `doubts` the doubts of the logs themselves."""
    doubted = {(doubt.commit.table, doubt.commit.version): doubt for doubt in doubts}
    repeats = {(pair["table_name"], pair["younger"]): _repeated(pair, logs) for pair in pairs}
    others: dict[tuple[str, int], list[RewrittenCommit]] = {}
    for one in rewritten:
        others.setdefault((one.table, one.version), []).append(one)
    return [
        Suspect(logs.file(*at), one, _neighbor_times(at, logs), doubted.get(at), repeats.get(at))
        for at in dict.fromkeys((*others, *doubted, *repeats))
        for one in others.get(at, (None,))
    ]


def _repeated(pair: Mapping[str, Any], logs: CommitLogs) -> RepeatedBatch:
    return RepeatedBatch(
        logs.file(pair["table_name"], pair["older"]),
        *(pair[name] for name in ("older_at", "younger_at", "files", "transaction", "same_sums")),
    )


def _neighbor_times(at: tuple[str, int], logs: CommitLogs) -> tuple[datetime | None, datetime | None]:
    table, version = at
    return plain_time(logs.written_at(table, version - 1)), plain_time(logs.written_at(table, version + 1))


def judge_suspects(con: Connection, each: Sequence[Suspect], policy: FindingPolicy) -> list[JudgedSuspect]:
    """Judge every suspect; return verdicts in the same order."""
    rows = duck.small(_NUMBERED, [(number, *_row(one)) for number, one in enumerate(each)])
    verdicts = duck.rows_of(group_verdicts(con, rows, "commit", policy))
    return [
        JudgedSuspect(each[row["number"]], row["rule"], row["outcome"], row["severity"])
        for row in sorted(verdicts, key=lambda row: row["number"])
    ]


_NUMBERED = pa.schema([("number", pa.int64()), *COMMIT])


def _row(one: Suspect) -> tuple[object, ...]:
    file, other = one.file, one.other
    relative = file.place.key.removeprefix(file.root.prefix)
    compared, loss = one.compared, one.compared.loss if one.compared else NO_LOSS
    requested = compared is not None and compared.requested
    older = one.batches.older if one.batches else NONE_LIVE
    younger = one.batches.younger if one.batches else NONE_LIVE
    return (
        *(file.table, file.place.bucket, file.place.key, relative, file.version),
        *((other.lost_at, other.written_at) if other else (None, None)),
        *one.written,
        *(other.sure if other else None, requested, requested and not (compared and compared.unread)),
        *(loss.files, loss.undone, loss.of_table),
        *(one.doubt is not None, one.doubt is not None and one.doubt.sure),
        *(one.repeats is not None, one.batches is not None and not one.batches.unread),
        *(older.files, older.live, younger.files, younger.live),
    )


def one_a_commit(each: Iterable[JudgedSuspect]) -> list[JudgedSuspect]:
    """Return one verdict per commit: for several lost versions the one whose rule comes first."""
    order = [rule.id for rule in file_rules.TABLES["commit"]]
    commits: dict[str, list[JudgedSuspect]] = {}
    for one in sorted(each, key=lambda one: order.index(one.rule)):
        commits.setdefault(one.suspect.file.place.uri, []).append(one)
    return [
        replace(first, more=sum(one.rule == first.rule for one in rest)) for first, *rest in commits.values()
    ]
