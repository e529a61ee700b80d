"""Decide: which receiver is told what of a run, once. Pure.

A notice is about one table, or about the audit itself, and goes to one receiver. Its fingerprint names both and nothing
that changes from run to run, so that a receiver with incidents of its own (PagerDuty, Alertmanager) keeps one for it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeaudit.alerts.run_summary import News
from lakeaudit.config import Alert, glob_to_regex
from lakeaudit.digests import digest
from lakeaudit.kinds import SEVERITIES
from lakeaudit.results.change_summary import Change

TOLD = ("opened", "reopened", "escalated", "reclassified", "resolved")
"""Transitions that are told, the most pressing first."""

DISCREPANCIES, MASS_LOSS, STILL_OPEN = "discrepancies", "mass_loss", "still_open"
SUSPECT, FAILED, OVERDUE, RECOVERED = "audit_suspect", "audit_failed", "audit_overdue", "audit_recovered"
_OF_STATUS = {"suspect": SUSPECT, "failed": FAILED}
_TROUBLE = (SUSPECT, FAILED, OVERDUE)

DUE, SENT, FAILED_TO_SEND = "due", "sent", "failed"

LEAST = "warning"
"""From this severity on a receiver is told, where its route says nothing else."""


@dataclass(frozen=True)
class Notice:
    """One thing to tell one receiver; `changes` are those that concern it, `over`: nothing of it is open any more."""

    receiver: str
    table: str | None
    kind: str
    transition: str
    changes: tuple[Change, ...] = ()
    words: str = ""
    over: bool = False

    def fingerprint(self, lake: str) -> str:
        """What it is about and for whom: the same in every run."""
        about = "audit" if self.kind in (*_TROUBLE, RECOVERED) else f"table {self.table or ''}"
        return digest(lake, self.receiver, about)

    @property
    def severity(self) -> str:
        """The worst of it; trouble of the audit itself is critical: nobody knows what it hides."""
        if not self.changes:
            return "info" if self.over else SEVERITIES[0]
        return min((change.severity for change in self.bad), key=SEVERITIES.index, default="info")

    @property
    def bad(self) -> tuple[Change, ...]:
        """What is not an end."""
        return tuple(change for change in self.changes if change.transition != "resolved")


def decide(news: News, routes: Sequence[Alert], before: Mapping[str, str]) -> list[Notice]:
    """What is to be told of a run.

    Args:
        news: the run's.
        routes: those of the lake file; several may lead to one receiver.
        before: by receiver the kind of the last notice about the audit itself.
    """
    receivers: dict[str, list[Alert]] = {}
    for route in routes:
        receivers.setdefault(route.receiver, []).append(route)
    found: list[Notice] = []
    for receiver, theirs in receivers.items():
        found += _of_audit(news, receiver, before.get(receiver))
        found += _of_tables(news, receiver, theirs)
    return found


def overdue(receivers: Sequence[str], words: str, before: Mapping[str, str]) -> list[Notice]:
    """No audit has been published for too long; told once, until one is."""
    return [
        Notice(receiver, None, OVERDUE, "opened", words=words)
        for receiver in receivers
        if before.get(receiver) not in _TROUBLE
    ]


def unheard_for_long(
    open_now: Mapping[str | None, Mapping[str, int]],
    routes: Sequence[Alert],
    told: Mapping[tuple[str, str | None], datetime],
    now: datetime,
) -> list[tuple[str, str | None]]:
    """(receiver, table) of what is open and is to be told again; `told` is when they were told of it last."""
    patient = [(route, route.repeat) for route in routes if route.repeat is not None]
    due = [
        (route.receiver, table)
        for route, repeat in patient for table, counts in open_now.items()
        if any(number and concerns(route, table, severity) for severity, number in counts.items())
        and now - told.get((route.receiver, table), now - repeat) >= repeat
    ]  # fmt: skip
    return list(dict.fromkeys(due))


def reminders(
    due: Sequence[tuple[str, str | None]], still_open: Sequence[Change], routes: Sequence[Alert]
) -> list[Notice]:
    """What is open, again, of the tables that are due."""
    found = []
    for receiver, table in due:
        theirs = [route for route in routes if route.receiver == receiver]
        changes = tuple(change for change in _concerning(theirs, still_open) if change.table == table)
        found += [Notice(receiver, table, STILL_OPEN, "open", changes)] if changes else []
    return found


def _of_audit(news: News, receiver: str, last: str | None) -> Iterator[Notice]:
    """Told when it begins and when it is over, and not every night in between."""
    kind = _OF_STATUS.get(news.status)
    if kind and last not in (SUSPECT, FAILED):
        yield Notice(receiver, None, kind, "opened", words=news.error or "")
    if kind is None and last in _TROUBLE:
        yield Notice(receiver, None, RECOVERED, "resolved", over=True)


def _of_tables(news: News, receiver: str, routes: Sequence[Alert]) -> Iterator[Notice]:
    wanted: dict[str | None, list[Change]] = {}
    for change in _concerning(routes, news.changes):
        if change.transition in TOLD:
            wanted.setdefault(change.table, []).append(change)
    for table, changes in wanted.items():
        worst = min((change.transition for change in changes), key=TOLD.index)
        loss = news.losses.get(table or "", "") if worst in TOLD[:2] else ""
        open_now = news.open.get(table, {})
        over = not any(concerns(route, table, name) for route in routes for name, n in open_now.items() if n)
        yield Notice(receiver, table, MASS_LOSS if loss else DISCREPANCIES, worst, tuple(changes), loss, over)


def _concerning(routes: Sequence[Alert], changes: Sequence[Change]) -> Iterator[Change]:
    for change in changes:
        if any(concerns(route, change.table, change.severity) for route in routes):
            yield change


def concerns(route: Alert, table: str | None, severity: str) -> bool:
    """Whether a route is told of this severity in this table; what belongs to no table concerns all."""
    if SEVERITIES.index(severity) > SEVERITIES.index(route.min_severity or LEAST):
        return False
    if route.tables is None or table is None:
        return True
    return any(re.match(glob_to_regex(glob), table) for glob in route.tables)
