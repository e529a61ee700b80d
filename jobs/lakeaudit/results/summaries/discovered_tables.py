"""Selects the discovered tables that an answer about the whole lake includes."""

from datetime import datetime

from lakeaudit.results.read import PUBLISHED, Results
from lakeaudit.results.summaries.last_judged import tables_with_lost_coverage


def present_tables(results: Results, now: datetime, until: datetime) -> set[str]:
    """Return the tables that audits judged, or miss, and that no later audit shows to have left the lake.

    Results do not record whether an audit was limited to some tables. As for `check`, a later audit without the table
    shows that it has left if it judged more than half as many tables. Audits of an `as_of` after `until` do not count.

    Raises:
        CannotAudit: the results cannot be read.
    """
    runs = [run for run in results.runs() if run["status"] in PUBLISHED and run["as_of"] <= until]
    sizes = {run["run_id"]: run["tables_expected"] or 0 for run in runs}
    present = tables_with_lost_coverage(results, now)
    for row in results.tables():
        last, at = row["last_run_id"], row["last_audited_at"]
        if last is None or at is None:
            continue
        later = (sizes[run["run_id"]] for run in runs if run["as_of"] > at)
        if not any(2 * size > sizes.get(last, 0) for size in later):
            present.add(row["table_name"])
    return present
