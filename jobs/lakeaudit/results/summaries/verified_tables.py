"""Reads the watermarks of tables, and the open discrepancies that stop them."""

from datetime import datetime

from lakeaudit.kinds import COVERAGE_LOST
from lakeaudit.results.read import UNRESOLVED, Results, Row
from lakeaudit.results.sql import ask, moment, text, texts

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

    Lost coverage stops the watermark where it is. `accepted`: accepted discrepancies count, too.

    Raises:
        CannotAudit: the results cannot be read.
    """
    pending = "" if accepted else f"AND (ack_until IS NULL OR ack_until <= {moment(now)})"
    at = "coalesce(manifest_time, storage_time, metastore_time)"
    sql = f"""
        SELECT table_name, count(*) AS number, min({at}) AS first_at, sum(CASE WHEN {at} IS NULL THEN 1 ELSE 0 END)
                AS undated,
            array_slice(array_agg(discrepancy_id ORDER BY severity, discrepancy_id), 1, {MOST_IDS}) AS ids
        FROM discrepancies
        WHERE state IN ({texts(tuple(UNRESOLVED))}) AND severity IN ({texts(COUNTING)})
            AND kind <> {text(COVERAGE_LOST)} AND table_name IS NOT NULL {pending}
        GROUP BY table_name"""
    return {row["table_name"]: row for row in ask(results, sql, "discrepancies")}
