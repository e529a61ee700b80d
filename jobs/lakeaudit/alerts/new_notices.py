"""Makes and writes the notices of a round: about runs that have none yet, late audits, endings and reminders.

A round reports each finished run once. It records which runs it has read, so that the clock of a run does not
matter: a run whose clock is slow ends before runs that were reported already.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from json import dumps, loads

import pyarrow as pa

from lakeaudit.alerts.decide import (
    ACCEPTANCE_ENDED,
    BOOKKEEPING,
    DISCREPANCIES,
    OF_AUDIT,
    OVERDUE,
    ROUTE_ADDED,
    RUNS_REPORTED,
    SENT,
    TROUBLE,
    Notice,
    any_concerns,
    decide,
    due_reminders,
    overdue,
    reminders,
    trouble_reminders,
)
from lakeaudit.alerts.deliver import keeps_incidents
from lakeaudit.alerts.incidents import Subject, last_of_tables
from lakeaudit.alerts.notice_rows import AlertContext, rows_of
from lakeaudit.alerts.run_summary import News, news_of
from lakeaudit.alerts.trouble import lasting
from lakeaudit.alerts.webhook import stored_content
from lakeaudit.config import AlertmanagerAlert
from lakeaudit.formatting import duration, second
from lakeaudit.results import delta_writer
from lakeaudit.results.read import FOLLOWED, PUBLISHED, WITH_CHANGES, Row
from lakeaudit.results.summaries.change_summary import (
    Change,
    by_severity,
    ended_acceptances,
    open_kinds,
    open_now,
    still_open,
)
from lakeaudit.results.summaries.scheduled_runs import without_live_audits
from lakeaudit.schemas import NOTICES

LATE = timedelta(days=3)
"""Highest age of a run, and of the end of an acceptance, for new notices."""

_FINAL = (*WITH_CHANGES, "failed")

ENDING, ACCEPTANCE, REPEAT = "ending", "acceptance", "repeat"
"""Parts of the ids of notices: the same run may have another notice about the table."""


def new_notices(context: AlertContext, notices: Sequence[Row]) -> list[Row]:
    """Write and return the notices that are new in this round; `notices` are all earlier ones.

    Raises:
        CannotAudit: the results cannot be read.
        CannotPublish: the results cannot be written.
    """
    runs, rows = context.results.runs(), _added_routes(context, notices)
    rows += _of_runs(context, runs, [*notices, *rows], rows)
    rows += _late(context, runs, [*notices, *rows], len(rows))
    rows += _endings(context, runs, [*notices, *rows], len(rows))
    rows += _reminders(context, runs, [*notices, *rows], len(rows))
    return rows + _repeated_trouble(context, runs, [*notices, *rows], len(rows))


def _of_runs(
    context: AlertContext, runs: Sequence[Row], known: Sequence[Row], added: Sequence[Row]
) -> list[Row]:
    """Write and return the notices of unreported runs and of ended acceptances, in one commit with their record."""
    every = [*runs, *context.results.followed()]
    finished, ended = _unreported_runs(every, known, context.now), _ended_acceptances(context, known)
    new_receivers, made = {row["receiver"] for row in added}, len(added)
    rows: list[Row] = []
    for run in finished:
        before, is_last = [*known, *rows], run is finished[-1]
        routes = [each for each in context.lake.alerts if is_last or each.receiver not in new_receivers]
        news = news_of(context.results, run, context.now)
        news = replace(news, changes=(*news.changes, *ended)) if is_last else news
        new = decide(news, routes, _kinds_of_audit(before), _lasting(context, before, run, runs))
        rows += rows_of(context, run["run_id"], new, before, made + len(rows))
    published = _published(runs)
    if ended and not finished and published:
        last = published[-1]["run_id"]
        news = News(last, context.now, "running", changes=ended, open=open_now(context.results, context.now))
        rows += rows_of(context, last, decide(news, context.lake.alerts, {}), known, made, ACCEPTANCE)
    _add(context, [*rows, *_record(context, every, known, finished)])
    return rows


def _lasting(context: AlertContext, notices: Sequence[Row], run: Row, runs: Sequence[Row]) -> set[str]:
    """Return the receivers whose trouble of audits lasts after a run; a run of `follow` ends none."""
    begun = _open_trouble(notices)
    return {*begun} if run["status"] == FOLLOWED else lasting(context.results, context.lake, begun, run, runs)


def _kinds_of_audit(notices: Iterable[Row]) -> dict[str, str]:
    """Return the kind of the last notice about the audit itself, by receiver."""
    return {row["receiver"]: row["kind"] for row in notices if row["kind"] in OF_AUDIT}


def _open_trouble(notices: Iterable[Row]) -> dict[str, str]:
    """Return the runs with which the trouble of audits began, by receiver, where it is not over."""
    begun: dict[str, str] = {}
    for row in notices:
        if row["kind"] in TROUBLE:
            begun.setdefault(row["receiver"], row["run_id"])
        elif row["kind"] in OF_AUDIT:
            begun.pop(row["receiver"], None)
    return begun


def _published(runs: Iterable[Row]) -> list[Row]:
    return [run for run in runs if run["status"] in PUBLISHED]


def _ended_acceptances(context: AlertContext, notices: Sequence[Row]) -> tuple[Change, ...]:
    """Return the discrepancies that count again since their acceptance ended, and that no notice has reported."""
    first = min((row["made_at"] for row in notices), default=context.now)
    reported: dict[str | None, datetime] = {}
    for row in notices:
        content = stored_content(row) if row["made_at"] > context.now - LATE else None
        if content and any(each["transition"] == ACCEPTANCE_ENDED for each in content["changes"]):
            reported[row["table_name"]] = row["made_at"]
    since = max(first, context.now - LATE)
    changes = ended_acceptances(context.results, since, context.now, reported)
    return tuple(replace(change, transition=ACCEPTANCE_ENDED) for change in changes)


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


def _unreported_runs(runs: Sequence[Row], notices: Sequence[Row], now: datetime) -> list[Row]:
    """Return the finished runs that no round has read; old ones are left out.

    A run that appeared after the last round is new, however slow its clock is. A round of an earlier version did not
    record its runs: then these are the runs after the last one with a notice.
    """
    reported = {row["run_id"] for row in notices if row["kind"] not in BOOKKEEPING}
    recorded = _recorded_runs(notices)
    if recorded is None:
        last = max((at for at, run in enumerate(runs) if run["run_id"] in reported), default=-1)
        runs, recorded = runs[last + 1 :], set()
    return [
        run for run in runs
        if run["status"] in _FINAL and (run["finished_at"] > now - LATE or _is_slow(run, notices, now))
        and run["run_id"] not in reported and run["run_id"] not in recorded
    ]  # fmt: skip


def _is_slow(run: Row, notices: Sequence[Row], now: datetime) -> bool:
    """Return whether an old run appeared after a recent round, which records the runs that it has read."""
    rounds = [row["made_at"] for row in notices if row["kind"] == RUNS_REPORTED]
    return bool(rounds) and rounds[-1] > now - LATE and run["finished_at"] > rounds[0] - 2 * LATE


def _recorded_runs(notices: Iterable[Row]) -> set[str] | None:
    """Return the runs that earlier rounds have read; None: no round has recorded any."""
    records = [row["content"] for row in notices if row["kind"] == RUNS_REPORTED]
    return {run_id for record in records for run_id in loads(record)} if records else None


def _record(
    context: AlertContext, runs: Sequence[Row], notices: Sequence[Row], finished: Sequence[Row]
) -> list[Row]:
    """Return the row with the runs that a later round must not read again; none if it would be the same."""
    final = [run for run in runs if run["status"] in _FINAL]
    newest = max((run["finished_at"] for run in final), default=context.now)
    since = min(newest, context.now) - 2 * LATE
    recent = {run["run_id"] for run in final if run["finished_at"] > since}
    recent |= {run["run_id"] for run in finished}
    before = _recorded_runs(notices)
    if before is not None and recent <= before:
        return []
    rows = rows_of(context, "", [Notice("", None, RUNS_REPORTED, "recorded", over=True)], [], 0)
    return [row | {"status": SENT, "content": dumps(sorted(recent))} for row in rows]


def _late(context: AlertContext, runs: Sequence[Row], notices: Sequence[Row], made: int) -> list[Row]:
    """Write and return overdue notices, under the last published run, so that notices of later runs are newer."""
    words = _overdue_words(context, runs)
    if not words:
        return []
    receivers = list(dict.fromkeys(route.receiver for route in context.lake.alerts))
    new = overdue(receivers, words, _kinds_of_audit(notices))
    return _add(
        context,
        rows_of(
            context, without_live_audits(_published(runs), context.lake)[-1]["run_id"], new, notices, made
        ),
    )


def _overdue_words(context: AlertContext, runs: Sequence[Row]) -> str:
    """Return since when no audit was published; empty: not for too long."""
    published = without_live_audits(_published(runs), context.lake)
    if not published or published[-1]["finished_at"] > context.now - context.lake.overdue:
        return ""
    last = published[-1]["finished_at"]
    return (
        f"the last one was published {second(last)}, {duration(context.now - last)} ago; "
        f"the limit is {duration(context.lake.overdue)}"
    )


def _endings(context: AlertContext, runs: Sequence[Row], notices: Sequence[Row], made: int) -> list[Row]:
    """Write and return notices that end incidents in which nothing is open any more that their routes select.

    Nobody resolved these discrepancies: a person accepted them, or the lake file leaves them out now.
    """
    published = _published(runs)
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


def _reminders(context: AlertContext, runs: Sequence[Row], notices: Sequence[Row], made: int) -> list[Row]:
    """Write and return reminders of discrepancies that stay open, under the last published run."""
    published = _published(runs)
    if not published or all(route.repeat is None for route in context.lake.alerts):
        return []
    last = last_of_tables(notices)
    times = {subject: row["made_at"] for subject, row in last.items()}
    added = {row["receiver"]: row["made_at"] for row in reversed(notices)}
    opened = open_now(context.results, context.now)
    due = due_reminders(opened, context.lake.alerts, times, added, context.now)
    due = [*dict.fromkeys([*due, *_with_new_owner(context, last, opened)])]
    if not due:
        return []
    notices_due = reminders(due, still_open(context.results, context.now), context.lake.alerts)
    return _add(context, rows_of(context, published[-1]["run_id"], notices_due, notices, made))


def _with_new_owner(
    context: AlertContext, last: Mapping[Subject, Row], opened: Collection[str | None]
) -> list[Subject]:
    """Return the tables whose owner is a label of alerts and has changed since their last notice."""
    managers = {route.receiver for route in context.lake.alerts if isinstance(route, AlertmanagerAlert)}
    return [
        (receiver, table) for (receiver, table), row in last.items()
        if receiver in managers and not row["over"] and table in opened
        and row.get("owner") != context.owner(table)
    ]  # fmt: skip


def _repeated_trouble(
    context: AlertContext, runs: Sequence[Row], notices: Sequence[Row], made: int
) -> list[Row]:
    """Write and return reminders that audits still do not work: Alertmanager forgets what is not repeated."""
    last = {row["receiver"]: row for row in notices if row["kind"] in OF_AUDIT}
    due = trouble_reminders(last, context.lake.alerts, context.now)
    if not due:
        return []
    ended = [run for run in runs if run["status"] in _FINAL]
    errors = [run["error"] for run in ended if run["status"] in ("failed", "suspect")]
    late = _overdue_words(context, runs)
    words = {each: late if each == OVERDUE else (errors[-1] or "" if errors else "") for each in TROUBLE}
    new = [Notice(receiver, None, kind, "open", words=words[kind]) for receiver, kind in due]
    run_id = ended[-1]["run_id"] if ended else ""
    part = f"{REPEAT} {context.now.isoformat()}"
    return _add(context, rows_of(context, run_id, new, notices, made, part))


def _add(context: AlertContext, rows: list[Row]) -> list[Row]:
    """Write and return rows beside those of other receivers and tables, which have the time of the last notice."""
    same = {"lake": context.lake.name, "notice_id": [row["notice_id"] for row in rows]}
    if rows:
        delta_writer.replace(context.results, "notices", _table(rows), same)
    return rows


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), NOTICES)
