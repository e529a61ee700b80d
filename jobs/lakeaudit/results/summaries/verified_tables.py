"""Reads the watermarks of tables, and the open discrepancies that stop them."""

from datetime import datetime, timedelta

from lakeaudit.config import Lake
from lakeaudit.judged import TO_COME
from lakeaudit.kinds import COVERAGE_LOST
from lakeaudit.results.read import UNRESOLVED, Results, Row
from lakeaudit.results.sql import ask, moment, text, texts
from lakeaudit.results.watermark import Blocking, blocking_of, next_watermark

COUNTING = ("critical", "error")
"""Severities of discrepancies that stop the watermark of a table."""
MOST_IDS = 20


def last_watermarks(results: Results, but: str = "") -> dict[str, Row]:
    """Return by table the newest row of `verified`; rows of the run `but` are left out.

    Raises:
        CannotAudit: the results cannot be read.
    """
    sql = f"""
        SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY table_name ORDER BY as_of DESC, run_id DESC) AS turn
            FROM verified WHERE run_id <> {text(but)}) WHERE turn = 1"""
    return {row["table_name"]: row for row in ask(results, sql, "verified")}


def blocking_discrepancies(results: Results, now: datetime, *, accepted: bool) -> dict[str, Row]:
    """Return by table the discrepancies that stop its watermark: number, first_at, undated and ids.

    Lost coverage stops the watermark where it is, and upcoming losses do not count.
    `accepted`: accepted discrepancies count, too.

    Raises:
        CannotAudit: the results cannot be read.
    """
    pending = "" if accepted else f"AND (ack_until IS NULL OR ack_until <= {moment(now)})"
    # the time of a commit; unused files and copies have none, but storage's time of the file itself
    of_file = "CASE WHEN axis IN ('leftover', 'duplicate') THEN storage_time END"
    at = f"coalesce(manifest_time, {of_file})"
    sql = f"""
        SELECT table_name, count(*) AS number, min({at}) AS first_at, sum(CASE WHEN {at} IS NULL THEN 1 ELSE 0 END)
                AS undated,
            array_slice(array_agg(discrepancy_id ORDER BY severity, discrepancy_id), 1, {MOST_IDS}) AS ids
        FROM discrepancies
        WHERE state IN ({texts(tuple(UNRESOLVED))}) AND severity IN ({texts(COUNTING)})
            AND kind <> {text(COVERAGE_LOST)} AND axis <> {text(TO_COME)} AND table_name IS NOT NULL {pending}
        GROUP BY table_name"""
    return {row["table_name"]: row for row in ask(results, sql, "discrepancies")}


CLOCK_STEP = timedelta(minutes=5)
"""An audit that is later than now by more had a clock that was ahead."""


def current_watermarks(results: Results, lake: Lake, now: datetime) -> dict[str, Row]:
    """Return by table the newest row of `verified`, with what the ledger and the lake file show since then.

    Audits of partitions change the ledger without a row, and acceptances end.

    Raises:
        CannotAudit: the results cannot be read.
    """
    rows = last_watermarks(results)
    blocking = blocking_discrepancies(results, now, accepted=lake.ledger.accepted_stop_verified)
    places = {table.name: table.location.uri for table in lake.tables}
    return {
        name: row | _since(row, places.get(name), blocking_of(blocking.get(name)), now)
        for name, row in rows.items()
    }


def _since(row: Row, place: str | None, blocking: Blocking, now: datetime) -> Row:
    """Return the columns of a row that have changed since it was written."""
    unknown = {"verified_through": None, "open_discrepancies": 0}
    if place is not None and row["location"] != place:
        return unknown | {"blocked_by": [f"no audit has judged the table at {place}"]}
    if row["as_of"] > now + CLOCK_STEP:
        return unknown | {"blocked_by": ["the clock of its last audit was ahead, or this clock is behind"]}
    mark = next_watermark(row["verified_through"], None, blocking, row["blocked_by"] or ())
    known = blocking.number or not row["open_discrepancies"]
    return {
        "verified_through": mark.through,
        "open_discrepancies": blocking.number,
        "blocked_by": list(mark.blocked_by) if known else [],
    }
