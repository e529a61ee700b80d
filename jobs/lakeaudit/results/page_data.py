"""What a page or a terminal shows of one published run, read from its results."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from lakeaudit.report.page import History, PageData, page_data
from lakeaudit.report.summary import rank
from lakeaudit.results.change_summary import Change, changes_of, still_open
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
    history = _history(results, run_id, now)
    coverage, totals = results.coverage(run_id), results.totals(run_id)
    return page_data(lake_file, run, coverage, worst, totals, now, history=history)


def _history(results: Results, run_id: str, now: datetime) -> History | None:
    """Of the last run only: the ledger says how things stand, not how they stood."""
    last = results.last_published()
    if last is None or last["run_id"] != run_id:
        return None
    return History(_rows(changes_of(results, run_id)), _rows(still_open(results, now)))


def _rows(changes: Sequence[Change]) -> list[Row]:
    """The worst first."""
    return [asdict(c) for c in sorted(changes, key=lambda c: (rank(c.severity), c.table or "", c.kind))]
