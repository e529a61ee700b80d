"""What a page or a terminal shows of one run and of the lake after it, read from its results."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from lakeaudit.report.page import History, PageData, page_data
from lakeaudit.report.summary import rank
from lakeaudit.results.change_summary import Change, changes_of, still_open
from lakeaudit.results.group_samples import group_samples
from lakeaudit.results.lake_standing import is_past, lake_standing
from lakeaudit.results.read import Results, Row


def gather(
    results: Results, run: Row, lake_file: str, now: datetime, limit: int, lake_tables: Sequence[str] = ()
) -> PageData:
    """The run with its coverage, its totals and at most `limit` of its worst findings, and how the lake stands.

    Args:
        results: where the run was published.
        run: its row of `runs`.
        lake_file: the lake file as the reader would type it.
        now: when this is read, UTC.
        limit: findings written out.
        lake_tables: every table of the lake file, so that it can be said what the run did not look at.
    """
    run_id = run["run_id"]
    worst, past = results.worst(run_id, limit), is_past(results, run)
    return page_data(
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
    )


def _history(results: Results, run: Row, now: datetime) -> History:
    """Of the newest run only: the ledger says how things stand, not how they stood."""
    return History(_rows(changes_of(results, run["run_id"])), _rows(still_open(results, now)))


def _rows(changes: Sequence[Change]) -> list[Row]:
    """The worst first."""
    return [asdict(c) for c in sorted(changes, key=lambda c: (rank(c.severity), c.table or "", c.kind))]
