"""Reads the watermarks of tables, and the open discrepancies that stop them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.config import Lake
from lakeaudit.formatting import number
from lakeaudit.judged import CONTENT, TO_COME
from lakeaudit.kinds import COVERAGE_LOST, SERIOUS
from lakeaudit.results.read import PUBLISHED, RETIRED, UNRESOLVED, Results, Row
from lakeaudit.results.sql import ask, moment, text, texts
from lakeaudit.results.watermark import Blocking, blocking_of, next_watermark, time_before

MOST_IDS = 20
MOST_NAMES = 1000
"""Number of tables that a query names; a query for more reads the rows of all tables."""
_NOT_YET = datetime.max.replace(tzinfo=UTC)
CLOCK_STEP = timedelta(minutes=5)
"""An audit that is later than now by more had a clock that was ahead."""


# the time of a commit; unused files and copies have none, but storage's time of the file itself
_AT = "coalesce(manifest_time, CASE WHEN axis IN ('leftover', 'duplicate') THEN storage_time END)"
SUMS = f"""count(*) AS number, min({_AT}) AS first_at, min(manifest_time) AS first_listed_at,
    count(*) - count({_AT}) AS undated"""
"""SQL: the sums of a table's discrepancies or findings."""
STOPPING = f"""severity IN ({texts(SERIOUS)}) AND kind <> {text(COVERAGE_LOST)} AND axis <> {text(TO_COME)}
    AND table_name IS NOT NULL"""
"""SQL: the discrepancies or findings that stop the watermark of their table."""


def _not_accepted(now: datetime, *, accepted: bool) -> str:
    return "" if accepted else f" AND (ack_until IS NULL OR ack_until <= {moment(now)})"


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
    counting = f"state IN ({texts(tuple(UNRESOLVED))}) AND {STOPPING}{_not_accepted(now, accepted=accepted)}"
    sums = f"""
        SELECT table_name, first_run_id, {SUMS} FROM discrepancies WHERE {counting} GROUP BY table_name, first_run_id"""
    # a list of all ids of a million discrepancies would need a gigabyte
    first = f"""
        SELECT table_name, discrepancy_id FROM (
            SELECT table_name, discrepancy_id,
                row_number() OVER (PARTITION BY table_name ORDER BY severity, discrepancy_id) AS turn
            FROM discrepancies WHERE {counting}) WHERE turn <= {MOST_IDS} ORDER BY table_name, turn"""
    rows: dict[str, Row] = {}
    for row in with_known_times(results, ask(results, sums, "discrepancies")):
        rows[row["table_name"]] = _sum_of(rows.get(row["table_name"]), row) | {"ids": []}
    for row in ask(results, first, "discrepancies") if rows and named else ():
        rows[row["table_name"]]["ids"].append(row["discrepancy_id"])
    return rows


def with_known_times(results: Results, rows: Sequence[Row]) -> list[Row]:
    """Return sums by table and first run; those up to the horizon of that run count as undated.

    The horizon of a run is the time of the oldest state of the table that it could read. A file of an older commit has
    this time, which is later than that of its commit. A run of `follow` has the horizon of the next audit; until then
    everything that it found is undated.

    Raises:
        CannotAudit: the results cannot be read.
    """
    dated = [row for row in rows if row["first_listed_at"] is not None]
    if not dated:
        return [*rows]
    names = sorted({row["table_name"] for row in dated})
    first_runs = {row["first_run_id"] for row in dated}
    horizons = _horizons(results, first_runs, names)
    followed = {run["run_id"]: run["as_of"] for run in results.followed() if run["run_id"] in first_runs}
    if followed:
        horizons |= _next_horizons(results, followed, names)
    return [before_horizon(row, horizons.get((row["first_run_id"], row["table_name"]))) for row in rows]


def _horizons(
    results: Results, runs: Collection[str], tables: Collection[str]
) -> dict[tuple[str, str], datetime | None]:
    """Return by run and table the time of the oldest state that the run could read."""
    of_runs = pc.field("run_id").isin(pa.array(sorted(runs), pa.string())) & (pc.field("axis") == CONTENT)
    condition = of_runs & pc.field("table_name").isin(sorted(tables))
    batches = results.batches("coverage", condition, ("run_id", "table_name", "history_horizon"))
    rows = (row for batch in batches for row in batch.to_pylist())
    return {(row["run_id"], row["table_name"]): row["history_horizon"] for row in rows}


def _next_horizons(
    results: Results, followed: Mapping[str, datetime], tables: Collection[str]
) -> dict[tuple[str, str], datetime | None]:
    """Return by run of `follow` and table the horizon of the next audit; without one, the end of time."""
    runs = sorted(results.runs(), key=lambda run: run["as_of"])
    later = [run for run in runs if run["status"] in PUBLISHED and run["as_of"] > min(followed.values())]
    known = _horizons(results, {run["run_id"] for run in later}, tables)
    return {
        (run_id, table): next(
            (
                known[run["run_id"], table]
                for run in later
                if run["as_of"] > at and (run["run_id"], table) in known
            ),
            _NOT_YET,
        )
        for run_id, at in followed.items()
        for table in tables
    }


def before_horizon(row: Row, horizon: datetime | None) -> Row:
    """Return sums in which everything is undated if the first commit is not later than the horizon."""
    if horizon is None or row["first_listed_at"] is None or row["first_listed_at"] > horizon:
        return row
    return row | {"first_at": None, "undated": row["number"]}


def _sum_of(one: Row | None, other: Row) -> Row:
    if one is None:
        return other
    times = [row["first_at"] for row in (one, other) if row["first_at"] is not None]
    sums = {name: one[name] + other[name] for name in ("number", "undated")}
    return one | sums | {"first_at": min(times, default=None)}


def without_retired(
    results: Results, rows: Mapping[str, Row], now: datetime, *, accepted: bool
) -> dict[str, Row]:
    """Return rows of `verified` whose time is before the faults that no audit of the table has judged again.

    A discrepancy is retired when its table leaves the lake file. If the table comes back, its fault is not repaired.

    Raises:
        CannotAudit: the results cannot be read.
    """
    since = min((row["as_of"] for row in rows.values()), default=None)
    if since is None:
        return {}
    retired = f"state = 'resolved' AND resolution = {text(RETIRED)} AND resolved_at > {moment(since)}"
    sql = f"""
        SELECT table_name, first_run_id, last_run_id, resolved_at, {SUMS} FROM discrepancies
        WHERE {retired} AND {STOPPING}{_not_accepted(now, accepted=accepted)}
        GROUP BY table_name, first_run_id, last_run_id, resolved_at"""
    before = dict(rows)
    for found in with_known_times(results, ask(results, sql, "discrepancies")):
        row = before.get(found["table_name"])
        if row and found["resolved_at"] > row["as_of"] and found["last_run_id"] != row["run_id"]:
            before[row["table_name"]] = _stopped_before(row, found)
    return before


def _stopped_before(row: Row, retired: Row) -> Row:
    through = time_before(blocking_of(retired | {"ids": ()}), row["verified_through"])
    faults = number(retired["number"], "fault")
    why = f"{faults} found before the lake file left out the table: no audit has judged them again"
    return row | {"verified_through": through, "blocked_by": [*(row["blocked_by"] or ()), why]}


def former_names(results: Results, places: Mapping[str, str]) -> set[str]:
    """Return names under which audits judged tables at these places later than under their own names.

    Args:
        results: the results.
        places: by table the URI of its location.

    Raises:
        CannotAudit: the results cannot be read.
    """
    judged = [row for row in results.tables() if row["last_audited_at"] is not None]
    own = {row["location"]: row["last_audited_at"] for row in judged if row["table_name"] in places}
    return {
        row["table_name"]
        for row in judged
        if row["table_name"] not in places
        and row["location"] in own
        and row["last_audited_at"] > own[row["location"]]
    }


def without_renamed(rows: Mapping[str, Row], places: Mapping[str, str]) -> dict[str, Row]:
    """Return rows of `verified` without the time of a table that a later audit judged under a former name.

    If the lake file names the table as before again, its faults in the ledger have the other name.
    """
    others = {name: row for name, row in rows.items() if name not in places}
    newest = {row["location"]: row for row in sorted(others.values(), key=lambda row: row["as_of"])}
    return {
        name: _renamed(row, newest[row["location"]])
        if name in places and row["location"] in newest and newest[row["location"]]["as_of"] > row["as_of"]
        else row
        for name, row in rows.items()
    }


def _renamed(row: Row, later: Row) -> Row:
    why = f"a later audit judged its files under the name {later['table_name']}"
    return row | {"verified_through": None, "blocked_by": [*(row["blocked_by"] or ()), why]}


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
    until, accepted = now + CLOCK_STEP, lake.ledger.accepted_stop_verified
    wanted = {*places, *names, *former_names(results, places)}
    rows = last_watermarks(results, wanted, lake.overdue, until)
    if any(run["as_of"] > until for run in results.runs() if run["status"] in PUBLISHED):
        rows = _newest(results, f"v.as_of > {moment(until)}") | rows
    rows = without_renamed(without_retired(results, rows, now, accepted=accepted), places)
    blocking = blocking_discrepancies(results, now, accepted=accepted, named=named)
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
