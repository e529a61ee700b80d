"""Reads the watermarks of tables, and the open discrepancies that stop them."""

from collections.abc import Collection
from datetime import datetime, timedelta

from lakeaudit.config import Lake
from lakeaudit.judged import TO_COME
from lakeaudit.kinds import COVERAGE_LOST, SERIOUS
from lakeaudit.results.read import PUBLISHED, UNRESOLVED, Results, Row
from lakeaudit.results.sql import ask, moment, text, texts
from lakeaudit.results.watermark import Blocking, blocking_of, next_watermark

MOST_IDS = 20
MOST_NAMES = 1000
"""Number of tables that a query names; a query for more reads the rows of all tables."""
CLOCK_STEP = timedelta(minutes=5)
"""An audit that is later than now by more had a clock that was ahead."""


def last_watermarks(
    results: Results, wanted: Collection[str], span: timedelta, until: datetime, but: str = ""
) -> dict[str, Row]:
    """Return by table the newest row of `verified` of a published run.

    Only the rows of recent audits are read: the result table grows with tables times audits, and most files of Delta
    are skipped by the statistics of `as_of`. Older rows are read only for tables that an earlier audit judged.

    Args:
        results: the results.
        wanted: tables whose row is returned whatever its age; of others it is returned if it is recent.
        span: rows are recent if they are of an audit that is older than the newest one by less than this.
        until: audits of a later `as_of` do not count: a backfill continues the audits of its past.
        but: rows of this run do not count.

    Raises:
        CannotAudit: the results cannot be read.
    """
    times = [run["as_of"] for run in results.runs() if run["status"] in PUBLISHED and run["as_of"] <= until]
    if not times:
        return {}
    others, since = f"v.run_id <> {text(but)}", max(times) - span
    rows = _newest(results, f"{others} AND v.as_of >= {moment(since)} AND v.as_of <= {moment(until)}")
    judged = {row["table_name"] for row in results.tables() if row["last_run_id"] is not None}
    missing = tuple(name for name in wanted if name not in rows and name in judged)
    if missing:
        named = f"v.table_name IN ({texts(missing)})" if len(missing) <= MOST_NAMES else "true"
        rows = _newest(results, f"{others} AND v.as_of < {moment(since)} AND {named}") | rows
    return rows


def _newest(results: Results, condition: str) -> dict[str, Row]:
    sql = f"""
        SELECT * FROM (
            SELECT v.*, row_number() OVER (PARTITION BY v.table_name ORDER BY v.as_of DESC, v.run_id DESC) AS turn
            FROM verified v JOIN runs r ON r.run_id = v.run_id
            WHERE r.status IN ({texts(PUBLISHED)}) AND {condition}) WHERE turn = 1"""
    return {row["table_name"]: row for row in ask(results, sql, "verified", "runs")}


def blocking_discrepancies(
    results: Results, now: datetime, *, accepted: bool, named: bool = True
) -> dict[str, Row]:
    """Return by table the discrepancies that stop its watermark: number, first_at, undated and ids.

    Lost coverage stops the watermark where it is, and upcoming losses do not count.
    `accepted`: accepted discrepancies count, too. Without `named`, `ids` is empty, which is cheaper.

    Raises:
        CannotAudit: the results cannot be read.
    """
    pending = "" if accepted else f"AND (ack_until IS NULL OR ack_until <= {moment(now)})"
    # the time of a commit; unused files and copies have none, but storage's time of the file itself
    of_file = "CASE WHEN axis IN ('leftover', 'duplicate') THEN storage_time END"
    at = f"coalesce(manifest_time, {of_file})"
    counting = f"""state IN ({texts(tuple(UNRESOLVED))}) AND severity IN ({texts(SERIOUS)})
        AND kind <> {text(COVERAGE_LOST)} AND axis <> {text(TO_COME)} AND table_name IS NOT NULL {pending}"""
    sums = f"""
        SELECT table_name, count(*) AS number, min({at}) AS first_at, count(*) - count({at}) AS undated
        FROM discrepancies WHERE {counting} GROUP BY table_name"""
    # a list of all ids of a million discrepancies would need a gigabyte
    first = f"""
        SELECT table_name, discrepancy_id FROM (
            SELECT table_name, discrepancy_id,
                row_number() OVER (PARTITION BY table_name ORDER BY severity, discrepancy_id) AS turn
            FROM discrepancies WHERE {counting}) WHERE turn <= {MOST_IDS} ORDER BY table_name, turn"""
    rows = {row["table_name"]: row | {"ids": []} for row in ask(results, sums, "discrepancies")}
    for row in ask(results, first, "discrepancies") if rows and named else ():
        rows[row["table_name"]]["ids"].append(row["discrepancy_id"])
    return rows


def current_watermarks(
    results: Results, lake: Lake, now: datetime, names: Collection[str] = (), *, named: bool = False
) -> dict[str, Row]:
    """Return by table the newest row of `verified`, with what the ledger and the lake file show since then.

    Audits of partitions change the ledger without a row, and acceptances end. The tables are those of the lake file,
    of the last audits, and `names`. Only with `named`, `blocked_by` has the ids of discrepancies. An audit whose clock
    was ahead counts only for a table that no other audit judged.

    Raises:
        CannotAudit: the results cannot be read.
    """
    places = {table.name: table.location.uri for table in lake.tables}
    wanted, until = {*places, *names}, now + CLOCK_STEP
    rows = last_watermarks(results, wanted, lake.overdue, until)
    if any(run["as_of"] > until for run in results.runs() if run["status"] in PUBLISHED):
        rows = _newest(results, f"v.as_of > {moment(until)}") | rows
    blocking = blocking_discrepancies(results, now, accepted=lake.ledger.accepted_stop_verified, named=named)
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
