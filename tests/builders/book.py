"""A ledger in memory, written as plain code instead of a table of rules: the reference for `settle`."""

from dataclasses import dataclass, replace
from datetime import datetime

from lakeaudit.kinds import SEVERITIES


@dataclass(frozen=True)
class Entry:
    """One discrepancy, with the fields of the ledger."""

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
    """How completely a run judged the table; its storage snapshot includes everything before `edge`."""

    judged: bool
    complete: bool
    edge: datetime | None


@dataclass(frozen=True)
class RunFinding:
    """A finding of a run, with evidence from `at`."""

    kind: str
    severity: str
    at: datetime
    confirmed: bool
    grown: bool = False


@dataclass(frozen=True)
class Word:
    """A run's result for a file without a finding."""

    resolution: str
    at: datetime
    live: bool


@dataclass(frozen=True)
class Run:
    """A run of the book, at its time."""

    id: str
    now: datetime


Settled = tuple[Entry | None, str | None]
"""The entry after a run, and the transition that is reported."""


def settle(
    entry: Entry | None, run: Run, look: Look, said: RunFinding | Word | None, found_at: datetime | None
) -> Settled:
    """Return the next state of an entry; `found_at` is the newest evidence on which earlier runs reported it."""
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
    """Only a live check, or a whole picture from after it was last found, ends anything."""
    if entry is None or entry.state == "resolved":
        return entry, None
    last = max(entry.last_evidence_at, found_at or entry.last_evidence_at)
    if not word.live and not (look.complete and look.edge is not None and look.edge > last):
        return entry, None
    told = "resolved" if entry.state == "open" else None
    ended = replace(entry, state="resolved", resolved_at=run.now, resolution=word.resolution)
    return replace(ended, last_evidence_at=word.at, last_run_id=run.id), told


def _still_open(entry: Entry, run: Run, found: RunFinding) -> Settled:
    if found.at <= entry.last_evidence_at:
        return entry, None
    rank = SEVERITIES.index
    if (found.kind, found.severity) == (entry.kind, entry.severity):
        return (_with_finding(entry, run, found), None) if found.grown else (entry, None)
    told = "escalated" if rank(found.severity) < rank(entry.severity) else "reclassified"
    return _not_accepted(_with_finding(entry, run, found)), told


def _seen_twice(entry: Entry, run: Run, found: RunFinding) -> Settled:
    if not found.confirmed and found.at <= entry.last_evidence_at:
        return entry, None
    return _opened(_with_finding(entry, run, found), run)


def _came_back(entry: Entry, run: Run, found: RunFinding) -> Settled:
    if found.at <= entry.last_evidence_at:
        return entry, None
    shown = replace(_with_finding(entry, run, found), resolved_at=None, resolution=None)
    if found.confirmed:
        return _opened(shown, run)
    return _not_accepted(replace(shown, state="pending")), None


def _opened(entry: Entry, run: Run) -> Settled:
    """Open an entry, or reopen it if it was open before."""
    times = entry.reopened or 0
    if entry.opened_at is None:
        return replace(entry, state="open", opened_at=run.now, reopened=times), "opened"
    again = replace(entry, state="open", opened_at=run.now, reopened=times + 1)
    return _not_accepted(again), "reopened"


def _with_finding(entry: Entry, run: Run, found: RunFinding) -> Entry:
    return replace(
        entry, kind=found.kind, severity=found.severity, last_evidence_at=found.at, last_run_id=run.id
    )


def _not_accepted(entry: Entry) -> Entry:
    return replace(entry, ack_by=None, ack_reason=None, ack_until=None)
