"""Reads the history of the lake or a table in a period: its audits, and the times to detect and to resolve."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from lakeaudit.dashboard.queries.lake import Day, counted_back
from lakeaudit.dashboard.queries.table import Change, of_table
from lakeaudit.kinds import COVERAGE_LOST, rank
from lakeaudit.report.coverage_view import Judged, judged
from lakeaudit.results.read import Results, Row
from lakeaudit.results.sql import ask, moment
from lakeaudit.results.summaries.lake_standing import PUBLISHED_RUNS

AUDITS = 500
"""Number of newest audits of a table that are read."""


@dataclass(frozen=True)
class Period:
    """Days from the first to the last, both included, in UTC."""

    first: date
    last: date

    @property
    def begin(self) -> datetime:
        return datetime(self.first.year, self.first.month, self.first.day, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        """Return the time at which the day after the last begins."""
        return datetime(self.last.year, self.last.month, self.last.day, tzinfo=UTC) + timedelta(days=1)

    def includes(self, day: date) -> bool:
        return self.first <= day <= self.last


@dataclass(frozen=True)
class Duration:
    """Median and longest of some durations, and how many were measured; `unknown` of them have no known begin."""

    median: timedelta | None = None
    longest: timedelta | None = None
    measured: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class KindTimes:
    """Times of one kind: `detect` from the cause to the opening, `resolve` from the opening to the end."""

    kind: str
    severity: str
    detect: Duration
    resolve: Duration


@dataclass(frozen=True)
class AuditOfTable:
    """A published run that checked the table, and its coverage of it."""

    run_id: str
    as_of: datetime
    judged: Judged


def days_in(
    results: Results, table: str | None, changed: Sequence[Change], period: Period
) -> tuple[Day, ...]:
    """Return the days with a change in the period, and its first and last day, oldest first.

    `table` None: of the whole lake, as everywhere here.
    """
    sql = f"SELECT count(*) AS open FROM discrepancies WHERE state = 'open' AND {of_table(table)}"
    open_now = next((row["open"] for row in ask(results, sql, "discrepancies")), 0)
    days: dict[date, Row] = {}
    for change in reversed(changed):
        none = {"day": change.at.date(), "opened": 0, "reopened": 0, "resolved": 0}
        days.setdefault(change.at.date(), none)[change.what] += change.number
    every = counted_back([*days.values()], open_now)
    inside = {day.day: day for day in every if period.includes(day.day)}
    edges = (Day(edge, 0, 0, 0, _open_at(every, edge, open_now)) for edge in (period.first, period.last))
    whole = {edge.day: edge for edge in edges} | inside
    return tuple(whole[day] for day in sorted(whole))


def _open_at(days: Sequence[Day], at: date, open_now: int) -> int:
    """Return the number that was open at the end of a day without a change."""
    earlier = [day for day in days if day.day <= at]
    if earlier:
        return earlier[-1].open
    first = days[0] if days else Day(at, 0, 0, 0, open_now)
    return max(first.open - first.opened - first.reopened + first.resolved, 0)


def kind_times(results: Results, table: str | None, period: Period) -> tuple[KindTimes, ...]:
    """Return the times to detect and to resolve of each kind that was opened or resolved in the period, worst first."""
    opened = f"opened_at >= {moment(period.begin)} AND opened_at < {moment(period.end)}"
    ended = (
        f"state = 'resolved' AND resolved_at >= {moment(period.begin)} AND resolved_at < {moment(period.end)}"
    )
    # `cause_at` of lost coverage is the time of the last audit that judged the table
    dated = f"{opened} AND cause_at <= opened_at AND kind <> '{COVERAGE_LOST}'"
    sql = f"""SELECT kind, severity, count(*) FILTER (WHERE {opened}) AS opened,
            {_times("cause_at", "opened_at", dated, "detect")}, {_times("opened_at", "resolved_at", ended, "resolve")}
        FROM discrepancies WHERE {of_table(table)} AND opened_at IS NOT NULL AND (({opened}) OR ({ended}))
        GROUP BY kind, severity"""
    times = [
        KindTimes(
            row["kind"],
            row["severity"],
            _duration(row, "detect", row["opened"] - row["detect"]),
            _duration(row, "resolve", 0),
        )
        for row in ask(results, sql, "discrepancies")
    ]
    return tuple(sorted(times, key=lambda each: (rank(each.severity), each.kind)))


def _times(begin: str, end: str, where: str, name: str) -> str:
    """Return SQL for the number, the median and the longest of durations in seconds."""
    seconds = f"date_part('epoch', {end}) - date_part('epoch', {begin})"
    return f"""count(*) FILTER (WHERE {where}) AS {name}, median({seconds}) FILTER (WHERE {where}) AS {name}_median,
        max({seconds}) FILTER (WHERE {where}) AS {name}_longest"""


def _duration(row: Row, name: str, unknown: int) -> Duration:
    median, longest = (
        None if row[f"{name}_{of}"] is None else timedelta(seconds=row[f"{name}_{of}"])
        for of in ("median", "longest")
    )
    return Duration(median, longest, row[name], unknown)


def audits_of(results: Results, table: str, period: Period) -> tuple[AuditOfTable, ...]:
    """Return the published runs of the period that checked the table, newest first, at most AUDITS."""
    runs = {run["run_id"]: run["as_of"] for run in results.runs() if period.includes(run["as_of"].date())}
    sql = f"""SELECT coverage.* FROM coverage JOIN runs ON coverage.run_id = runs.run_id
        WHERE {PUBLISHED_RUNS.replace("status", "runs.status")} AND {_covers(table)}
            AND runs.as_of >= {moment(period.begin)} AND runs.as_of < {moment(period.end)}"""
    by_run: dict[str, list[Row]] = {}
    for row in ask(results, sql, "coverage", "runs"):
        by_run.setdefault(row["run_id"], []).append(row)
    audits = [
        AuditOfTable(run_id, runs[run_id], judged(rows)[0])
        for run_id, rows in by_run.items()
        if run_id in runs
    ]
    return tuple(sorted(audits, key=lambda each: (each.as_of, each.run_id), reverse=True)[:AUDITS])


def _covers(table: str) -> str:
    return f"coverage.{of_table(table)}"


def first_day(results: Results, now: datetime) -> date:
    """Return the day of the first run; today if there is none."""
    return min((run["as_of"] for run in results.runs()), default=now).date()
