"""What was open at the end of each of the last days, by table and severity, counted back from what is open now."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

from lakeaudit.report.open_by_day import SPAN, Numbers, OpenByDay
from lakeaudit.report.summary import table_label
from lakeaudit.results.lake_standing import PUBLISHED_RUNS, standing
from lakeaudit.results.read import Results, Row
from lakeaudit.results.sql import ask, moment


def open_by_day(results: Results, runs: Sequence[Row], now: datetime) -> OpenByDay:
    """The last `SPAN` days of the whole lake; `runs` are those that were published."""
    days = tuple(now.date() - timedelta(days=back) for back in reversed(range(SPAN)))
    known = f"""held AS (SELECT discrepancy_id, table_name, severity, state FROM discrepancies
        WHERE {standing(now)} <> 'accepted')"""
    sql = f""", {known} SELECT table_name, severity, count(*) AS number FROM held WHERE state = 'open'
        GROUP BY table_name, severity"""
    open_now = ask(results, sql, "discrepancies")
    since = moment(datetime(days[0].year, days[0].month, days[0].day, tzinfo=now.tzinfo))
    sql = f""", {known}, told AS (SELECT * FROM transitions WHERE at >= {since}
            AND (run_id IS NULL OR run_id IN (SELECT run_id FROM runs WHERE {PUBLISHED_RUNS})))
        SELECT held.table_name, held.severity, transition, CAST(told.at AS DATE) AS day, to_severity, from_severity,
            count(*) AS number
        FROM told JOIN held ON told.discrepancy_id = held.discrepancy_id GROUP BY 1, 2, 3, 4, 5, 6"""
    changes = list(_signed(ask(results, sql, "discrepancies", "transitions", "runs")))
    audited = frozenset(run["as_of"].date() for run in runs)
    return OpenByDay(days, _counted_back(days, open_now, changes), audited)


_BEGINS = ("opened", "reopened", "escalated", "reclassified")
_ENDS = ("resolved", "escalated", "reclassified")


def _signed(changes: Sequence[Row]) -> Iterator[Row]:
    """What came to a severity and what went from one, as numbers above and below 0."""
    for row in changes:
        for transitions, severity, sign in ((_BEGINS, "to_severity", 1), (_ENDS, "from_severity", -1)):
            if row["transition"] in transitions:
                yield row | {"severity": row[severity] or row["severity"], "number": sign * row["number"]}


def _counted_back(
    days: Sequence[date], open_now: Sequence[Row], changes: Sequence[Row]
) -> dict[tuple[str, str], Numbers]:
    last = {_of(row): row["number"] for row in open_now}
    changed: dict[tuple[str, str], Counter[date]] = {}
    for row in changes:
        changed.setdefault(_of(row), Counter())[row["day"]] += row["number"]
    return {key: _of_days(days, last.get(key, 0), changed.get(key, Counter())) for key in {**last, **changed}}


def _of(row: Row) -> tuple[str, str]:
    return table_label(row["table_name"]), row["severity"]


def _of_days(days: Sequence[date], last: int, changed: Mapping[date, int]) -> Numbers:
    found, left = [], last
    for day in reversed(days):
        found.append(max(left, 0))
        left -= changed.get(day, 0)
    return tuple(reversed(found))
