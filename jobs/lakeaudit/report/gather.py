"""Reads from the results what a page or the terminal shows about one run and the lake after it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from lakeaudit.config import Lake
from lakeaudit.kinds import rank
from lakeaudit.report.page_data import History, PageData, page_data
from lakeaudit.results.leftover_groups import group_samples
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.results.summaries.change_summary import Change, changes_of, still_open
from lakeaudit.results.summaries.lake_standing import is_past, lake_standing
from lakeaudit.results.summaries.open_by_day import OpenByDay
from lakeaudit.results.summaries.trends import open_by_day

RUNS = 30
"""Number of runs in the plot of runs."""


def gather(
    results: Results,
    run: Row,
    lake_file: str,
    now: datetime,
    limit: int,
    lake_tables: Sequence[str] = (),
    *,
    limits: Mapping[str, timedelta] | None = None,
    drawn: bool = True,
    dashboard: str | None = None,
    run_at: str = "",
) -> PageData:
    """Return the run with coverage, totals and at most `limit` of its worst findings, and the state of the lake.

    Args:
        results: where the run was published.
        run: its row of `runs`.
        lake_file: the lake file as the reader would type it.
        now: when this is read, UTC.
        limit: number of findings with all details.
        lake_tables: every table of the lake file, so that the page can name the scope of the run.
        limits: highest ages of sources, from `source_limits`.
        dashboard: where people open the dashboard; None: there is none.
        run_at: where the commands of the page can be run, in a sentence.
        drawn: whether to read the numbers of open discrepancies by day, for plots.
    """
    run_id, runs = run["run_id"], _up_to(run, results.runs())
    worst, past = results.worst(run_id, limit), is_past(results, run)
    page = page_data(
        lake_file,
        run,
        results.coverage(run_id),
        worst,
        results.totals(run_id),
        now,
        history=None if past else _history(results, run, now),
        standing=lake_standing(results, run, now, past=past),
        lake_tables=lake_tables,
        samples=group_samples(results, run_id),
        reach={row["bucket"]: results.clients.endpoint(row["bucket"]) for row in worst if row["bucket"]},
        trend=_trend(results, runs, now) if drawn and not past else None,
        runs=runs[-RUNS:],
        limits=limits,
        verified=results.verified(run_id),
    )
    return replace(page, dashboard=dashboard, run_at=run_at)


def _trend(results: Results, runs: Sequence[Row], now: datetime) -> OpenByDay:
    return open_by_day(results, [run for run in runs if run["status"] in PUBLISHED], now)


def _up_to(run: Row, runs: Sequence[Row]) -> list[Row]:
    at = next((at for at, each in enumerate(runs) if each["run_id"] == run["run_id"]), -1)
    return list(runs[: at + 1])


def source_limits(lake: Lake) -> dict[str, timedelta]:
    """Return by location the highest age of each source that has a limit."""
    limits = {each.location.uri.rstrip("/"): getattr(each, "max_age", None) for each in lake.inventories}
    return {location: limit for location, limit in limits.items() if limit is not None}


def _history(results: Results, run: Row, now: datetime) -> History:
    """Return the changes of the newest run; the ledger does not have those of earlier runs."""
    return History(_rows(changes_of(results, run["run_id"])), _rows(still_open(results, now)))


def _rows(changes: Sequence[Change]) -> list[Row]:
    """Return changes as rows, worst first."""
    return [asdict(c) for c in sorted(changes, key=lambda c: (rank(c.severity), c.table or "", c.kind))]
