"""Trace findings to the recorded requests that caused them, and find patterns of access. Without records it is a no-op.

Causes are searched for the keys of findings, and only in records that may be as young as the oldest of their claims.
For patterns the complete window is read, once for both, and summed in the tasks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.checks.hazards import access_patterns
from lakeaudit.checks.hazards.access_hazards import watched_tables
from lakeaudit.checks.hazards.access_patterns import WatchedTables
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import all_evidence_gaps
from lakeaudit.engine.chunks import Reading
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import Events, EvidenceGap
from lakeaudit.findings import causes
from lakeaudit.keys import identify
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CAUSE, EFFECT, plain_time

MOST_LOST = 1000
"""Lost files of tables' own logs whose causes are searched."""


@dataclass(frozen=True)
class Causes:
    """CAUSE rows, ACCESS rows of every share, and gaps of the records of requests."""

    causes: pa.Table = field(default_factory=CAUSE.empty_table)
    patterns: tuple[Mapping[str, Any], ...] = ()
    holes: tuple[EvidenceGap, ...] = ()

    @property
    def number(self) -> int:
        """Return how many causes are known."""
        return int(self.causes.num_rows)


def trace_causes(
    evidence: Evidence, engine: AuditEngine, remaining: Rows, gaps: Sequence[EvidenceGap]
) -> Causes:
    """Search the causes of the findings among these verdict rows, and of lost files of tables' own logs."""
    if not evidence.observed.events:
        return Causes()
    findings = duck.query(evidence.con, "SELECT * FROM input WHERE outcome = 'finding'", input=remaining)
    effects = duck.table(
        duck.union(
            evidence.con, [causes.effects(evidence.con, findings), _of_logs(gaps, evidence.stamp.as_of)]
        )
    )
    patterns = None if evidence.partitions else watched_tables(evidence.lake, evidence.scope)
    return read_requests(engine, evidence.observed.events, effects, patterns)


def read_requests(
    engine: AuditEngine, events: Iterable[Events], effects: pa.Table, patterns: WatchedTables | None
) -> Causes:
    """Search the records for the causes of effects (EFFECT rows), and for patterns of access to tables."""
    if not effects.num_rows and patterns is None:
        return Causes()
    reads = patterns is not None and bool(patterns.weak)
    parts = [
        part
        for each in events
        for part in each.parts(_since(effects, each) if patterns is None else each.since, reads)
    ]
    reading = Reading(select=partial(_select_requests, effects, patterns))
    answers: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for kind, batch in engine.run(parts, [partial(_answer, effects)], reading):
        answers[kind].append(batch)
    notes = [row for row in _plain(answers["notes"]) if row["reason"]]
    return Causes(
        pa.Table.from_batches(answers["causes"], CAUSE),
        tuple(_plain(answers["patterns"])),
        all_evidence_gaps((), _counts(answers["counted"]), notes),
    )


def _select_requests(
    effects: pa.Table, patterns: WatchedTables | None, con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    """Yield the REQUEST rows of effects and of watched tables; rows of other kinds are passed on unchanged."""
    if kind != "requests":
        yield kind, rows
        return
    if effects.num_rows:
        yield kind, causes.of_these(con, rows, effects)
    if patterns is not None:
        yield from access_patterns.of_tables(patterns, con, rows)


def _answer(effects: pa.Table, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if "requests" in rows:
        yield "causes", causes.causes(con, rows["requests"], effects)
    yield from access_patterns.patterns(con, rows)


def _plain(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield batches as plain rows; there are few: notes of each part, and sums of each share."""
    yield from (row for batch in batches for row in batch.to_pylist())


def _counts(batches: Sequence[pa.RecordBatch]) -> Mapping[str, Mapping[str, Any]]:
    """Count by source the rows that could not be parsed, with one of them."""
    counts: dict[str, dict[str, Any]] = {}
    for row in _plain(batches):
        known = counts.setdefault(row["source"], {"rows": 0, "rejected": 0, "sample": None})
        known["rows"] += row["rows"]
        known["rejected"] += row["rejected"]
        known["sample"] = min(filter(None, (known["sample"], row["sample"])), default=None)
    return counts


def _since(effects: pa.Table, events: Events) -> datetime:
    """Return the time of the oldest claim; if a claim has no time, the start of the source's window."""
    times = effects.column("claimed_at")
    if times.null_count:
        return events.since
    oldest: datetime = min(times.to_pylist())
    return max(oldest.replace(tzinfo=UTC), events.since)


def _of_logs(gaps: Sequence[EvidenceGap], now: datetime) -> pa.Table:
    """Return EFFECT rows of lost files of tables' own logs, whose write times are not known."""
    places = list(dict.fromkeys(_lost_files(gaps)))[:MOST_LOST]
    return duck.small(EFFECT, [(*place, causes.GONE, None, plain_time(now), None, None) for place in places])


def _lost_files(gaps: Sequence[EvidenceGap]) -> Iterator[tuple[str, str]]:
    for gap in gaps:
        place = identify(gap.subject) if gap.kind == "missing_metadata" and gap.table else None
        if place is not None:
            yield place


def add_causes(evidence: Evidence, findings: Rows, known: Causes) -> Relation:
    """Return FINDINGS rows with their causes, if any is known."""
    rows = duck.relation(evidence.con, findings)
    return causes.with_causes(evidence.con, rows, known.causes) if known.number else rows
