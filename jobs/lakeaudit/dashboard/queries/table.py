"""Reads one table: its damage by kind and partition, since when, causes, and recovery."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.advice.causes import causes_in_words, causes_of_all, counted_causes
from lakeaudit.formatting import NO_TABLE
from lakeaudit.kinds import SEVERITIES, rank
from lakeaudit.report.summary import Amount
from lakeaudit.results.read import Results, Row
from lakeaudit.results.recovery import Recovery
from lakeaudit.results.sql import ask, text, texts
from lakeaudit.results.summaries.lake_standing import (
    BY_HAND,
    NEEDS_ALLOW,
    SINCE,
    UNKNOWN_PARTS,
    standing,
    with_commits,
)

PAGE_ROWS = 50
"""Number of discrepancies on a page of a list."""
PARTITIONS = 2000
"""Number of worst partitions that are drawn; the others are counted."""
COMMITS = 50
CHANGES = 5000
"""Number of moments with a change; a run has at most two."""
STANDINGS = ("open", "accepted", "pending", "resolved")
"""Standings of a discrepancy; an accepted one is open or pending, and somebody has accepted it until later."""

RANK = f"array_position([{texts(SEVERITIES)}], severity)"
"""1 is the worst; null for an unknown severity, which comes last."""

WORST_FIRST = f"{RANK} ASC NULLS LAST, bytes_at_stake DESC NULLS LAST, subject, discrepancy_id"


@dataclass(frozen=True)
class Broken:
    """Discrepancies of one kind, severity and standing in a table.

    `again` of them were resolved before; `since` is the time of their first evidence; `why` is the
    explanation of one of them, `by_cause` counts the known causes.
    """

    kind: str
    severity: str
    standing: str
    number: int
    again: int
    files: Amount
    rows: Amount
    bytes: Amount
    since: datetime | None
    recovery: Recovery
    why: str | None
    by_cause: Mapping[str, int]
    manifest_kind: str | None = None
    noticed: datetime | None = None
    """The time of the audit that saw the first of them."""
    newest: datetime | None = None
    """Since when the newest of them exists."""

    @property
    def causes(self) -> tuple[str, ...]:
        """Return the causes, if every discrepancy has a known one; see `next_steps.may_be_meant`."""
        return causes_of_all(self.by_cause, self.number)

    @property
    def cause(self) -> str:
        """Return the cause of all, or how many have which cause; empty if no cause is known."""
        return causes_in_words(self.by_cause, self.number)

    @property
    def answers(self) -> Mapping[str, int]:
        """Return the answers for plans, see `commands_for_table`."""
        return self.recovery.plannable


@dataclass(frozen=True)
class Partition:
    """Open discrepancies of one partition; `path` is empty for those of the whole table."""

    path: str
    worst: str
    by_severity: Mapping[str, int]

    @property
    def number(self) -> int:
        return sum(self.by_severity.values())


@dataclass(frozen=True)
class Commit:
    """A commit, snapshot or job whose files have open discrepancies."""

    commit_id: str
    kind: str
    number: int
    committed: datetime | None


@dataclass(frozen=True)
class ListFilter:
    """Filters of a list; empty means any. `like` is a part of the subject."""

    standings: tuple[str, ...] = ("open",)
    severities: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    partition: str | None = None
    like: str = ""


@dataclass(frozen=True)
class Listed:
    """A page of a list, and the number of all rows."""

    rows: Sequence[Row]
    total: int


@dataclass(frozen=True)
class Partitions:
    """The worst partitions with open discrepancies, and the number of the others."""

    shown: tuple[Partition, ...] = field(default=())
    rest: int = 0


def of_table(label: str | None) -> str:
    """Return the condition for rows of one table, which may be `NO_TABLE`; None: of all tables."""
    if label is None:
        return "true"
    return "table_name IS NULL" if label == NO_TABLE else f"table_name = {text(label)}"


def broken(results: Results, table: str, now: datetime) -> tuple[Broken, ...]:
    """Return the unresolved discrepancies of a table by kind, worst and most first."""
    unresolved = f"state <> 'resolved' AND {of_table(table)}"
    sql = f"""SELECT kind, severity, {standing(now)} AS standing, recoverable, cause, cause_principal,
            count(*) AS number,
            {BY_HAND} AS by_hand, {NEEDS_ALLOW} AS needs_allow,
            sum(files) AS files, sum(rows_at_stake) AS rows_at_stake, sum(bytes_at_stake) AS bytes_at_stake,
            min({SINCE}) AS since, max({SINCE}) AS newest, min(first_seen_at) AS noticed,
            min(recoverable_until) AS recoverable_until,
            count(*) FILTER (WHERE reopened > 0) AS again,
            min(explanation) AS why, min(manifest_kind) AS manifest_kind
        FROM discrepancies {with_commits("discrepancies", unresolved)} WHERE {unresolved}
        GROUP BY kind, severity, standing, recoverable, cause, cause_principal, {BY_HAND}, {UNKNOWN_PARTS}"""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in ask(results, sql, "discrepancies"):
        groups.setdefault((row["kind"], row["severity"], row["standing"]), []).append(row)
    found = [_broken(rows) for rows in groups.values()]
    return tuple(
        sorted(found, key=lambda each: (rank(each.severity), -each.number, each.kind, each.standing))
    )


def _broken(rows: Sequence[Row]) -> Broken:
    first = rows[0]
    return Broken(
        kind=first["kind"],
        severity=first["severity"],
        standing=first["standing"],
        number=sum(row["number"] for row in rows),
        again=sum(row["again"] for row in rows),
        files=Amount.of(row["files"] for row in rows),
        rows=Amount.of(row["rows_at_stake"] for row in rows),
        bytes=Amount.of(row["bytes_at_stake"] for row in rows),
        since=min((row["since"] for row in rows if row["since"]), default=None),
        recovery=Recovery.of_sums(rows, "number"),
        newest=max((row["newest"] for row in rows if row["newest"]), default=None),
        noticed=min((row["noticed"] for row in rows if row["noticed"]), default=None),
        why=min((row["why"] for row in rows if row["why"]), default=None),
        by_cause=counted_causes(rows),
        manifest_kind=min((row["manifest_kind"] for row in rows if row["manifest_kind"]), default=None),
    )


def partitions(results: Results, table: str, now: datetime) -> Partitions:
    """Return the partitions with open discrepancies that nobody accepted."""
    sql = f"""SELECT coalesce(partition_path, '') AS path, severity, count(*) AS number
        FROM discrepancies WHERE state = 'open' AND {standing(now)} = 'open' AND {of_table(table)}
        GROUP BY path, severity"""
    by_path: dict[str, dict[str, int]] = {}
    for row in ask(results, sql, "discrepancies"):
        by_path.setdefault(row["path"], {})[row["severity"]] = row["number"]
    found = [
        Partition(path, min(by, key=rank), {name: by[name] for name in sorted(by, key=rank)})
        for path, by in by_path.items()
    ]
    worst = sorted(found, key=lambda each: (rank(each.worst), -each.by_severity[each.worst], each.path))
    return Partitions(tuple(worst[:PARTITIONS]), max(len(worst) - PARTITIONS, 0))


@dataclass(frozen=True)
class Change:
    """The number of discrepancies of a table that opened, reopened or were resolved (`what`) at one moment."""

    at: datetime
    what: str
    number: int


def changes(of_lake: pa.Table, table: str | None) -> tuple[Change, ...]:
    """Return the newest changes of a table, oldest first, from the lake's `trends.changes`; None: of all tables."""
    counted = of_lake.filter(pc.is_in(of_lake["transition"], pa.array(_COUNTED)))
    if table is not None:
        names = counted["table_name"]
        counted = counted.filter(pc.is_null(names) if table == NO_TABLE else pc.equal(names, table))
    sums = counted.group_by(["at", "transition"]).aggregate([("number", "sum")])
    numbers = {(row["at"], row["transition"]): row["number_sum"] for row in sums.to_pylist()}
    newest = sorted(sorted(numbers), key=lambda change: change[0], reverse=True)[:CHANGES]
    return tuple(Change(at, what, numbers[at, what]) for at, what in reversed(newest))


_COUNTED = ("opened", "reopened", "resolved")


def commits(results: Results, table: str, now: datetime) -> tuple[Commit, ...]:
    """Return the commits of open discrepancies, newest first.

    A row's `table_version` is the state by which it was judged, not the commit of its file.
    """
    sql = f"""SELECT commit_id, kind, count(*) AS number, min(manifest_time) AS committed
        FROM discrepancies WHERE state = 'open' AND {standing(now)} = 'open' AND {of_table(table)}
            AND commit_id IS NOT NULL
        GROUP BY commit_id, kind ORDER BY committed DESC NULLS LAST, commit_id DESC, kind LIMIT {COMMITS}"""
    return tuple(Commit(**row) for row in ask(results, sql, "discrepancies"))


LISTED = f"""{SINCE} AS since, discrepancy_id, table_name, kind, severity, subject_type, subject, partition_path,
    rows_at_stake, bytes_at_stake, files, first_seen_at, reopened, recoverable, recovery, recoverable_until,
    explanation, state, ack_by, ack_until, resolution"""


def undone_plans(results: Results, table: str) -> list[Row]:
    """Return the plans whose steps for open discrepancies of a table were undone, newest first: plan_id, number, at."""
    still_open = f"SELECT discrepancy_id FROM discrepancies WHERE state = 'open' AND {of_table(table)}"
    sql = f"""SELECT plan_id, count(DISTINCT discrepancy_id) AS number, max(done_at) AS at FROM actions
        WHERE status = 'undone' AND discrepancy_id IN ({still_open}) GROUP BY plan_id ORDER BY at DESC"""
    return ask(results, sql, "actions", "discrepancies")


def listed(results: Results, table: str, filters: ListFilter, now: datetime, page: int) -> Listed:
    """Return a page of a table's discrepancies, worst first; pages begin at 1."""
    where = " AND ".join([of_table(table), *_conditions(filters, now)])
    sql = f"""SELECT {LISTED}, {standing(now)} AS standing FROM discrepancies WHERE {where}
        ORDER BY {WORST_FIRST} LIMIT {PAGE_ROWS} OFFSET {PAGE_ROWS * (page - 1)}"""
    rows = ask(results, sql, "discrepancies")
    if page == 1 and len(rows) < PAGE_ROWS:
        return Listed(rows, len(rows))
    (counted,) = ask(
        results, f"SELECT count(*) AS total FROM discrepancies WHERE {where}", "discrepancies"
    ) or [{"total": 0}]
    return Listed(rows, counted["total"])


def _conditions(filters: ListFilter, now: datetime) -> list[str]:
    conditions = []
    if filters.standings:
        conditions.append(f"{standing(now)} IN ({texts(filters.standings)})")
        conditions += (
            ["state <> 'resolved'"] if "resolved" not in filters.standings else []
        )  # skips files with resolved rows only
    if filters.severities:
        conditions.append(f"severity IN ({texts(filters.severities)})")
    if filters.kinds:
        conditions.append(f"kind IN ({texts(filters.kinds)})")
    if filters.partition is not None:
        conditions.append(f"coalesce(partition_path, '') = {text(filters.partition)}")
    if filters.like:
        conditions.append(f"strpos(subject, {text(filters.like)}) > 0")
    return conditions
