"""Writes the watermark of each audited table: up to which time all of its commits are verified."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from lakeaudit.audit.judge import Judgement
from lakeaudit.collect.evidence import Evidence
from lakeaudit.config import Table
from lakeaudit.judged import CONTENT, EMPTY, WHOLE, YOUNG, Row, axis_state
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.verified_tables import blocking_discrepancies, last_watermarks
from lakeaudit.results.watermark import Watermark, blocking_of, next_watermark

_PART = "not every file of the table was judged"


def verified_rows(
    evidence: Evidence, judgement: Judgement, results: Results, now: datetime
) -> list[dict[str, Any]]:
    """Return the rows of `verified` of a run, whose changes of the ledger are written already.

    An audit of some partitions has none. A file is verified only if its commit is older than the storage snapshot by
    the `grace` of its table: then the audit judged it.
    """
    if evidence.partitions:
        return []
    stamp, accepted = evidence.stamp, evidence.lake.ledger.accepted_stop_verified
    names = {table.name for table in evidence.scope}
    before = last_watermarks(results, names, evidence.lake.overdue, stamp.as_of, stamp.run_id)
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
        for table, mark in _watermarks(evidence, judgement, before, blocking)
    ]


def _watermarks(
    evidence: Evidence, judgement: Judgement, before: Mapping[str, Row], blocking: Mapping[str, Row]
) -> Iterator[tuple[Table, Watermark]]:
    content = {row["table_name"]: row for row in judgement.coverage_rows if row["axis"] == CONTENT}
    edges = {
        each.table: each.edge for each in judgement.observations if each.axis == CONTENT and each.complete
    }
    for table in evidence.scope:
        row, edge = content.get(table.name), edges.get(table.name)
        is_whole = row is not None and edge is not None and axis_state(row) in (WHOLE, EMPTY, YOUNG)
        through = edge - table.settings.grace if is_whole and edge is not None else None
        row_before = before.get(table.name)
        is_same = row_before is not None and row_before["location"] == table.location.uri
        last = row_before["verified_through"] if row_before is not None and is_same else None
        reason = (row or {}).get("reason") or _PART
        yield table, next_watermark(last, through, blocking_of(blocking.get(table.name)), (reason,))
