"""What a page or a terminal shows of one published run, read from its results."""

from datetime import datetime

from lakeaudit.report.page import PageData, page_data
from lakeaudit.results.read import Results, Row


def gather(results: Results, run: Row, lake_file: str, now: datetime, limit: int) -> PageData:
    """The run with its coverage, its totals and at most `limit` of its worst findings.

    Args:
        results: where the run was published.
        run: its row of `runs`.
        lake_file: the lake file as the reader would type it.
        now: when this is read, UTC.
        limit: findings written out.
    """
    run_id = run["run_id"]
    worst = results.worst(run_id, limit)
    return page_data(lake_file, run, results.coverage(run_id), worst, results.totals(run_id), now)
