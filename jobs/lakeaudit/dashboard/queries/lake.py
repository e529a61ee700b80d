"""Reads the state of the whole lake: each table's health and coverage, and the changes by day."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

import pyarrow as pa

from lakeaudit.config import Lake
from lakeaudit.dashboard.queries.audit_health import alarms, troubles
from lakeaudit.dashboard.queries.plans import undelivered
from lakeaudit.formatting import NO_TABLE, PENDING, count, duration, share, table_label
from lakeaudit.kinds import SEVERITIES, axis_words, rank
from lakeaudit.report.coverage_view import NOTHING_JUDGED, STANDINGS, Cell, Judged, judged
from lakeaudit.report.evidence_ages import EvidenceAge, evidence_ages
from lakeaudit.report.summary import AT_STAKE, Amount
from lakeaudit.report.verdict import Verdict, verdict
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.results.recovery import Recovery
from lakeaudit.results.sql import ask, moment, text
from lakeaudit.results.summaries.lake_standing import (
    BY_HAND,
    NEEDS_ALLOW,
    SINCE,
    UNKNOWN_PARTS,
    lake_standing,
    standing,
    with_commits,
)
from lakeaudit.results.summaries.latest_coverage import latest_coverage
from lakeaudit.results.summaries.open_by_day import OpenByDay
from lakeaudit.results.summaries.trends import open_by_day
from lakeaudit.results.summaries.verified_tables import current_watermarks

RUNS = 30


NO_ROWS = Amount(0, whole=True)
NO_RECOVERY = Recovery()


@dataclass(frozen=True)
class LedgerSums:
    """Sums of one table's ledger rows: numbers by standing and severity, and since when the oldest is open."""

    numbers: Mapping[str, Mapping[str, int]]
    since: datetime | None
    rows: Amount = NO_ROWS
    """Rows at stake in open discrepancies of the worst severity above info, so that no file is counted twice."""
    recovery: Recovery = NO_RECOVERY
    """How many open discrepancies above info can be restored; expired ones do not count."""
    worst_recovery: Recovery = NO_RECOVERY
    """How many open discrepancies of the worst severity can be restored."""
    worst_kinds: Mapping[str, int] = field(default_factory=dict)
    """Numbers of open discrepancies of the worst severity by kind, the most first."""
    worst_files: Mapping[str, int] = field(default_factory=dict)
    """Numbers of their files by kind, as far as they are known."""
    again: int = 0
    """Number of these that were resolved before."""

    def by_severity(self, of: str) -> Mapping[str, int]:
        return self.numbers.get(of, {})

    def number(self, of: str) -> int:
        return sum(self.by_severity(of).values())


@dataclass(frozen=True)
class LastAudit:
    """The last published run that checked a table, and its coverage of the table."""

    judged: Judged
    run_id: str
    as_of: datetime
    finished_at: datetime
    status: str


_BLIND = ("nothing", "part")
"""Standings of a table for which evidence was missing."""


@dataclass(frozen=True)
class Health:
    """The current state of one table.

    `level` is the worst open severity; without one it is `fine` if a recent audit fully judged the table, else
    `unjudged`. `reason` explains a doubt.
    """

    table: str
    level: str
    reason: str
    ledger: LedgerSums
    last_audit: LastAudit | None
    watermark: Row | None = None
    """Its row of `verified_tables.current_watermarks`."""

    @property
    def doubt(self) -> str:
        """Return a short form of the reason; empty if there is none."""
        if not self.reason:
            return ""
        decided = self.last_audit.judged.standing if self.last_audit else "nothing"
        return STANDINGS[decided] if decided != "whole" else "uncertain"

    @property
    def is_blind(self) -> bool:
        """Return whether its last audit could not judge all of it, so that a source has to be repaired."""
        return bool(self.reason) and self.last_audit is not None and self.last_audit.judged.standing in _BLIND


@dataclass(frozen=True)
class Day:
    """Changes of one day, and the number of open discrepancies, accepted or not, at its end."""

    day: date
    opened: int
    reopened: int
    resolved: int
    open: int


@dataclass(frozen=True)
class LakeFigures:
    """The data of the first page, except `lake_days`; `runs`: the last, oldest first; `evidence`: ages of sources."""

    run: Row | None
    verdict: Verdict | None
    tables: tuple[Health, ...]
    totals: LedgerSums
    runs: tuple[Row, ...] = ()
    evidence: tuple[EvidenceAge, ...] = ()
    troubles: tuple[str, ...] = field(default=())
    alarms: Mapping[str, str] = field(default_factory=dict)
    """By run why its night was worse than others, see `audit_health.alarms`."""
    quiet_since: datetime | None = None
    """If nothing is open: the time of the last resolution, or of the first run."""


NOTHING = LedgerSums({}, None)


def lake_figures(
    results: Results, lake: Lake, now: datetime, tables: tuple[Health, ...] | None = None
) -> LakeFigures:
    """Return the data of the first page; `tables` is the result of `table_healths`, if the caller has it."""
    runs = results.runs()
    run = next((run for run in reversed(runs) if run["status"] in PUBLISHED), None)
    tables = table_healths(results, lake, now) if tables is None else tables
    totals = add_sums([table.ledger for table in tables] if run else ledger_sums(results, now).values())
    return LakeFigures(
        run=run,
        verdict=headline(results, run, lake, now, tables) if run else None,
        tables=tables,
        totals=totals,
        runs=tuple(runs[-RUNS:]),
        evidence=evidence_ages([run], lake, now) if run else (),
        alarms=alarms(results, runs[-RUNS:]),
        troubles=(*troubles(runs, lake.overdue, now), *undelivered(results)),
        quiet_since=None if totals.number("open") else _quiet_since(results, runs),
    )


def _quiet_since(results: Results, runs: Sequence[Row]) -> datetime | None:
    sql = "SELECT max(resolved_at) AS at FROM discrepancies WHERE state = 'resolved'"
    resolved = next((row["at"] for row in ask(results, sql, "discrepancies")), None)
    return resolved or min((run["as_of"] for run in runs if run["status"] in PUBLISHED), default=None)


def lake_days(results: Results, now: datetime, changed: pa.Table | None = None) -> OpenByDay:
    """Return what was open on each of the last days; `changed` is from `trends.changes`, if the caller has it."""
    return open_by_day(results, [run for run in results.runs() if run["status"] in PUBLISHED], now, changed)


def table_healths(results: Results, lake: Lake, now: datetime) -> tuple[Health, ...]:
    """Return the health of each table, worst first; empty before a run was published."""
    if results.last_published() is None:
        return ()
    audits = last_audits(results)
    watermarks = current_watermarks(results, lake, now, audits)
    rows = healths(lake, ledger_sums(results, now), audits, now)
    return tuple(replace(each, watermark=watermarks.get(each.table)) for each in rows)


def ledger_sums(results: Results, now: datetime) -> dict[str, LedgerSums]:
    """Return by table the sums of open, accepted and pending discrepancies."""
    over = f"recoverable = 'yes' AND recoverable_until <= {moment(now)}"
    answer = f"CASE WHEN {over} THEN 'unknown' ELSE recoverable END"
    unresolved = "state <> 'resolved'"
    sql = f"""SELECT table_name, kind, severity, {standing(now)} AS standing, count(*) AS number, {BY_HAND} AS by_hand,
            min({SINCE}) AS since, sum(files) AS files, sum(rows_at_stake) AS rows_at_stake, {answer} AS recoverable,
            count(*) FILTER (WHERE reopened > 0) AS again, {NEEDS_ALLOW} AS needs_allow,
            min(recoverable_until) FILTER (WHERE recoverable_until > {moment(now)}) AS recoverable_until
        FROM discrepancies {with_commits("discrepancies", unresolved)} WHERE {unresolved}
        GROUP BY table_name, kind, severity, standing, {BY_HAND}, {answer}, rows_at_stake IS NULL"""
    by_table: dict[str, list[Row]] = {}
    for row in ask(results, sql, "discrepancies"):
        by_table.setdefault(table_label(row["table_name"]), []).append(row)
    return {table: _sums(rows) for table, rows in by_table.items()}


def _sums(rows: Sequence[Row]) -> LedgerSums:
    numbers: dict[str, dict[str, int]] = {}
    for row in sorted(rows, key=lambda row: rank(row["severity"])):
        by = numbers.setdefault(row["standing"], {})
        by[row["severity"]] = by.get(row["severity"], 0) + row["number"]
    opened = [row for row in rows if row["standing"] == "open"]
    severest = min((row["severity"] for row in opened), key=rank, default=None)
    worst = [row for row in opened if row["severity"] == severest]
    kinds, files = Counter[str](), Counter[str]()
    for row in worst:
        kinds[row["kind"] or ""] += row["number"]
        files[row["kind"] or ""] += row["files"] or 0
    serious = [row for row in opened if row["severity"] in AT_STAKE]
    return LedgerSums(
        numbers,
        since=min((row["since"] for row in opened), default=None),
        rows=Amount.of(row["rows_at_stake"] for row in worst if row in serious),
        recovery=Recovery.of_sums(serious, "number"),
        worst_recovery=Recovery.of_sums(worst, "number"),
        again=sum(row["again"] for row in worst),
        worst_files=files,
        worst_kinds=dict(sorted(kinds.items(), key=lambda each: (-each[1], each[0]))),
    )


def add_sums(parts: Collection[LedgerSums]) -> LedgerSums:
    """Return the numbers of several tables together, and since when the oldest is open."""
    numbers: dict[str, dict[str, int]] = {}
    for part in parts:
        for of, by in part.numbers.items():
            into = numbers.setdefault(of, {})
            for severity, number in by.items():
                into[severity] = into.get(severity, 0) + number
    return LedgerSums(numbers, min((part.since for part in parts if part.since), default=None))


def last_audits(results: Results) -> dict[str, LastAudit]:
    """Return by table the last published run with coverage of it."""
    runs = {run["run_id"]: run for run in results.runs()}
    covered = latest_coverage(results)
    return {table_label(name): _last_audit(rows, runs) for name, rows in covered.items()}


def _last_audit(rows: Sequence[Row], runs: Mapping[str, Row]) -> LastAudit:
    (table,) = judged(rows)
    run = runs[rows[0]["run_id"]]
    return LastAudit(table, run["run_id"], run["as_of"], run["finished_at"], run["status"])


def healths(
    lake: Lake, ledger: Mapping[str, LedgerSums], last_audit: Mapping[str, LastAudit], now: datetime
) -> tuple[Health, ...]:
    """Return every table of the lake file, the ledger or the coverage, worst first."""
    names = dict.fromkeys([*(table.name for table in lake.tables), *ledger, *last_audit])
    every = [_health(name, ledger.get(name, NOTHING), last_audit.get(name), lake, now) for name in names]
    return tuple(sorted(every, key=_worst_first))


LEVELS = (*AT_STAKE, "unjudged", SEVERITIES[-1], "fine")
"""Worst first: a table that could not be judged is worse than one with findings at info."""


UNSEEN = f"{NOTHING_JUDGED}: no published run checked it"
NOT_FULLY_JUDGED = "not fully judged (no finding above info)"
"""Describes tables of level `unjudged`, which have no worse findings."""


def levels(tables: Iterable[Health]) -> Counter[str]:
    """Count the tables by level, without the line for findings that have no table."""
    return Counter(health.level for health in tables if health.table != NO_TABLE)


def _worst_first(health: Health) -> tuple[int, int, int, str]:
    """Return the sort key, as in the report: worst severity, most of it, most rows at stake, name."""
    level = LEVELS.index(health.level) if health.level in LEVELS else 0
    number = health.ledger.by_severity("open").get(health.level, 0)
    return level, -number, -(health.ledger.rows.known or 0), health.table


def _health(
    table: str, ledger: LedgerSums, last_audit: LastAudit | None, lake: Lake, now: datetime
) -> Health:
    worst = next(iter(ledger.by_severity("open")), None)
    doubt = "" if table == NO_TABLE else _doubt(last_audit, lake, now)
    if worst is not None and worst != SEVERITIES[-1]:
        return Health(table, worst, doubt, ledger, last_audit)
    pending = ledger.number("pending")
    doubt = doubt or (f"{count(pending)} {PENDING}" if pending else "")
    return Health(table, "unjudged" if doubt else worst or "fine", doubt, ledger, last_audit)


def _doubt(last_audit: LastAudit | None, lake: Lake, now: datetime) -> str:
    """Return why a table does not count as fine; empty if it does."""
    if last_audit is None:
        return UNSEEN
    if last_audit.judged.standing in ("nothing", "idle"):
        return NOTHING_JUDGED
    if last_audit.judged.standing == "young":
        reason = last_audit.judged.cells["content"].reason if "content" in last_audit.judged.cells else None
        return reason or STANDINGS["young"]
    if last_audit.status == "suspect":
        return "the evidence of its last audit is suspect"
    if last_audit.judged.standing == "part" and not _lacks_only_a_manifest(last_audit.judged):
        return f"{STANDINGS['part']}: {_not_whole(last_audit.judged)}"
    if last_audit.finished_at < now - lake.overdue:
        return f"last audited {duration(now - last_audit.finished_at)} ago"
    return ""


def _lacks_only_a_manifest(judged: Judged) -> bool:
    """Return whether an audit judged all of a table that a table without a manifest allows, as the report does."""
    return judged.is_decided and not judged.has_manifest


def _not_whole(judged: Judged) -> str:
    """Return the shares of axes that were not fully judged, grouped by reason."""
    reasons: dict[str, list[Cell]] = {}
    for cell in judged.cells.values():
        if cell.state in ("part", "nothing"):
            reasons.setdefault(cell.reason or "", []).append(cell)
    return "; ".join(": ".join(filter(None, (reason, _shares(cells)))) for reason, cells in reasons.items())


def _shares(cells: Sequence[Cell]) -> str:
    """Return the shares below 1; a share does not count files behind an evidence gap, so it may be 1 here."""
    less = [cell for cell in cells if cell.share != 1]
    return ", ".join(f"{axis_words(cell.axis)} {share(cell.share or 0.0)}" for cell in less)


def headline(results: Results, run: Row, lake: Lake, now: datetime, tables: Sequence[Health]) -> Verdict:
    """Return the report's verdict on the lake after its last published run."""
    audits = [table.last_audit for table in tables if table.last_audit]
    mine = [each.judged for each in audits if each.run_id == run["run_id"]]
    coverage, known = sorted(mine, key=lambda each: each.name), [table.name for table in lake.tables]
    totals = _totals(results, run["run_id"])
    how = lake_standing(results, run, now, past=False)
    return verdict(run, how, totals, coverage, known, results.verified(run["run_id"]))


def _totals(results: Results, run_id: str) -> list[Row]:
    sql = f"""SELECT kind, severity, table_name, NULL AS partition_path, recoverable, count(*) AS findings,
            sum(files) AS files, sum(rows_at_stake) AS rows_at_stake, sum(bytes_at_stake) AS bytes_at_stake,
            min(recoverable_until) AS recoverable_until
        FROM findings WHERE run_id = {text(run_id)} GROUP BY kind, severity, table_name, recoverable,
            {UNKNOWN_PARTS}"""
    return ask(results, sql, "findings")


def counted_back(newest_first: Sequence[Row], open_now: int) -> tuple[Day, ...]:
    """Return the days with their changes, counted back from the number that is open now."""
    days: list[Day] = []
    left = open_now
    for row in newest_first:
        days.append(Day(**row, open=max(left, 0)))
        left += row["resolved"] - row["opened"] - row["reopened"]
    return tuple(reversed(days))
