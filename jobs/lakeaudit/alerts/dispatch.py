"""Sends all notices that are due, in rounds that can be repeated at any time.

A notice is written before it is sent, under the id of its run, so that a killed round loses nothing. If a round is
killed after it sent a notice and before it recorded that, the next round sends the notice again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeaudit.alerts import message_text, posts
from lakeaudit.alerts.decide import DUE, FAILED_TO_SEND, SENT
from lakeaudit.alerts.deliver import CannotDeliver, Channel, channel
from lakeaudit.alerts.lake_now import LakeNow
from lakeaudit.alerts.new_notices import new_notices
from lakeaudit.alerts.notice_rows import OUTCOME_COLUMNS, AlertContext
from lakeaudit.kinds import SEVERITIES
from lakeaudit.results import delta_writer
from lakeaudit.results.read import Row
from lakeaudit.results.summaries.change_summary import by_severity, open_kinds, still_open
from lakeaudit.schemas import NOTICES

MOST_ATTEMPTS = 20


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
    new = new_notices(context, notices)
    due = [*(row for row in notices if _is_due(row)), *(row for row in new if row["status"] == DUE)]
    return _send(context, due, [*notices, *new])


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
        criticals=still_open(context.results.again(), context.now, SEVERITIES[0]),
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
