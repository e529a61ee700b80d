"""Writes the watermark of each audited table: up to which time all of its commits are verified."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from lakeaudit.audit.judge import Judgement
from lakeaudit.collect.evidence import Evidence
from lakeaudit.config import Table
from lakeaudit.formatting import in_utc, number
from lakeaudit.judged import CONTENT, EMPTY, WHOLE, YOUNG, Row, axis_state, files_young
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.verified_tables import (
    STOPPING,
    SUMS,
    before_horizon,
    blocking_discrepancies,
    former_names,
    last_watermarks,
    without_renamed,
    without_retired,
)
from lakeaudit.results.watermark import (
    NOTHING_OPEN,
    Blocking,
    Watermark,
    blocking_of,
    next_watermark,
    time_before,
)
from lakeaudit.runtime import duck

_LEFT = "the audit found {} that newer evidence had resolved"
_PART = "not every file of the table was judged"


def verified_rows(
    evidence: Evidence, judgement: Judgement, results: Results, ledger: LedgerTables, now: datetime
) -> list[dict[str, Any]]:
    """Return the rows of `verified` of a run, whose changes of the ledger are written already.

    An audit of some partitions has none. A file is verified only if its commit is older than the storage snapshot by
    the `grace` of its table: then the audit judged it.
    """
    if evidence.partitions:
        return []
    stamp, accepted = evidence.stamp, evidence.lake.ledger.accepted_stop_verified
    places = {table.name: table.location.uri for table in (*evidence.lake.tables, *evidence.scope)}
    names = {table.name for table in evidence.scope} | former_names(results, places)
    before = last_watermarks(results, names, evidence.lake.overdue, stamp.as_of, stamp.run_id)
    before = without_renamed(without_retired(results, before, now, accepted=accepted), places)
    blocking = blocking_discrepancies(results, now, accepted=accepted)
    return [
        {
            "run_id": stamp.run_id,
            "lake": stamp.lake,
            "table_name": table.name,
            "location": table.location.uri,
            "as_of": stamp.as_of,
            "verified_through": mark.through,
            "movement": mark.movement,
            "open_discrepancies": int(blocking.get(table.name, {}).get("number", 0)),
            "blocked_by": list(mark.blocked_by),
        }
        for table, mark in _watermarks(
            evidence, judgement, before, blocking, _left_resolved(evidence, judgement, ledger)
        )
    ]


def _left_resolved(evidence: Evidence, judgement: Judgement, ledger: LedgerTables) -> Mapping[str, Blocking]:
    """Return by table the serious findings of the run that the ledger does not show as pending or open.

    Newer evidence has resolved them, or a newer audit has judged their table. So they do not move a watermark back, but
    this audit has not verified their files, and it moves no watermark past them.
    """
    sql = f"SELECT discrepancy_id, table_name, axis, manifest_time, storage_time FROM input WHERE {STOPPING}"
    found = duck.hold(evidence.con, duck.made_of(evidence.con, sql, judgement.findings))
    if duck.is_empty(found):
        return {}
    left = ledger.not_in_ledger(evidence.con, found)
    sums = f"SELECT table_name, {SUMS}, [] AS ids FROM input GROUP BY table_name"
    horizons = {row["table_name"]: row["history_horizon"] for row in judgement.coverage_rows}
    rows = map(_with_zones, duck.rows_of(duck.made_of(evidence.con, sums, left)))
    return {
        row["table_name"]: blocking_of(before_horizon(row, _in_utc(horizons.get(row["table_name"]))))
        for row in rows
    }


def _with_zones(row: Row) -> dict[str, Any]:
    return {name: in_utc(value) if isinstance(value, datetime) else value for name, value in row.items()}


def _in_utc(time: datetime | None) -> datetime | None:
    return None if time is None else in_utc(time)


def _watermarks(
    evidence: Evidence,
    judgement: Judgement,
    before: Mapping[str, Row],
    blocking: Mapping[str, Row],
    left_resolved: Mapping[str, Blocking],
) -> Iterator[tuple[Table, Watermark]]:
    content = {row["table_name"]: row for row in judgement.coverage_rows if row["axis"] == CONTENT}
    edges = {
        each.table: each.edge for each in judgement.observations if each.axis == CONTENT and each.complete
    }
    for table in evidence.scope:
        row, edge = content.get(table.name, {}), edges.get(table.name)
        through = None if edge is None else _judged_through(row, edge - table.settings.grace)
        reasons = () if through is not None else (row.get("reason") or _PART,)
        left = left_resolved.get(table.name, NOTHING_OPEN)
        if left.number:
            through = time_before(left, through)
            reasons = (*reasons, _LEFT.format(number(left.number, "fault")))
        row_before = before.get(table.name)
        is_same = row_before is not None and row_before["location"] == table.location.uri
        last = row_before["verified_through"] if row_before is not None and is_same else None
        yield table, next_watermark(last, through, blocking_of(blocking.get(table.name)), reasons)


def _judged_through(row: Row, through: datetime) -> datetime | None:
    """Return the time if the audit judged the files of all commits up to it, by its row of coverage; else None.

    Files of commits before the oldest state that can be read have the time of this state. If it is later, such files
    are among those that are too young.
    """
    if not row or axis_state(row) not in (WHOLE, EMPTY, YOUNG):
        return None
    horizon = _in_utc(row["history_horizon"])
    is_vague = axis_state(row) == YOUNG if horizon is None else horizon > through
    return None if files_young(row) and is_vague else through
