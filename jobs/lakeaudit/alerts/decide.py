"""Decides which receivers get which notices about a run, each once. Pure.

A notice is about one table, or about the audit itself, and has one receiver. Its fingerprint is made from both and from
nothing that changes from run to run, so that PagerDuty or Alertmanager keeps one incident for it.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lakeaudit.alerts.run_summary import News
from lakeaudit.config import Alert, glob_to_regex
from lakeaudit.formatting import number, second
from lakeaudit.keys import digest
from lakeaudit.kinds import COVERAGE_LOST, SEVERITIES
from lakeaudit.results.summaries.change_summary import Change

ACCEPTANCE_ENDED = "acceptance_ended"
"""The change of a discrepancy that counts again, because the time until which a person accepted it is over."""
REPORTED = ("opened", "reopened", "escalated", "reclassified", ACCEPTANCE_ENDED, "resolved")
"""Changes that notices report, the most urgent first."""

DISCREPANCIES, MASS_LOSS, STILL_OPEN = "discrepancies", "mass_loss", "still_open"
BLIND = COVERAGE_LOST
"""The kind of a notice whose worst change is lost coverage."""
SUSPECT, FAILED, OVERDUE, RECOVERED = "audit_suspect", "audit_failed", "audit_overdue", "audit_recovered"
_OF_STATUS = {"suspect": SUSPECT, "failed": FAILED}
TROUBLE = (SUSPECT, FAILED, OVERDUE)
OF_AUDIT = (*TROUBLE, RECOVERED)
"""Kinds of notices about the audit itself."""
TEST = "test"
"""The kind of the example of `lakeaudit alert --test`, which is not stored."""
ROUTE_ADDED = "route_added"
"""The kind of a row without a message: from its time on, the receiver gets messages."""
RUNS_REPORTED = "runs_reported"
"""The kind of the row without a message and receiver that lists the runs that rounds have read."""
BOOKKEEPING = (ROUTE_ADDED, RUNS_REPORTED)
"""Kinds of rows without a message."""
NOTICE_KINDS = (DISCREPANCIES, MASS_LOSS, BLIND, STILL_OPEN, *OF_AUDIT, *BOOKKEEPING, TEST)

DUE, SENT, FAILED_TO_SEND = "due", "sent", "failed"

NEARLY = 0.95
"""The part of `repeat` after which a reminder is due: a nightly audit may begin a little earlier than the last one."""

LEAST = "warning"
"""Default of `min_severity` of a route."""


@dataclass(frozen=True)
class Notice:
    """A notice to one receiver; `changes` are those that its routes select, `over`: nothing is open any more."""

    receiver: str
    table: str | None
    kind: str
    transition: str
    changes: tuple[Change, ...] = ()
    words: str = ""
    over: bool = False
    owner: str | None = None

    def fingerprint(self, lake: str) -> str:
        """Return a digest of subject and receiver, which is the same in every run."""
        about = "audit" if self.kind in OF_AUDIT else f"table {self.table or ''}"
        return digest(lake, self.receiver, about)

    @property
    def severity(self) -> str:
        """Return the worst severity; trouble of the audit itself is critical, since it may hide any damage."""
        if not self.changes:
            return "info" if self.over or self.kind in BOOKKEEPING else SEVERITIES[0]
        return min((change.severity for change in self.bad), key=SEVERITIES.index, default="info")

    @property
    def bad(self) -> tuple[Change, ...]:
        """Return the changes that are not resolutions."""
        return tuple(change for change in self.changes if change.transition != "resolved")


def decide(
    news: News, routes: Sequence[Alert], before: Mapping[str, str], lasting: Collection[str] = ()
) -> list[Notice]:
    """Return the notices about a run.

    Args:
        news: the changes of the run.
        routes: the routes of the lake file; several may have the same receiver.
        before: kind of the last notice about the audit itself, by receiver.
        lasting: the receivers whose trouble of audits lasts, because the run covers less than the audits that failed.
    """
    receivers: dict[str, list[Alert]] = {}
    for route in routes:
        receivers.setdefault(route.receiver, []).append(route)
    notices: list[Notice] = []
    for receiver, theirs in receivers.items():
        notices += _of_audit(news, receiver, before.get(receiver), lasts=receiver in lasting)
        notices += _of_tables(news, receiver, theirs)
    return notices


def overdue(receivers: Sequence[str], words: str, before: Mapping[str, str]) -> list[Notice]:
    """Return notices that no audit was published for too long, except to receivers that have one already."""
    return [
        Notice(receiver, None, OVERDUE, "opened", words=words)
        for receiver in receivers
        if before.get(receiver) not in TROUBLE
    ]


def due_reminders(
    open_now: Mapping[str | None, Mapping[str, int]],
    routes: Sequence[Alert],
    last: Mapping[tuple[str, str | None], datetime],
    added: Mapping[str, datetime],
    now: datetime,
) -> list[tuple[str, str | None]]:
    """Return (receiver, table) for which a reminder is due.

    `last` has the time of the last notice of each, `added` the time from which each receiver gets messages.
    """
    patient = [(route, route.repeat) for route in routes if route.repeat is not None]
    due = [
        (route.receiver, table)
        for route, repeat in patient for table, counts in open_now.items()
        if any_concerns([route], table, counts)
        and now - last.get((route.receiver, table), added.get(route.receiver, now)) >= repeat * NEARLY
    ]  # fmt: skip
    return list(dict.fromkeys(due))


def trouble_reminders(
    last: Mapping[str, Mapping[str, Any]], routes: Sequence[Alert], now: datetime
) -> list[tuple[str, str]]:
    """Return (receiver, kind) of trouble of audits that lasts and is to be reported again.

    `last` has the row of the last notice about the audit itself, by receiver.
    """
    due = [
        (route.receiver, last[route.receiver]["kind"])
        for route in routes
        if route.repeat is not None
        and route.receiver in last
        and last[route.receiver]["kind"] in TROUBLE
        and now - last[route.receiver]["made_at"] >= route.repeat * NEARLY
    ]
    return list(dict.fromkeys(due))


def reminders(
    due: Sequence[tuple[str, str | None]], still_open: Sequence[Change], routes: Sequence[Alert]
) -> list[Notice]:
    """Return notices about everything that is open in the tables for which a reminder is due."""
    notices = []
    for receiver, table in due:
        theirs = [route for route in routes if route.receiver == receiver]
        changes = tuple(change for change in _changes_for(theirs, still_open) if change.table == table)
        notices += [Notice(receiver, table, STILL_OPEN, "open", changes)] if changes else []
    return notices


def _of_audit(news: News, receiver: str, last: str | None, *, lasts: bool) -> Iterator[Notice]:
    """Yield a notice when trouble of the audit begins and when it ends, and none in the runs between."""
    kind = _OF_STATUS.get(news.status)
    if kind and last not in (SUSPECT, FAILED):
        yield Notice(receiver, None, kind, "opened", words=news.error or "")
    if kind is None and last in TROUBLE and not lasts and (news.judged or not news.tables):
        yield Notice(receiver, None, RECOVERED, "resolved", words=_recovery_words(news), over=True)


def _recovery_words(news: News) -> str:
    scope = f" and judged {news.judged} of {number(news.tables, 'table')}" if news.tables else ""
    return f"the audit {news.run_id} ended at {second(news.at)}{scope}"


def _of_tables(news: News, receiver: str, routes: Sequence[Alert]) -> Iterator[Notice]:
    by_table: dict[str | None, list[Change]] = {}
    for change in _changes_for(routes, news.changes):
        if change.transition in REPORTED:
            by_table.setdefault(change.table, []).append(change)
    for table, changes in by_table.items():
        worst = min((change.transition for change in changes), key=REPORTED.index)
        loss = news.losses.get(table or "", "") if worst in REPORTED[:2] else ""
        over = not any_concerns(routes, table, news.open.get(table, {}))
        behind = news.behind.get(table or "", "") if worst != "resolved" else ""
        words = "; ".join(filter(None, (loss, behind)))
        notice = Notice(receiver, table, DISCREPANCIES, worst, tuple(changes), words, over)
        kind = MASS_LOSS if loss else BLIND if _is_blind(notice) else DISCREPANCIES
        yield replace(notice, kind=kind)


def _is_blind(notice: Notice) -> bool:
    """Return whether lost coverage is among the worst changes."""
    return any(each.kind == COVERAGE_LOST and each.severity == notice.severity for each in notice.bad)


def _changes_for(routes: Sequence[Alert], changes: Sequence[Change]) -> Iterator[Change]:
    for change in changes:
        if any(concerns(route, change.table, change.severity) for route in routes):
            yield change


def any_concerns(routes: Iterable[Alert], table: str | None, counts: Mapping[str, int]) -> bool:
    """Return whether a route selects any of the open discrepancies of a table, which are counted by severity."""
    severities = [severity for severity, number in counts.items() if number]
    return any(concerns(route, table, severity) for route in routes for severity in severities)


def concerns(route: Alert, table: str | None, severity: str) -> bool:
    """Return whether a route selects this severity in this table; every route selects changes without a table."""
    if SEVERITIES.index(severity) > SEVERITIES.index(route.min_severity or LEAST):
        return False
    if route.tables is None or table is None:
        return True
    return any(re.match(glob_to_regex(glob), table) for glob in route.tables)
