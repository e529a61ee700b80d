"""Counts what was open at the end of each of the last days, by table and severity, back from what is open now."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.formatting import table_label
from lakeaudit.results.read import WITH_CHANGES, Results, Row
from lakeaudit.results.sql import ask, moment, rows, texts
from lakeaudit.results.summaries.lake_standing import standing
from lakeaudit.results.summaries.open_by_day import SPAN, Numbers, OpenByDay

MOMENTS = 500_000
"""Highest number of sums of changes that are read, newest first: audits times tables that changed in them."""


def open_by_day(
    results: Results, runs: Sequence[Row], now: datetime, changed: pa.Table | None = None
) -> OpenByDay:
    """Return the last `SPAN` days of the whole lake; `runs` are those that were published.

    `changed` is the result of `changes` since the first of these days or earlier, where the caller has it.
    """
    days = tuple(now.date() - timedelta(days=back) for back in reversed(range(SPAN)))
    sql = f"""SELECT table_name, severity, count(*) AS number FROM discrepancies
        WHERE state = 'open' AND {standing(now)} <> 'accepted' GROUP BY table_name, severity"""
    open_now = ask(results, sql, "discrepancies")
    since = datetime(days[0].year, days[0].month, days[0].day, tzinfo=now.tzinfo)
    changed = changes(results, since) if changed is None else changed
    accepted = pc.fill_null(pc.greater(changed["ack_until"], pa.scalar(now, _TIME)), False)
    counted = changed.filter(pc.and_not(pc.greater_equal(changed["at"], pa.scalar(since, _TIME)), accepted))
    audited = frozenset(run["as_of"].date() for run in runs)
    return OpenByDay(days, _counted_back(days, open_now, list(_signed(counted.to_pylist()))), audited)


def changes(results: Results, since: datetime | None = None) -> pa.Table:
    """Return the ledger's changes by published runs and people: a row a table, moment, transition and severities.

    Runs of `follow` count, too. Each row has `number`, and in `ack_until` the time until which somebody has accepted
    these. The caller compares it with the clock, so that the rows stay valid as long as the results do not change.
    """
    held = """held AS (SELECT discrepancy_id, table_name, severity,
        CASE WHEN state <> 'resolved' THEN ack_until END AS ack_until FROM discrepancies)"""
    moments = f">= {moment(since)}" if since else "IS NOT NULL"
    transitions = texts(tuple(sorted({*_BEGINS, *_ENDS})))
    sql = f""", {held} SELECT table_name, severity, ack_until, at, transition, to_severity, from_severity,
            count(*) AS number
        FROM transitions JOIN held ON transitions.discrepancy_id = held.discrepancy_id
        WHERE transition IN ({transitions}) AND at {moments}
            AND (run_id IS NULL OR run_id IN (SELECT run_id FROM runs WHERE status IN ({texts(WITH_CHANGES)})))
        GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY at DESC LIMIT {MOMENTS}"""
    found = rows(results, sql, "discrepancies", "transitions", "runs")
    return _CHANGE.empty_table() if found is None else found.cast(_CHANGE)


_TIME = pa.timestamp("us", "UTC")
_CHANGE = pa.schema(
    {
        "table_name": pa.string(), "severity": pa.string(), "ack_until": _TIME, "at": _TIME, "transition": pa.string(),
        "to_severity": pa.string(), "from_severity": pa.string(), "number": pa.int64(),
    }
)  # fmt: skip


_BEGINS = ("opened", "reopened", "escalated", "reclassified")
_ENDS = ("resolved", "escalated", "reclassified")


def _signed(changed: Sequence[Row]) -> Iterator[Row]:
    """Yield additions to a severity as positive numbers, and removals from one as negative numbers."""
    for row in changed:
        for transitions, severity, sign in ((_BEGINS, "to_severity", 1), (_ENDS, "from_severity", -1)):
            if row["transition"] in transitions:
                yield row | {"severity": row[severity] or row["severity"], "number": sign * row["number"]}


def _counted_back(
    days: Sequence[date], open_now: Sequence[Row], signed: Sequence[Row]
) -> dict[tuple[str, str], Numbers]:
    last = {_of(row): row["number"] for row in open_now}
    changed: dict[tuple[str, str], Counter[date]] = {}
    for row in signed:
        changed.setdefault(_of(row), Counter())[row["at"].date()] += row["number"]
    return {key: _of_days(days, last.get(key, 0), changed.get(key, Counter())) for key in {**last, **changed}}


def _of(row: Row) -> tuple[str, str]:
    return table_label(row["table_name"]), row["severity"]


def _of_days(days: Sequence[date], last: int, changed: Mapping[date, int]) -> Numbers:
    found, left = [], last
    for day in reversed(days):
        found.append(max(left, 0))
        left -= changed.get(day, 0)
    return tuple(reversed(found))
