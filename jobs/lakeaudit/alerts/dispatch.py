"""Makes notices from new changes, and sends all that are due, in rounds that can be repeated at any time.

A notice is written before it is sent, under the id of its run, so that a killed round loses nothing. If a round is
killed after it sent a notice and before it recorded that, the next round sends the notice again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from lakeaudit.alerts import message_text, webhook
from lakeaudit.alerts.decide import (
    DUE,
    FAILED_TO_SEND,
    OVERDUE,
    SENT,
    Notice,
    decide,
    due_reminders,
    overdue,
    reminders,
)
from lakeaudit.alerts.deliver import CannotDeliver, Channel, Post, channel
from lakeaudit.alerts.run_summary import news_of
from lakeaudit.config import Alert, Lake, WebhookAlert
from lakeaudit.formatting import second
from lakeaudit.keys import digest
from lakeaudit.kinds import SEVERITIES
from lakeaudit.results import delta_writer
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.results.summaries.change_summary import open_now, still_open
from lakeaudit.runtime.connections.aws import Clients

LATE = timedelta(days=3)
"""Highest age of a run for new notices, so that a new route does not receive all earlier changes."""

MOST_ATTEMPTS = 20

_FINAL = (*PUBLISHED, "failed")
_COLUMNS = ("status", "attempts", "error", "sent_at")


@dataclass(frozen=True)
class Round:
    """The number of sent messages, and the reasons why others failed."""

    sent: int = 0
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlertContext:
    """Everything that a round needs: the lake, its results, clients, environment, and the time."""

    lake: Lake
    lake_file: str
    results: Results
    clients: Clients
    env: Mapping[str, str]
    now: datetime

    def routes(self, receiver: str) -> list[Alert]:
        """Return the routes to a receiver."""
        return [route for route in self.lake.alerts if route.receiver == receiver]


def round_of(context: AlertContext) -> Round:
    """Write new notices, and send all that are due.

    Raises:
        CannotAudit: the results cannot be read.
        CannotPublish: the results cannot be written.
    """
    if not context.lake.alerts:
        return Round()
    notices = context.results.notices()
    new = _new(context, notices)
    return _send(context, [*(row for row in notices if _is_due(row)), *new])


def _new(context: AlertContext, notices: Sequence[Row]) -> list[Row]:
    """Write and return the notices of finished runs that have none yet."""
    before = {row["receiver"]: row["kind"] for row in notices if row["kind"].startswith("audit_")}
    runs, rows = context.results.runs(), list[Row]()
    for run in _unreported_runs(runs, {row["run_id"] for row in notices}):
        if run["status"] in _FINAL and run["finished_at"] > context.now - LATE:
            new = decide(news_of(context.results, run, context.now), context.lake.alerts, before)
            before |= {notice.receiver: notice.kind for notice in new if notice.kind.startswith("audit_")}
            rows += _write(context, run["run_id"], new, len(rows))
    rows += _late(context, runs, before, len(rows))
    return rows + _reminders(context, runs, [*notices, *rows], len(rows))


def _unreported_runs(runs: Sequence[Row], reported: set[str]) -> Sequence[Row]:
    """Return the runs after the last one with a notice; an earlier run without a notice had nothing to report."""
    last = max((at for at, run in enumerate(runs) if run["run_id"] in reported), default=-1)
    return runs[last + 1 :]


def _late(context: AlertContext, runs: Sequence[Row], before: Mapping[str, str], made: int) -> list[Row]:
    """Write and return overdue notices, under the last published run, so that notices of later runs are newer."""
    published = [run for run in runs if run["status"] in PUBLISHED]
    if not published or published[-1]["finished_at"] > context.now - context.lake.overdue:
        return []
    since = f"the last one was published {second(published[-1]['finished_at'])}"
    receivers = list(dict.fromkeys(route.receiver for route in context.lake.alerts))
    notices = overdue(receivers, since, before)
    return _write(context, published[-1]["run_id"], notices, made, kind=OVERDUE)


def _reminders(context: AlertContext, runs: Sequence[Row], notices: Sequence[Row], made: int) -> list[Row]:
    """Write and return reminders of discrepancies that stay open, under the last published run."""
    published = [run for run in runs if run["status"] in PUBLISHED]
    if not published or all(route.repeat is None for route in context.lake.alerts):
        return []
    last: dict[tuple[str, str | None], datetime] = {}
    for row in notices:
        if not row["kind"].startswith("audit_"):
            about = (row["receiver"], row["table_name"])
            last[about] = max(row["made_at"], last.get(about, row["made_at"]))
    due = due_reminders(open_now(context.results, context.now), context.lake.alerts, last, context.now)
    if not due:
        return []
    notices_due = reminders(due, still_open(context.results, context.now), context.lake.alerts)
    rows = _rows(context, published[-1]["run_id"], notices_due, made)
    same = {"lake": context.lake.name, "notice_id": [row["notice_id"] for row in rows]}
    if rows:  # rows of other receivers and tables stay: they have the time of the last notice
        delta_writer.replace(context.results, "notices", _table(rows), same)
    return rows


def _write(
    context: AlertContext, run_id: str, notices: Sequence[Notice], made: int, **only: str
) -> list[Row]:
    """Write and return the rows of notices; they replace rows of a killed round."""
    rows = _rows(context, run_id, notices, made)
    if rows:
        delta_writer.replace(
            context.results, "notices", _table(rows), {"lake": context.lake.name, "run_id": run_id, **only}
        )
    return rows


def _rows(context: AlertContext, run_id: str, notices: Sequence[Notice], made: int) -> list[Row]:
    """Return rows with times after the `made` rows before them in this round: notices keep the order of runs."""
    later = [context.now + timedelta(microseconds=made + at) for at in range(len(notices))]
    return [_row(context, run_id, notice, at) for notice, at in zip(notices, later, strict=True)]


def _row(context: AlertContext, run_id: str, notice: Notice, at: datetime) -> Row:
    fingerprint = notice.fingerprint(context.lake.name)
    routes = context.routes(notice.receiver)
    worded = webhook.section if isinstance(routes[0], WebhookAlert) else message_text.text
    return {
        "notice_id": digest(run_id, fingerprint, notice.kind),
        "lake": context.lake.name,
        "run_id": run_id,
        "receiver": notice.receiver,
        "table_name": notice.table,
        "fingerprint": fingerprint,
        "kind": notice.kind,
        "transition": notice.transition,
        "severity": notice.severity,
        "discrepancies": sum(change.number for change in notice.changes),
        "over": notice.over,
        "message": worded(
            notice,
            context.lake_file,
            run_id,
            redact=any(route.redact for route in routes),
            reach=context.clients.endpoint,
        ),
        "status": DUE,
        "attempts": 0,
        "error": None,
        "made_at": at,
        "sent_at": None,
    }


def _is_due(row: Row) -> bool:
    again: bool = row["status"] == FAILED_TO_SEND and row["attempts"] < MOST_ATTEMPTS
    return again or row["status"] == DUE


def _send(context: AlertContext, due: Sequence[Row]) -> Round:
    """Send to each receiver separately, so that a failure of one does not stop the others."""
    if not due:
        return Round()
    sent, failures, lake = 0, list[str](), _lake_now(context)
    by_receiver: dict[str, list[Row]] = {}
    for row in due:
        by_receiver.setdefault(row["receiver"], []).append(row)
    for receiver, rows in by_receiver.items():
        for error in _sent_to(context, receiver, rows, lake):
            sent += error is None
            failures += [f"{receiver}: {error}"] if error else []
    return Round(sent, tuple(dict.fromkeys(failures)))


@dataclass(frozen=True)
class _LakeNow:
    """The state of the whole lake, for the end of a message: as text, and open discrepancies by table and severity."""

    words: str
    open: Mapping[str | None, Mapping[str, int]]


def _lake_now(context: AlertContext) -> _LakeNow:
    run = context.results.last_published()
    audited = {row["table_name"] for row in context.results.coverage(run["run_id"])} if run else set()
    tables = [table.name for table in context.lake.tables]
    by_table = open_now(context.results.again(), context.now)
    words = message_text.lake_now(by_table, sum(name in audited for name in tables), len(tables))
    return _LakeNow(words, by_table)


def _sent_to(context: AlertContext, receiver: str, rows: list[Row], lake: _LakeNow) -> list[str | None]:
    """Send a receiver's messages; return for each the reason of its failure, or None."""
    try:
        to = _channel(context, receiver)
    except CannotDeliver as error:
        return [_record(context, rows, str(error))]
    return [_deliver(context, to, group, lake) for group in (_by_subject(rows) if to.per_table else [rows])]


def _channel(context: AlertContext, receiver: str) -> Channel:
    routes = context.routes(receiver)
    if not routes:
        raise CannotDeliver("the lake file has no route to it any more")
    return channel(routes[0], context.env, context.clients)


def _by_subject(rows: list[Row]) -> list[list[Row]]:
    """Group the rows by subject, for receivers that keep incidents."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["fingerprint"], []).append(row)
    return list(groups.values())


def _deliver(context: AlertContext, to: Channel, rows: list[Row], lake: _LakeNow) -> str | None:
    try:
        to.send(_post(context, rows, lake))
    except CannotDeliver as failed:
        return _record(context, rows, str(failed))
    return _record(context, rows, None)


def _record(context: AlertContext, rows: list[Row], error: str | None) -> str | None:
    """Record whether a message was sent, and return the reason of its failure, or None."""
    outcomes = [
        {
            "notice_id": row["notice_id"],
            "lake": row["lake"],
            "status": FAILED_TO_SEND if error else SENT,
            "attempts": row["attempts"] + 1,
            "error": error,
            "sent_at": None if error else context.now,
        }
        for row in rows
    ]
    same = "old.lake = new.lake AND old.notice_id = new.notice_id"
    delta_writer.update(context.results, "notices", pa.Table.from_pylist(outcomes, _OUTCOME), same, _COLUMNS)
    return error


def _post(context: AlertContext, rows: Sequence[Row], lake: _LakeNow) -> Post:
    """Return one message of all rows, worst subject first; each subject's newest notice comes before older ones."""
    groups = sorted(_by_subject(list(rows)), key=lambda group: _rank(group[-1], lake.open))
    headlines = [group[-1]["message"].partition("\n")[0] for group in groups]
    worst = groups[0][-1]
    of_audit = worst["kind"].startswith("audit_")
    title = message_text.title(context.lake.name, headlines)
    return Post(
        title=title,
        body=_body(context, title, groups, lake),
        severity=worst["severity"],
        over=all(group[-1]["over"] for group in groups),
        key=worst["fingerprint"],
        labels={
            "lake": context.lake.name,
            "table": "" if of_audit else worst["table_name"] or "",
            "about": "audit" if of_audit else "table",
        },
        at=context.now,
    )


def _body(context: AlertContext, title: str, groups: Sequence[Sequence[Row]], lake: _LakeNow) -> str:
    if isinstance(context.routes(groups[0][0]["receiver"])[0], WebhookAlert):
        return webhook.document(context.lake.name, title, groups, lake.open, context.now)
    return message_text.body([group[-1]["message"] for group in groups] + _late_sections(groups), lake.words)


def _rank(row: Row, open_now: Mapping[str | None, Mapping[str, int]]) -> tuple[bool, int, int, int, str]:
    """Return the sort key: worst severity, most of it open in the table, most discrepancies, name."""
    return (
        row["over"],
        SEVERITIES.index(row["severity"]),
        -open_now.get(row["table_name"], {}).get(row["severity"], 0),
        -(row["discrepancies"] or 0),
        row["table_name"] or "",
    )


def _late_sections(groups: Sequence[Sequence[Row]]) -> list[str]:
    """Return the older notices of each subject, which could not be delivered in time, newest first."""
    return [message_text.late(row["message"]) for group in groups for row in reversed(group[:-1])]


_TIME = pa.timestamp("us", "UTC")
_TEXTS = (
    "notice_id",
    "lake",
    "run_id",
    "receiver",
    "table_name",
    "fingerprint",
    "kind",
    "transition",
    "severity",
)
NOTICES_ROW = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        ("discrepancies", pa.int64()),
        ("over", pa.bool_()),
        *((name, pa.string()) for name in ("message", "status")),
        ("attempts", pa.int64()),
        ("error", pa.string()),
        *((name, _TIME) for name in ("made_at", "sent_at")),
    ]
)
_OUTCOME = pa.schema([NOTICES_ROW.field(name) for name in ("notice_id", "lake", *_COLUMNS)])


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), NOTICES_ROW)
