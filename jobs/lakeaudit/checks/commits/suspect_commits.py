"""Suspect commits: what is known of each commit that may have been written twice or repeats another, and its verdict.

A commit whose file was written over more than once has a suspect for each lost version; it has one verdict, that of
the rule that stands first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeaudit.checks.commits.commits import Loss, Rewritten
from lakeaudit.checks.commits.repeated_batches import LiveBatch
from lakeaudit.evidence.protocol import CommitFile, CommitLogs, Doubt
from lakeaudit.matching.verdicts import FindingPolicy, group_verdicts
from lakeaudit.rules import file_rules
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import COMMIT, plain_time


@dataclass(frozen=True)
class Repeated:
    """The commit that an older one looks like, and when both were made."""

    older: CommitFile
    older_at: datetime
    younger_at: datetime
    files: int
    transaction: str | None = None
    """That both carry; None: they only look the same."""
    same_sums: bool = True
    """They add as many files, rows and bytes."""


NO_LOSS, NONE_LIVE = Loss(), LiveBatch()


@dataclass(frozen=True)
class Compared:
    """What both versions of a commit's file say: what is lost, by which operation; or why that cannot be told."""

    loss: Loss = NO_LOSS
    operation: str = ""
    unread: str = ""
    asked: bool = True


@dataclass(frozen=True)
class Batches:
    """What of two batches is live; or why that cannot be told."""

    older: LiveBatch = NONE_LIVE
    younger: LiveBatch = NONE_LIVE
    unread: str = ""


@dataclass(frozen=True)
class Suspect:
    """A commit, and what lets suspect it. `written` is when the files of the commits before and after it were."""

    file: CommitFile
    other: Rewritten | None = None
    written: tuple[datetime | None, datetime | None] = (None, None)
    doubt: Doubt | None = None
    repeats: Repeated | None = None
    compared: Compared | None = None
    batches: Batches | None = None

    @property
    def is_rewritten(self) -> bool:
        """Whether both versions of its file have to be read; a whole log that was copied over another is no race."""
        facts = file_rules.facts_of(
            dict(zip(COMMIT.names, _row(self), strict=True)), file_rules.FACTS_OF["commit"]
        )
        return facts["other_version"] and not facts["copied_with_log"]

    @property
    def unread(self) -> str:
        """Why it cannot be judged, where it cannot."""
        if self.compared and self.compared.unread:
            versions = f"{self.file.place.uri} has two versions that cannot be compared: "
            return f"{versions if self.compared.asked else ''}{self.compared.unread}"
        return self.batches.unread if self.batches else ""


@dataclass(frozen=True)
class Judged:
    """A suspect with its verdict; `more` lost versions of the same commit are not told by it."""

    suspect: Suspect
    rule: str
    outcome: str
    severity: str | None
    more: int = 0


def suspects(
    rewritten: Iterable[Rewritten],
    doubts: Iterable[Doubt],
    alike: Iterable[Mapping[str, Any]],
    logs: CommitLogs,
) -> list[Suspect]:
    """Every commit that anything is suspected of; `alike` are REPEATED rows, `doubts` those of the logs themselves."""
    doubted = {(doubt.commit.table, doubt.commit.version): doubt for doubt in doubts}
    repeats = {(pair["table_name"], pair["younger"]): _repeated(pair, logs) for pair in alike}
    others: dict[tuple[str, int], list[Rewritten]] = {}
    for one in rewritten:
        others.setdefault((one.table, one.version), []).append(one)
    return [
        Suspect(logs.file(*at), one, _written(at, logs), doubted.get(at), repeats.get(at))
        for at in dict.fromkeys((*others, *doubted, *repeats))
        for one in others.get(at, (None,))
    ]


def _repeated(pair: Mapping[str, Any], logs: CommitLogs) -> Repeated:
    return Repeated(
        logs.file(pair["table_name"], pair["older"]),
        *(pair[name] for name in ("older_at", "younger_at", "files", "transaction", "same_sums")),
    )


def _written(at: tuple[str, int], logs: CommitLogs) -> tuple[datetime | None, datetime | None]:
    table, version = at
    return plain_time(logs.written_at(table, version - 1)), plain_time(logs.written_at(table, version + 1))


def judged(con: Connection, each: Sequence[Suspect], words: FindingPolicy) -> list[Judged]:
    """The verdict of every suspect, in their order."""
    rows = duck.small(_NUMBERED, [(number, *_row(one)) for number, one in enumerate(each)])
    found = duck.rows_of(group_verdicts(con, rows, "commit", words))
    return [
        Judged(each[row["number"]], row["rule"], row["outcome"], row["severity"])
        for row in sorted(found, key=lambda row: row["number"])
    ]


_NUMBERED = pa.schema([("number", pa.int64()), *COMMIT])


def _row(one: Suspect) -> tuple[object, ...]:
    file, other = one.file, one.other
    relative = file.place.key.removeprefix(file.root.prefix)
    compared, loss = one.compared, one.compared.loss if one.compared else NO_LOSS
    asked = compared is not None and compared.asked
    older = one.batches.older if one.batches else NONE_LIVE
    younger = one.batches.younger if one.batches else NONE_LIVE
    return (
        *(file.table, file.place.bucket, file.place.key, relative, file.version),
        *((other.lost_at, other.written_at) if other else (None, None)),
        *one.written,
        *(other.sure if other else None, asked, asked and not (compared and compared.unread)),
        *(loss.files, loss.undone, loss.of_table),
        *(one.doubt is not None, one.doubt is not None and one.doubt.sure),
        *(one.repeats is not None, one.batches is not None and not one.batches.unread),
        *(older.files, older.live, younger.files, younger.live),
    )


def one_a_commit(each: Iterable[Judged]) -> list[Judged]:
    """Of several lost versions of one commit the one whose rule stands first."""
    order = [rule.id for rule in file_rules.TABLES["commit"]]
    commits: dict[str, list[Judged]] = {}
    for one in sorted(each, key=lambda one: order.index(one.rule)):
        commits.setdefault(one.suspect.file.place.uri, []).append(one)
    return [
        replace(first, more=sum(one.rule == first.rule for one in rest)) for first, *rest in commits.values()
    ]
