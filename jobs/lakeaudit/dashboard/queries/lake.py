"""The lake as a whole: how each table stands, what was decided of it, and what came and went by day."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

import pyarrow as pa

from lakeaudit.config import Lake
from lakeaudit.dashboard.queries.audit_health import EvidenceAge, evidence_ages, troubles
from lakeaudit.dashboard.queries.plans import unheard
from lakeaudit.formatting import NO_TABLE, PENDING, count, duration, share, table_label
from lakeaudit.kinds import SEVERITIES, axis_words, rank
from lakeaudit.report.coverage_view import NOTHING_JUDGED, STANDINGS, Cell, Judged, judged
from lakeaudit.report.summary import AT_STAKE, Amount
from lakeaudit.report.verdict import Verdict, verdict
from lakeaudit.results.lake_standing import PUBLISHED_RUNS, UNKNOWN_PARTS, lake_standing, standing
from lakeaudit.results.open_by_day import OpenByDay
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.results.recovery import Recovery
from lakeaudit.results.sql import ask, moment, text, texts
from lakeaudit.results.trends import open_by_day

RUNS = 30


NO_ROWS = Amount(0, whole=True)
NO_RECOVERY = Recovery()


@dataclass(frozen=True)
class Held:
    """What the ledger holds of one table: numbers by standing and severity, and since when the oldest is open."""

    numbers: Mapping[str, Mapping[str, int]]
    since: datetime | None
    rows: Amount = NO_ROWS
    """At stake in what is open of the worst severity above info: a file may have a finding of a lower one beside it."""
    recovery: Recovery = NO_RECOVERY
    """How many open discrepancies above info can be restored; expired ones do not count."""
    worst_recovery: Recovery = NO_RECOVERY
    """How many open discrepancies of the worst severity can be restored."""
    worst_kinds: Mapping[str, int] = field(default_factory=dict)
    """By kind how many are open of the worst severity, the most first."""
    again: int = 0
    """Of these those that were resolved before."""

    def by_severity(self, of: str) -> Mapping[str, int]:
        return self.numbers.get(of, {})

    def number(self, of: str) -> int:
        return sum(self.by_severity(of).values())


@dataclass(frozen=True)
class Looked:
    """The last published run that looked at a table, and what it could decide."""

    judged: Judged
    run_id: str
    as_of: datetime
    finished_at: datetime
    status: str


@dataclass(frozen=True)
class Health:
    """One table as it stands now.

    `level` is the worst severity that is open; else `unjudged`, unless a look that is not too old decided all of it:
    then `fine`. `reason` says why it is no better than that.
    """

    table: str
    level: str
    reason: str
    held: Held
    looked: Looked | None

    @property
    def doubt(self) -> str:
        """The reason in two words; empty where there is none."""
        if not self.reason:
            return ""
        decided = self.looked.judged.standing if self.looked else "nothing"
        return STANDINGS[decided] if decided != "whole" else "cannot tell"


@dataclass(frozen=True)
class Day:
    """What changed on one day, and what was open, accepted or not, at its end."""

    day: date
    opened: int
    reopened: int
    resolved: int
    open: int


@dataclass(frozen=True)
class LakeFigures:
    """What the first page shows beside `lake_days`; `runs`: the last, oldest first; `evidence`: what the run used."""

    run: Row | None
    verdict: Verdict | None
    tables: tuple[Health, ...]
    totals: Held
    runs: tuple[Row, ...] = ()
    evidence: tuple[EvidenceAge, ...] = ()
    troubles: tuple[str, ...] = field(default=())
    quiet_since: datetime | None = None
    """Where nothing is open: when the last of it was resolved, or the first run was that found nothing."""


NOTHING = Held({}, None)


def lake_figures(
    results: Results, lake: Lake, now: datetime, tables: tuple[Health, ...] | None = None
) -> LakeFigures:
    """The first page but for its days, from one state of the results; `tables` as of `table_healths`, if known."""
    runs = results.runs()
    run = next((run for run in reversed(runs) if run["status"] in PUBLISHED), None)
    tables = table_healths(results, lake, now) if tables is None else tables
    totals = _summed([table.held for table in tables] if run else held_by_table(results, now).values())
    return LakeFigures(
        run=run,
        verdict=headline(results, run, lake, now, tables) if run else None,
        tables=tables,
        totals=totals,
        runs=tuple(runs[-RUNS:]),
        evidence=evidence_ages(run, lake, now) if run else (),
        troubles=(*troubles(runs, lake.overdue, now), *unheard(results)),
        quiet_since=None if totals.number("open") else _quiet_since(results, runs),
    )


def _quiet_since(results: Results, runs: Sequence[Row]) -> datetime | None:
    sql = "SELECT max(resolved_at) AS at FROM discrepancies WHERE state = 'resolved'"
    resolved = next((row["at"] for row in ask(results, sql, "discrepancies")), None)
    return resolved or min((run["as_of"] for run in runs if run["status"] in PUBLISHED), default=None)


def lake_days(results: Results, now: datetime, told: pa.Table | None = None) -> OpenByDay:
    """What was open on each of the last days; `told` as of `trends.changes`, if known."""
    return open_by_day(results, [run for run in results.runs() if run["status"] in PUBLISHED], now, told)


def table_healths(results: Results, lake: Lake, now: datetime) -> tuple[Health, ...]:
    """How each table stands, the worst first; none before a run was published."""
    if results.last_published() is None:
        return ()
    return healths(lake, held_by_table(results, now), looked_at(results), now)


def held_by_table(results: Results, now: datetime) -> dict[str, Held]:
    """By table what is open, accepted or pending."""
    over = f"recoverable = 'yes' AND recoverable_until <= {moment(now)}"
    answer = f"CASE WHEN {over} THEN 'unknown' ELSE recoverable END"
    sql = f"""SELECT table_name, kind, severity, {standing(now)} AS standing, count(*) AS number,
            min(first_seen_at) AS since, sum(rows_at_stake) AS rows_at_stake, {answer} AS recoverable,
            count(*) FILTER (WHERE reopened > 0) AS again,
            min(recoverable_until) FILTER (WHERE recoverable_until > {moment(now)}) AS recoverable_until
        FROM discrepancies WHERE state <> 'resolved'
        GROUP BY table_name, kind, severity, standing, {answer}, rows_at_stake IS NULL"""
    found: dict[str, list[Row]] = {}
    for row in ask(results, sql, "discrepancies"):
        found.setdefault(table_label(row["table_name"]), []).append(row)
    return {table: _held(rows) for table, rows in found.items()}


def _held(rows: Sequence[Row]) -> Held:
    numbers: dict[str, dict[str, int]] = {}
    for row in sorted(rows, key=lambda row: rank(row["severity"])):
        by = numbers.setdefault(row["standing"], {})
        by[row["severity"]] = by.get(row["severity"], 0) + row["number"]
    opened = [row for row in rows if row["standing"] == "open"]
    severest = min((row["severity"] for row in opened), key=rank, default=None)
    worst = [row for row in opened if row["severity"] == severest]
    kinds: Counter[str] = Counter()
    for row in worst:
        kinds[row["kind"] or ""] += row["number"]
    serious = [row for row in opened if row["severity"] in AT_STAKE]
    return Held(
        numbers,
        since=min((row["since"] for row in opened), default=None),
        rows=Amount.of(row["rows_at_stake"] for row in worst if row in serious),
        recovery=Recovery.of_sums(serious, "number"),
        worst_recovery=Recovery.of_sums(worst, "number"),
        again=sum(row["again"] for row in worst),
        worst_kinds=dict(sorted(kinds.items(), key=lambda each: (-each[1], each[0]))),
    )


def _summed(parts: Collection[Held]) -> Held:
    numbers: dict[str, dict[str, int]] = {}
    for part in parts:
        for of, by in part.numbers.items():
            into = numbers.setdefault(of, {})
            for severity, number in by.items():
                into[severity] = into.get(severity, 0) + number
    return Held(numbers, min((part.since for part in parts if part.since), default=None))


def looked_at(results: Results) -> dict[str, Looked]:
    """By table the last published run that has a word on it.

    That is nearly always the last one: of tables that it did not look at all runs are asked, of which a year leaves
    millions of rows.
    """
    last = results.last_published()
    if last is None:
        return {}
    earlier = _earlier(results, last["run_id"])
    runs = {run["run_id"]: run for run in results.runs()} if earlier else {last["run_id"]: last}
    by_table: dict[str, list[Row]] = {}
    for row in [*_covered(results, [last["run_id"]]), *_covered(results, sorted({*earlier.values()}))]:
        name = row["table_name"] or ""
        if row["run_id"] == earlier.get(name, last["run_id"]):
            by_table.setdefault(name, []).append(row)
    return {table_label(name or None): _looked(rows, runs) for name, rows in by_table.items()}


def _covered(results: Results, run_ids: Sequence[str]) -> list[Row]:
    if not run_ids:
        return []
    return ask(results, f"SELECT * FROM coverage WHERE run_id IN ({texts(tuple(run_ids))})", "coverage")


def _earlier(results: Results, last: str) -> dict[str, str]:
    """By table that the last run has no word on the published run that has the last one."""
    sql = f""", named AS (SELECT coalesce(table_name, '') AS table_name, run_id FROM coverage),
        seen AS (SELECT DISTINCT table_name FROM named WHERE run_id = {text(last)}),
        unseen AS (SELECT named.* FROM named LEFT ANTI JOIN seen ON named.table_name = seen.table_name),
        numbered AS (
            SELECT run_id, row_number() OVER (ORDER BY finished_at, run_id) AS number FROM runs WHERE {PUBLISHED_RUNS}),
        newest AS (
            SELECT table_name, max(number) AS number FROM unseen JOIN numbered ON unseen.run_id = numbered.run_id
            GROUP BY table_name)
        SELECT newest.table_name, numbered.run_id FROM newest JOIN numbered ON newest.number = numbered.number"""
    return {row["table_name"]: row["run_id"] for row in ask(results, sql, "coverage", "runs")}


def _looked(rows: Sequence[Row], runs: Mapping[str, Row]) -> Looked:
    (table,) = judged(rows)
    run = runs[rows[0]["run_id"]]
    return Looked(table, run["run_id"], run["as_of"], run["finished_at"], run["status"])


def healths(
    lake: Lake, held: Mapping[str, Held], looked: Mapping[str, Looked], now: datetime
) -> tuple[Health, ...]:
    """Every table of the lake file, the ledger or the coverage, the worst first."""
    names = dict.fromkeys([*(table.name for table in lake.tables), *held, *looked])
    found = [_health(name, held.get(name, NOTHING), looked.get(name), lake, now) for name in names]
    return tuple(sorted(found, key=_worst_first))


LEVELS = (*AT_STAKE, "unjudged", SEVERITIES[-1], "fine")
"""Worst first: what could not be judged is worse than what is known to be old rubbish."""


UNSEEN = f"{NOTHING_JUDGED}: no published run looked at it"
UNSURE = "that could not be judged whole"
"""Tables of level `unjudged`: nothing worse is known of them."""


def levels(tables: Iterable[Health]) -> Counter[str]:
    """How many tables stand how; what belongs to none is not one."""
    return Counter(health.level for health in tables if health.table != NO_TABLE)


def _worst_first(health: Health) -> tuple[int, int, int, str]:
    """As the report has it: worst severity, most of it, most rows at stake, name."""
    level = LEVELS.index(health.level) if health.level in LEVELS else 0
    number = health.held.by_severity("open").get(health.level, 0)
    return level, -number, -(health.held.rows.known or 0), health.table


def _health(table: str, held: Held, looked: Looked | None, lake: Lake, now: datetime) -> Health:
    worst = next(iter(held.by_severity("open")), None)
    doubt = "" if table == NO_TABLE else _doubt(looked, lake, now)
    if worst is not None and worst != SEVERITIES[-1]:
        return Health(table, worst, doubt, held, looked)
    pending = held.number("pending")
    doubt = doubt or (f"{count(pending)} {PENDING}" if pending else "")
    return Health(table, "unjudged" if doubt else worst or "fine", doubt, held, looked)


def _doubt(looked: Looked | None, lake: Lake, now: datetime) -> str:
    """Why nothing good may be said of a table; empty where it may."""
    if looked is None:
        return UNSEEN
    if looked.judged.standing in ("nothing", "idle"):
        return NOTHING_JUDGED
    if looked.judged.standing == "young":
        reason = looked.judged.cells["content"].reason if "content" in looked.judged.cells else None
        return reason or STANDINGS["young"]
    if looked.status == "suspect":
        return "the evidence of its last audit is suspect"
    if looked.judged.standing == "part":
        return f"{STANDINGS['part']}: {_not_whole(looked.judged)}"
    if looked.finished_at < now - lake.overdue:
        return f"last looked at {duration(now - looked.finished_at)} ago"
    return ""


def _not_whole(judged: Judged) -> str:
    """By reason how much was decided of the axes that were not decided whole."""
    reasons: dict[str, list[Cell]] = {}
    for cell in judged.cells.values():
        if cell.state in ("part", "nothing"):
            reasons.setdefault(cell.reason or "", []).append(cell)
    return "; ".join(": ".join(filter(None, (reason, _shares(cells)))) for reason, cells in reasons.items())


def _shares(cells: Sequence[Cell]) -> str:
    """What is hidden by a hole is in no share: of all that is known all may be decided."""
    less = [cell for cell in cells if cell.share != 1]
    return ", ".join(f"{axis_words(cell.axis)} {share(cell.share or 0.0)}" for cell in less)


def headline(results: Results, run: Row, lake: Lake, now: datetime, tables: Sequence[Health]) -> Verdict:
    """The report's verdict on the lake after its last published run."""
    looked = [table.looked for table in tables if table.looked]
    mine = [each.judged for each in looked if each.run_id == run["run_id"]]
    coverage, known = sorted(mine, key=lambda each: each.name), [table.name for table in lake.tables]
    totals = _totals(results, run["run_id"])
    how = lake_standing(results, run, now, past=False)
    return verdict(run, how, totals, coverage, known)


def _totals(results: Results, run_id: str) -> list[Row]:
    sql = f"""SELECT kind, severity, table_name, NULL AS partition_path, count(*) AS findings, sum(files) AS files,
            sum(rows_at_stake) AS rows_at_stake, sum(bytes_at_stake) AS bytes_at_stake,
            min(recoverable_until) AS recoverable_until
        FROM findings WHERE run_id = {text(run_id)} GROUP BY kind, severity, table_name, {UNKNOWN_PARTS}"""
    return ask(results, sql, "findings")


def counted_back(newest_first: Sequence[Row], open_now: int) -> tuple[Day, ...]:
    """Days from their changes and what is open after the last of them."""
    found: list[Day] = []
    left = open_now
    for row in newest_first:
        found.append(Day(**row, open=max(left, 0)))
        left += row["resolved"] - row["opened"] - row["reopened"]
    return tuple(reversed(found))
