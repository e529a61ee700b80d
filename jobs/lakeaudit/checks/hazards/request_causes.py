"""Traces findings, and patterns of access, to recorded requests. Where no requests are recorded nothing is asked.

For causes only the keys of findings are asked about, and only in records that may be as young as the oldest of their
claims. For patterns all of the window is read, once for both, and summed in the tasks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.checks.hazards import access_patterns
from lakeaudit.checks.hazards.access_hazards import watched
from lakeaudit.checks.hazards.access_patterns import Watched
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
"""Files of tables' own logs that are asked about."""


@dataclass(frozen=True)
class Traced:
    """CAUSE rows, ACCESS rows share by share, and what could not be read of the records of requests."""

    causes: pa.Table = field(default_factory=CAUSE.empty_table)
    patterns: tuple[Mapping[str, Any], ...] = ()
    holes: tuple[EvidenceGap, ...] = ()

    @property
    def number(self) -> int:
        """How many causes are known."""
        return int(self.causes.num_rows)


def traced(evidence: Evidence, engine: AuditEngine, remaining: Rows, holes: Sequence[EvidenceGap]) -> Traced:
    """What is known to have caused the findings among these verdict rows, and the loss of files of tables' own logs."""
    if not evidence.observed.events:
        return Traced()
    found = duck.query(evidence.con, "SELECT * FROM input WHERE outcome = 'finding'", input=remaining)
    asked = duck.table(
        duck.union(evidence.con, [causes.effects(evidence.con, found), _of_logs(holes, evidence.stamp.as_of)])
    )
    patterns = None if evidence.partitions else watched(evidence.lake, evidence.scope)
    return read_requests(engine, evidence.observed.events, asked, patterns)


def read_requests(
    engine: AuditEngine, events: Iterable[Events], asked: pa.Table, patterns: Watched | None
) -> Traced:
    """What the records say of the effects that are asked about (EFFECT), and of tables that are watched."""
    if not asked.num_rows and patterns is None:
        return Traced()
    reads = patterns is not None and bool(patterns.weak)
    parts = [
        part
        for each in events
        for part in each.parts(_since(asked, each) if patterns is None else each.since, reads)
    ]
    reading = Reading(select=partial(_wanted, asked, patterns))
    found: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for kind, batch in engine.run(parts, [partial(_answer, asked)], reading):
        found[kind].append(batch)
    notes = [row for row in _plain(found["notes"]) if row["reason"]]
    return Traced(
        pa.Table.from_batches(found["causes"], CAUSE),
        tuple(_plain(found["patterns"])),
        all_evidence_gaps((), _counts(found["counted"]), notes),
    )


def _wanted(
    asked: pa.Table, patterns: Watched | None, con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    """Of REQUEST rows what is asked about, and what is below tables that are watched; other kinds as they are."""
    if kind != "requests":
        yield kind, rows
        return
    if asked.num_rows:
        yield kind, causes.of_these(con, rows, asked)
    if patterns is not None:
        yield from access_patterns.of_tables(patterns, con, rows)


def _answer(asked: pa.Table, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if "requests" in rows:
        yield "causes", causes.causes(con, rows["requests"], asked)
    yield from access_patterns.patterns(con, rows)


def _plain(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Few: of each part some notes, of each share a row per table, pattern and principal."""
    yield from (row for batch in batches for row in batch.to_pylist())


def _counts(batches: Sequence[pa.RecordBatch]) -> Mapping[str, Mapping[str, Any]]:
    """By source how many rows could not be understood, with one of them."""
    counts: dict[str, dict[str, Any]] = {}
    for row in _plain(batches):
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


def _of_logs(holes: Sequence[EvidenceGap], now: datetime) -> pa.Table:
    """EFFECT rows of files of tables' own logs that are gone: nobody says when they were written, once as they are."""
    places = list(dict.fromkeys(_lost_files(holes)))[:MOST_LOST]
    return duck.small(EFFECT, [(*place, causes.GONE, None, plain_time(now), None, None) for place in places])


def _lost_files(holes: Sequence[EvidenceGap]) -> Iterator[tuple[str, str]]:
    for hole in holes:
        place = identify(hole.subject) if hole.kind == "missing_metadata" and hole.table else None
        if place is not None:
            yield place


def explained(evidence: Evidence, findings: Rows, known: Traced) -> Relation:
    """FINDINGS with their causes, where any is known."""
    rows = duck.relation(evidence.con, findings)
    return causes.with_causes(evidence.con, rows, known.causes) if known.number else rows
