"""Makes notices from new changes, and sends all that are due, in rounds that can be repeated at any time.

A notice is written before it is sent, under the id of its run, so that a killed round loses nothing. If a round is
killed after it sent a notice and before it recorded that, the next round sends the notice again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from lakeaudit.alerts import message_text, posts
from lakeaudit.alerts.decide import (
    DISCREPANCIES,
    DUE,
    FAILED_TO_SEND,
    OF_AUDIT,
    ROUTE_ADDED,
    SENT,
    Notice,
    any_concerns,
    decide,
    due_reminders,
    overdue,
    reminders,
)
from lakeaudit.alerts.deliver import CannotDeliver, Channel, channel, keeps_incidents
from lakeaudit.alerts.incidents import last_of_tables
from lakeaudit.alerts.notice_rows import OUTCOME_COLUMNS, AlertContext, rows_of
from lakeaudit.alerts.posts import LakeNow
from lakeaudit.alerts.run_summary import news_of
from lakeaudit.formatting import duration, second
from lakeaudit.results import delta_writer
from lakeaudit.results.read import PUBLISHED, Row
from lakeaudit.results.summaries.change_summary import by_severity, open_kinds, open_now, still_open
from lakeaudit.schemas import NOTICES

LATE = timedelta(days=3)
"""Highest age of a run for new notices."""

MOST_ATTEMPTS = 20

_FINAL = (*PUBLISHED, "failed")


@dataclass(frozen=True)
class Round:
    """The number of sent messages, and the reasons why others failed."""

    sent: int = 0
    failures: tuple[str, ...] = ()


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
    due = [*(row for row in notices if _is_due(row)), *(row for row in new if row["status"] == DUE)]
    return _send(context, due, [*notices, *new])


def _new(context: AlertContext, notices: Sequence[Row]) -> list[Row]:
    """Write and return the notices of finished runs that have none yet."""
    before = {row["receiver"]: row["kind"] for row in notices if row["kind"] in OF_AUDIT}
    runs, rows = context.results.runs(), _added_routes(context, notices)
    finished = [
        run for run in _unreported_runs(runs, {row["run_id"] for row in notices if row["kind"] != ROUTE_ADDED})
        if run["status"] in _FINAL and run["finished_at"] > context.now - LATE
    ]  # fmt: skip
    added = {row["receiver"] for row in rows}
    for run in finished:
        routes = [
            route for route in context.lake.alerts if run is finished[-1] or route.receiver not in added
        ]
        new = decide(news_of(context.results, run, context.now), routes, before)
        before |= {notice.receiver: notice.kind for notice in new if notice.kind in OF_AUDIT}
        rows += _write(context, run["run_id"], new, [*notices, *rows], len(rows))
    rows += _late(context, runs, before, [*notices, *rows], len(rows))
    rows += _endings(context, runs, [*notices, *rows], len(rows))
    return rows + _reminders(context, runs, [*notices, *rows], len(rows))


def _added_routes(context: AlertContext, notices: Sequence[Row]) -> list[Row]:
    """Write and return a row for each new receiver: it gets the changes of the newest run, and no earlier ones."""
    known = {row["receiver"] for row in notices}
    receivers = dict.fromkeys(route.receiver for route in context.lake.alerts)
    added = [
        Notice(receiver, None, ROUTE_ADDED, "added", over=True)
        for receiver in receivers if receiver not in known
    ]  # fmt: skip
    rows = [row | {"status": SENT} for row in rows_of(context, "", added, notices, 0)]
    if rows:
        delta_writer.append(context.results, "notices", _table(rows))
    return rows


def _endings(context: AlertContext, runs: Sequence[Row], notices: Sequence[Row], made: int) -> list[Row]:
    """Write and return notices that end incidents in which nothing is open any more that their routes select.

    Nobody resolved these discrepancies: a person accepted them, or the lake file leaves them out now.
    """
    published = [run for run in runs if run["status"] in PUBLISHED]
    last = {
        subject: row for subject, row in last_of_tables(notices).items()
        if not row["over"] and any(keeps_incidents(route, context.env) for route in context.routes(subject[0]))
    }  # fmt: skip
    if not published or not last:
        return []
    opened = by_severity(open_kinds(context.results.again(), context.now))
    over = [
        Notice(receiver, table, DISCREPANCIES, "resolved", over=True)
        for receiver, table in last
        if not any_concerns(context.routes(receiver), table, opened.get(table, {}))
    ]
    return _add(context, rows_of(context, published[-1]["run_id"], over, notices, made, ENDING))


ENDING = "ending"
"""Part of the id of such a notice: the same run may have another notice about the table."""


def _unreported_runs(runs: Sequence[Row], reported: set[str]) -> Sequence[Row]:
    """Return the runs after the last one with a notice; an earlier run without a notice had nothing to report."""
    last = max((at for at, run in enumerate(runs) if run["run_id"] in reported), default=-1)
    return runs[last + 1 :]


def _late(
    context: AlertContext, runs: Sequence[Row], before: Mapping[str, str], earlier: Sequence[Row], made: int
) -> list[Row]:
    """Write and return overdue notices, under the last published run, so that notices of later runs are newer."""
    published = [run for run in runs if run["status"] in PUBLISHED]
    if not published or published[-1]["finished_at"] > context.now - context.lake.overdue:
        return []
    last = published[-1]["finished_at"]
    since = (
        f"the last one was published {second(last)}, {duration(context.now - last)} ago; "
        f"the limit is {duration(context.lake.overdue)}"
    )
    receivers = list(dict.fromkeys(route.receiver for route in context.lake.alerts))
    notices = overdue(receivers, since, before)
    return _add(context, rows_of(context, published[-1]["run_id"], notices, earlier, made))


def _reminders(context: AlertContext, runs: Sequence[Row], notices: Sequence[Row], made: int) -> list[Row]:
    """Write and return reminders of discrepancies that stay open, under the last published run."""
    published = [run for run in runs if run["status"] in PUBLISHED]
    if not published or all(route.repeat is None for route in context.lake.alerts):
        return []
    last = {subject: row["made_at"] for subject, row in last_of_tables(notices).items()}
    added = {row["receiver"]: row["made_at"] for row in reversed(notices)}
    due = due_reminders(open_now(context.results, context.now), context.lake.alerts, last, added, context.now)
    if not due:
        return []
    notices_due = reminders(due, still_open(context.results, context.now), context.lake.alerts)
    return _add(context, rows_of(context, published[-1]["run_id"], notices_due, notices, made))


def _add(context: AlertContext, rows: list[Row]) -> list[Row]:
    """Write and return rows beside those of other receivers and tables, which have the time of the last notice."""
    same = {"lake": context.lake.name, "notice_id": [row["notice_id"] for row in rows]}
    if rows:
        delta_writer.replace(context.results, "notices", _table(rows), same)
    return rows


def _write(
    context: AlertContext,
    run_id: str,
    notices: Sequence[Notice],
    earlier: Sequence[Row],
    made: int,
) -> list[Row]:
    """Write and return the rows of notices; they replace rows of a killed round."""
    rows = rows_of(context, run_id, notices, earlier, made)
    if rows:
        delta_writer.replace(
            context.results, "notices", _table(rows), {"lake": context.lake.name, "run_id": run_id}
        )
    return rows


def _is_due(row: Row) -> bool:
    again: bool = row["status"] == FAILED_TO_SEND and row["attempts"] < MOST_ATTEMPTS
    return again or row["status"] == DUE


def _send(context: AlertContext, due: Sequence[Row], known: Sequence[Row]) -> Round:
    """Send to each receiver separately, so that a failure of one does not stop the others."""
    if not due:
        return Round()
    sent, failures, now = 0, list[str](), _lake_now(context, known)
    by_receiver: dict[str, list[Row]] = {}
    for row in due:
        by_receiver.setdefault(row["receiver"], []).append(row)
    for receiver, rows in by_receiver.items():
        for error in _sent_to(context, receiver, rows, now):
            sent += error is None
            failures += [f"{receiver}: {error}"] if error else []
    return Round(sent, tuple(dict.fromkeys(failures)))


def _lake_now(context: AlertContext, known: Sequence[Row]) -> LakeNow:
    run = context.results.last_published()
    audited = {row["table_name"] for row in context.results.coverage(run["run_id"])} if run else set()
    tables = [table.name for table in context.lake.tables]
    opened = open_kinds(context.results.again(), context.now)
    words = message_text.lake_now(by_severity(opened), sum(name in audited for name in tables), len(tables))
    return LakeNow(
        lake=context.lake.name,
        lake_file=context.lake_file,
        words=words,
        open=opened,
        earlier=known,
        at=context.now,
        footer=context.footer,
        dashboard=context.lake.dashboard_url,
        routes={route.receiver: context.routes(route.receiver) for route in context.lake.alerts},
    )


def _sent_to(context: AlertContext, receiver: str, rows: list[Row], now: LakeNow) -> list[str | None]:
    """Send a receiver's messages; return for each the reason of its failure, or None."""
    try:
        to = _channel(context, receiver)
    except CannotDeliver as error:
        return [_record(context, rows, str(error))]
    groups = _by_incident(rows) if to.form == "incidents" else [rows]
    return [_deliver(context, to, group, now) for group in groups]


def _channel(context: AlertContext, receiver: str) -> Channel:
    routes = context.routes(receiver)
    if not routes:
        raise CannotDeliver("the lake file has no route to it any more")
    return channel(routes[0], context.env, context.clients)


def _by_incident(rows: list[Row]) -> list[list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["fingerprint"], []).append(row)
    return list(groups.values())


def _deliver(context: AlertContext, to: Channel, rows: list[Row], now: LakeNow) -> str | None:
    try:
        to.send(posts.post_in(to.form, rows, now))
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
    rows_done = pa.Table.from_pylist(outcomes, _OUTCOME)
    delta_writer.update(context.results, "notices", rows_done, same, OUTCOME_COLUMNS)
    return error


_OUTCOME = pa.schema([NOTICES.field(name) for name in ("notice_id", "lake", *OUTCOME_COLUMNS)])


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), NOTICES)
