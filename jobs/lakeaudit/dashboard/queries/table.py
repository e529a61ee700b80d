"""One table: what is broken in it, where, since when, why, and whether it is recoverable."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.dashboard.queries.lake import Day, counted_back
from lakeaudit.formatting import NO_TABLE
from lakeaudit.kinds import SEVERITIES, rank
from lakeaudit.report.summary import Amount
from lakeaudit.results.lake_standing import UNKNOWN_PARTS, standing
from lakeaudit.results.read import Results, Row
from lakeaudit.results.recovery import Recovery
from lakeaudit.results.sql import ask, text, texts

PAGE_ROWS = 50
"""Discrepancies on a page of a list."""
PARTITIONS = 2000
"""Partitions drawn, the worst ones; the rest is a number."""
COMMITS = 50
CHANGES = 5000
"""Moments with a change: a run has two at most."""
DAYS = 60
"""Days with a change."""
STANDINGS = ("open", "accepted", "pending", "resolved")
"""How a discrepancy stands; accepted is what is open or pending and somebody has taken upon himself until later."""

RANK = f"array_position([{texts(SEVERITIES)}], severity)"
"""1 is the worst; null for what is no severity of ours, which comes last."""

WORST_FIRST = f"{RANK} ASC NULLS LAST, bytes_at_stake DESC NULLS LAST, subject, discrepancy_id"


@dataclass(frozen=True)
class Broken:
    """Discrepancies of one kind, severity and standing in a table.

    `again` of them were resolved before; `since` is the evidence that first showed any of them; `why` is the
    explanation of one of them, `causes` are known causes.
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
    causes: tuple[str, ...]
    manifest_kind: str | None = None

    @property
    def answers(self) -> Mapping[str, int]:
        return self.recovery.answers


@dataclass(frozen=True)
class Partition:
    """What is open in one partition; `path` is empty for what is about the table as a whole."""

    path: str
    worst: str
    by_severity: Mapping[str, int]

    @property
    def number(self) -> int:
        return sum(self.by_severity.values())


@dataclass(frozen=True)
class Commit:
    """A commit, snapshot or job whose files open discrepancies are about."""

    commit_id: str
    kind: str
    number: int
    committed: datetime | None


@dataclass(frozen=True)
class Wanted:
    """What a list is narrowed down to; empty means any. `like` is a part of the subject."""

    standings: tuple[str, ...] = ("open",)
    severities: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    partition: str | None = None
    like: str = ""


@dataclass(frozen=True)
class Listed:
    """A page of a list, and how many there are in all."""

    rows: Sequence[Row]
    total: int


@dataclass(frozen=True)
class Partitions:
    """The worst partitions with something open, by path, and how many more there are."""

    shown: tuple[Partition, ...] = field(default=())
    rest: int = 0


def of_table(label: str) -> str:
    """Rows of one table, as pages name it."""
    return "table_name IS NULL" if label == NO_TABLE else f"table_name = {text(label)}"


def broken(results: Results, table: str, now: datetime) -> tuple[Broken, ...]:
    """What is not resolved in a table, the worst and most first."""
    sql = f"""SELECT kind, severity, {standing(now)} AS standing, recoverable, cause, count(*) AS number,
            sum(files) AS files, sum(rows_at_stake) AS rows_at_stake, sum(bytes_at_stake) AS bytes_at_stake,
            min(first_seen_at) AS since, min(recoverable_until) AS recoverable_until,
            count(*) FILTER (WHERE reopened > 0) AS again,
            min(explanation) AS why, min(manifest_kind) AS manifest_kind
        FROM discrepancies WHERE state <> 'resolved' AND {of_table(table)}
        GROUP BY kind, severity, standing, recoverable, cause, {UNKNOWN_PARTS}"""
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
        why=min((row["why"] for row in rows if row["why"]), default=None),
        causes=tuple(sorted({row["cause"] for row in rows if row["cause"]})),
        manifest_kind=min((row["manifest_kind"] for row in rows if row["manifest_kind"]), default=None),
    )


def partitions(results: Results, table: str, now: datetime) -> Partitions:
    """Where it is open and accepted by nobody."""
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
    """How many discrepancies of a table opened, were reopened or resolved at one moment; `what` is which of these."""

    at: datetime
    what: str
    number: int


def changes(told: pa.Table, table: str) -> tuple[Change, ...]:
    """The newest changes of a table, oldest first, of those that `trends.changes` has told of the lake."""
    of = pc.is_null(told["table_name"]) if table == NO_TABLE else pc.equal(told["table_name"], table)
    numbers: Counter[tuple[datetime, str]] = Counter()
    for row in told.filter(pc.and_(of, pc.is_in(told["transition"], pa.array(_COUNTED)))).to_pylist():
        numbers[row["at"], row["transition"]] += row["number"]
    newest = sorted(sorted(numbers), key=lambda change: change[0], reverse=True)[:CHANGES]
    return tuple(Change(*change, numbers[change]) for change in reversed(newest))


_COUNTED = ("opened", "reopened", "resolved")


def table_days(results: Results, table: str, told: Sequence[Change]) -> tuple[Day, ...]:
    """The last days on which any of these changes fell, oldest first."""
    (held,) = ask(
        results, f"SELECT count(*) AS open FROM discrepancies WHERE state = 'open' AND {of_table(table)}",
        "discrepancies",
    ) or [{"open": 0}]  # fmt: skip
    days: dict[date, Row] = {}
    for change in reversed(told):
        none = {"day": change.at.date(), "opened": 0, "reopened": 0, "resolved": 0}
        days.setdefault(change.at.date(), none)[change.what] += change.number
    return counted_back([*days.values()][:DAYS], held["open"])


def commits(results: Results, table: str, now: datetime) -> tuple[Commit, ...]:
    """Commits that what is open goes back to, the newest first; none where no row says them.

    A row's `table_version` is the state that it was judged by, and not what its file goes back to.
    """
    sql = f"""SELECT commit_id, kind, count(*) AS number, min(manifest_time) AS committed
        FROM discrepancies WHERE state = 'open' AND {standing(now)} = 'open' AND {of_table(table)}
            AND commit_id IS NOT NULL
        GROUP BY commit_id, kind ORDER BY committed DESC NULLS LAST, commit_id DESC, kind LIMIT {COMMITS}"""
    return tuple(Commit(**row) for row in ask(results, sql, "discrepancies"))


_LISTED = (
    "discrepancy_id, kind, severity, subject_type, subject, partition_path, rows_at_stake, bytes_at_stake, files, "
    "first_seen_at, reopened, recoverable, recovery, recoverable_until, explanation, state, ack_by, ack_until, "
    "resolution"
)


def listed(results: Results, table: str, wanted: Wanted, now: datetime, page: int) -> Listed:
    """A page of a table's discrepancies, the worst first; pages begin at 1."""
    where = " AND ".join([of_table(table), *_conditions(wanted, now)])
    sql = f"""SELECT {_LISTED}, {standing(now)} AS standing FROM discrepancies WHERE {where}
        ORDER BY {WORST_FIRST} LIMIT {PAGE_ROWS} OFFSET {PAGE_ROWS * (page - 1)}"""
    rows = ask(results, sql, "discrepancies")
    if page == 1 and len(rows) < PAGE_ROWS:
        return Listed(rows, len(rows))
    (counted,) = ask(
        results, f"SELECT count(*) AS total FROM discrepancies WHERE {where}", "discrepancies"
    ) or [{"total": 0}]
    return Listed(rows, counted["total"])


def _conditions(wanted: Wanted, now: datetime) -> list[str]:
    told = []
    if wanted.standings:
        told.append(f"{standing(now)} IN ({texts(wanted.standings)})")
        told += (
            ["state <> 'resolved'"] if "resolved" not in wanted.standings else []
        )  # files of such alone are passed
    if wanted.severities:
        told.append(f"severity IN ({texts(wanted.severities)})")
    if wanted.kinds:
        told.append(f"kind IN ({texts(wanted.kinds)})")
    if wanted.partition is not None:
        told.append(f"coalesce(partition_path, '') = {text(wanted.partition)}")
    if wanted.like:
        told.append(f"strpos(subject, {text(wanted.like)}) > 0")
    return told
