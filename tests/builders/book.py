"""A ledger in memory, told as a story and not as a table of rules: what `settle` is held against."""

from dataclasses import dataclass, replace
from datetime import datetime

from lakeaudit.kinds import SEVERITIES


@dataclass(frozen=True)
class Entry:
    """What is known of one discrepancy; the fields are those of the ledger."""

    state: str
    kind: str
    severity: str
    first_seen_at: datetime
    last_evidence_at: datetime
    first_run_id: str
    last_run_id: str
    opened_at: datetime | None = None
    resolved_at: datetime | None = None
    resolution: str | None = None
    reopened: int | None = None
    ack_by: str | None = None
    ack_reason: str | None = None
    ack_until: datetime | None = None


@dataclass(frozen=True)
class Look:
    """How well a run looked at the table; what happened before `edge` is in its picture for certain."""

    judged: bool
    complete: bool
    edge: datetime | None


@dataclass(frozen=True)
class Found:
    """What a run found, by evidence of `at` that holds what happened before `edge`."""

    kind: str
    severity: str
    at: datetime
    edge: datetime
    confirmed: bool
    grown: bool = False


@dataclass(frozen=True)
class Word:
    """What a run says of what it did not find."""

    resolution: str
    at: datetime
    live: bool


@dataclass(frozen=True)
class Run:
    """A run of the book, at its time."""

    id: str
    now: datetime


Settled = tuple[Entry | None, str | None]
"""The entry after a run, and what people are told."""


def settle(
    entry: Entry | None, run: Run, look: Look, said: Found | Word | None, found_at: datetime | None
) -> Settled:
    """What becomes of an entry; `found_at` is the newest evidence on which earlier runs found it."""
    if not look.judged or said is None:
        return entry, None
    if isinstance(said, Word):
        return _missed(entry, run, look, said, found_at)
    if entry is None:
        new = Entry("pending", said.kind, said.severity, said.at, said.at, run.id, run.id)
        return _opened(new, run) if said.confirmed else (new, None)
    return {"open": _still_open, "pending": _seen_twice, "resolved": _came_back}[entry.state](
        entry, run, said
    )


def _missed(entry: Entry | None, run: Run, look: Look, word: Word, found_at: datetime | None) -> Settled:
    """Only a live look, or a whole picture from after it was last found, ends anything."""
    if entry is None or entry.state == "resolved":
        return entry, None
    last = max(entry.last_evidence_at, found_at or entry.last_evidence_at)
    if not word.live and not (look.complete and look.edge is not None and look.edge > last):
        return entry, None
    told = "resolved" if entry.state == "open" else None
    ended = replace(entry, state="resolved", resolved_at=run.now, resolution=word.resolution)
    return replace(ended, last_evidence_at=word.at, last_run_id=run.id), told


def _still_open(entry: Entry, run: Run, found: Found) -> Settled:
    if found.at <= entry.last_evidence_at:
        return entry, None
    rank = SEVERITIES.index
    if (found.kind, found.severity) == (entry.kind, entry.severity):
        return (_shown(entry, run, found), None) if found.grown else (entry, None)
    told = "escalated" if rank(found.severity) < rank(entry.severity) else "reclassified"
    return _not_accepted(_shown(entry, run, found)), told


def _seen_twice(entry: Entry, run: Run, found: Found) -> Settled:
    if not found.confirmed and found.at <= entry.last_evidence_at:
        return entry, None
    return _opened(_shown(entry, run, found), run)


def _came_back(entry: Entry, run: Run, found: Found) -> Settled:
    if found.edge <= entry.last_evidence_at:
        return entry, None
    shown = replace(_shown(entry, run, found), resolved_at=None, resolution=None)
    if found.confirmed:
        return _opened(shown, run)
    return _not_accepted(replace(shown, state="pending")), None


def _opened(entry: Entry, run: Run) -> Settled:
    """For the first time, or again: what was never told does not come back."""
    times = entry.reopened or 0
    if entry.opened_at is None:
        return replace(entry, state="open", opened_at=run.now, reopened=times), "opened"
    again = replace(entry, state="open", opened_at=run.now, reopened=times + 1)
    return _not_accepted(again), "reopened"


def _shown(entry: Entry, run: Run, found: Found) -> Entry:
    return replace(
        entry, kind=found.kind, severity=found.severity, last_evidence_at=found.at, last_run_id=run.id
    )


def _not_accepted(entry: Entry) -> Entry:
    return replace(entry, ack_by=None, ack_reason=None, ack_until=None)
