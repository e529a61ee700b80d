"""Traces findings to the requests that caused them, where requests are recorded. Without that nothing is asked.

Only the keys of findings are asked about, and only in records that may be as young as the oldest of their claims.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.compare import causes
from lakeaudit.evidence.protocol import Events, Hole
from lakeaudit.keys import identify
from lakeaudit.pipeline.audit_context import AuditContext
from lakeaudit.pipeline.chunks import Reading
from lakeaudit.pipeline.engine import Answers, AuditEngine
from lakeaudit.pipeline.evidence_gaps import all_holes
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation, Rows
from lakeaudit.schemas import CAUSE, EFFECT, plain_time

MOST_HOLES = 1000
"""Files of tables' own logs that are asked about."""


@dataclass(frozen=True)
class Traced:
    """CAUSE rows, and what could not be read of the records of requests."""

    causes: pa.Table = field(default_factory=CAUSE.empty_table)
    holes: tuple[Hole, ...] = ()

    @property
    def number(self) -> int:
        """How many are known."""
        return int(self.causes.num_rows)


def traced(audit: AuditContext, engine: AuditEngine, remaining: Rows, holes: Sequence[Hole]) -> Traced:
    """What is known to have caused the findings among these verdict rows, and the loss of files of tables' own logs."""
    if not audit.observed.events:
        return Traced()
    found = duck.query(audit.con, "SELECT * FROM input WHERE outcome = 'finding'", input=remaining)
    asked = duck.table(
        duck.union(audit.con, [causes.effects(audit.con, found), _of_logs(holes, audit.stamp.as_of)])
    )
    if not asked.num_rows:
        return Traced()
    reading = Reading(select=partial(causes.of_these, asked))
    parts = [part for each in audit.observed.events for part in each.parts(_since(asked, each), False)]
    return _traced(engine.run(parts, [partial(causes.answer, asked)], reading))


def _traced(answers: Answers) -> Traced:
    """Few: a row a key that was asked about, and notes of parts."""
    found: dict[str, list[pa.RecordBatch]] = {"causes": [], "notes": [], "counted": []}
    for kind, batch in answers:
        found[kind].append(batch)
    notes = [row for batch in found["notes"] for row in batch.to_pylist() if row["reason"]]
    named = pa.Table.from_batches(found["causes"], CAUSE)
    return Traced(named, all_holes((), _counts(found["counted"]), notes))


def _counts(batches: Sequence[pa.RecordBatch]) -> Mapping[str, Mapping[str, Any]]:
    """By source how many rows could not be understood, with one of them."""
    counts: dict[str, dict[str, Any]] = {}
    for row in (row for batch in batches for row in batch.to_pylist()):
        known = counts.setdefault(row["source"], {"rows": 0, "rejected": 0, "sample": None})
        known["rows"] += row["rows"]
        known["rejected"] += row["rejected"]
        known["sample"] = min(filter(None, (known["sample"], row["sample"])), default=None)
    return counts


def _since(asked: pa.Table, events: Events) -> datetime:
    """The oldest claim; where one has no time, as far back as the source is read."""
    times = asked.column("claimed_at")
    if times.null_count:
        return events.since
    oldest: datetime = min(times.to_pylist())
    return max(oldest.replace(tzinfo=UTC), events.since)


def _of_logs(holes: Sequence[Hole], now: datetime) -> pa.Table:
    """EFFECT rows of files of tables' own logs that are gone: nobody says when they were written, once as they are."""
    places = list(_lost_files(holes))[:MOST_HOLES]
    rows = [(*place, causes.GONE, None, plain_time(now), None, None) for place in dict.fromkeys(places)]
    return duck.small(EFFECT, rows)


def _lost_files(holes: Sequence[Hole]) -> Iterator[tuple[str, str]]:
    for hole in holes:
        place = identify(hole.subject) if hole.kind == "missing_metadata" and hole.table else None
        if place is not None:
            yield place


def explained(audit: AuditContext, findings: Rows, known: Traced) -> Relation:
    """FINDINGS with their causes, where any is known."""
    rows = duck.relation(audit.con, findings)
    return causes.with_causes(audit.con, rows, known.causes) if known.number else rows
