"""Rounds: what is new becomes notices, and what is due is sent. Safe to be run again at any time.

A notice is written before it is sent, under the id of its run, so a round that is killed loses nothing; one that is
killed between sending and writing that down sends again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from lakeaudit.alerts import message_text
from lakeaudit.alerts.decide import (
    DUE,
    FAILED_TO_SEND,
    OVERDUE,
    SENT,
    Notice,
    decide,
    overdue,
    reminders,
    unheard_for_long,
)
from lakeaudit.alerts.deliver import CannotDeliver, Channel, Post, channel
from lakeaudit.alerts.run_summary import news_of
from lakeaudit.config import Alert, Lake
from lakeaudit.digests import digest
from lakeaudit.formatting import second
from lakeaudit.kinds import SEVERITIES
from lakeaudit.results import delta_writer
from lakeaudit.results.change_summary import open_now, still_open
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.runtime.aws import Clients

LATE = timedelta(days=3)
"""What a run found is news for so long; a route that is added later is not told of everything since the beginning."""

MOST_ATTEMPTS = 20

_FINAL = (*PUBLISHED, "failed")
_COLUMNS = ("status", "attempts", "error", "sent_at")


@dataclass(frozen=True)
class Round:
    """Messages sent, and why others could not be."""

    sent: int = 0
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Desk:
    """What a round needs: the lake, its results, the way out, and what time it is."""

    lake: Lake
    lake_file: str
    results: Results
    clients: Clients
    env: Mapping[str, str]
    now: datetime

    def routes(self, receiver: str) -> list[Alert]:
        """The routes that lead to a receiver."""
        return [route for route in self.lake.alerts if route.receiver == receiver]


def round_of(desk: Desk) -> Round:
    """Write what is new, send what is due.

    Raises:
        CannotAudit: the results cannot be read.
        CannotPublish: they cannot be written.
    """
    if not desk.lake.alerts:
        return Round()
    notices = desk.results.notices()
    made = _new(desk, notices)
    return _send(desk, [*(row for row in notices if _is_due(row)), *made])


def _new(desk: Desk, notices: Sequence[Row]) -> list[Row]:
    """Notices of finished runs that have none yet, written down."""
    before = {row["receiver"]: row["kind"] for row in notices if row["kind"].startswith("audit_")}
    runs, made = desk.results.runs(), list[Row]()
    for run in _untold(runs, {row["run_id"] for row in notices}):
        if run["status"] in _FINAL and run["finished_at"] > desk.now - LATE:
            found = decide(news_of(desk.results, run, desk.now), desk.lake.alerts, before)
            before |= {notice.receiver: notice.kind for notice in found if notice.kind.startswith("audit_")}
            made += _written(desk, run["run_id"], found, len(made))
    made += _late(desk, runs, before, len(made))
    return made + _again(desk, runs, [*notices, *made], len(made))


def _untold(runs: Sequence[Row], told: set[str]) -> Sequence[Row]:
    """Runs after the last that people were told of: one before it without a notice had nothing to tell."""
    last = max((at for at, run in enumerate(runs) if run["run_id"] in told), default=-1)
    return runs[last + 1 :]


def _late(desk: Desk, runs: Sequence[Row], before: Mapping[str, str], made: int) -> list[Row]:
    """Told of the last published run: whatever is told of later ones is newer."""
    published = [run for run in runs if run["status"] in PUBLISHED]
    if not published or published[-1]["finished_at"] > desk.now - desk.lake.overdue:
        return []
    since = f"the last one was published {second(published[-1]['finished_at'])}"
    receivers = list(dict.fromkeys(route.receiver for route in desk.lake.alerts))
    found = overdue(receivers, since, before)
    return _written(desk, published[-1]["run_id"], found, made, kind=OVERDUE)


def _again(desk: Desk, runs: Sequence[Row], notices: Sequence[Row], made: int) -> list[Row]:
    """Of what is open for long, written down as told of the last published run."""
    published = [run for run in runs if run["status"] in PUBLISHED]
    if not published or all(route.repeat is None for route in desk.lake.alerts):
        return []
    told: dict[tuple[str, str | None], datetime] = {}
    for row in notices:
        if not row["kind"].startswith("audit_"):
            about = (row["receiver"], row["table_name"])
            told[about] = max(row["made_at"], told.get(about, row["made_at"]))
    due = unheard_for_long(open_now(desk.results, desk.now), desk.lake.alerts, told, desk.now)
    if not due:
        return []
    found = reminders(due, still_open(desk.results, desk.now), desk.lake.alerts)
    rows = _rows(desk, published[-1]["run_id"], found, made)
    same = {"lake": desk.lake.name, "notice_id": [row["notice_id"] for row in rows]}
    if rows:  # those of other receivers and tables stay: they say when those were told
        delta_writer.replace(desk.results, "notices", _table(rows), same)
    return rows


def _written(desk: Desk, run_id: str, found: Sequence[Notice], made: int, **only: str) -> list[Row]:
    """Their rows, which replace what a round that was killed wrote of the same."""
    rows = _rows(desk, run_id, found, made)
    if rows:
        delta_writer.replace(
            desk.results, "notices", _table(rows), {"lake": desk.lake.name, "run_id": run_id, **only}
        )
    return rows


def _rows(desk: Desk, run_id: str, found: Sequence[Notice], made: int) -> list[Row]:
    """Each later than those `made` before it in this round: the order of notices is that of their runs."""
    later = [desk.now + timedelta(microseconds=made + at) for at in range(len(found))]
    return [_row(desk, run_id, notice, at) for notice, at in zip(found, later, strict=True)]


def _row(desk: Desk, run_id: str, notice: Notice, at: datetime) -> Row:
    fingerprint = notice.fingerprint(desk.lake.name)
    redact = any(route.redact for route in desk.routes(notice.receiver))
    return {
        "notice_id": digest(run_id, fingerprint, notice.kind),
        "lake": desk.lake.name,
        "run_id": run_id,
        "receiver": notice.receiver,
        "table_name": notice.table,
        "fingerprint": fingerprint,
        "kind": notice.kind,
        "transition": notice.transition,
        "severity": notice.severity,
        "discrepancies": sum(change.number for change in notice.changes),
        "over": notice.over,
        "message": message_text.text(
            notice, desk.lake_file, run_id, redact=redact, reach=desk.clients.endpoint
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


def _send(desk: Desk, due: Sequence[Row]) -> Round:
    """Each receiver by itself: one that fails hides no other."""
    if not due:
        return Round()
    sent, failures, lake = 0, list[str](), _lake_now(desk)
    by_receiver: dict[str, list[Row]] = {}
    for row in due:
        by_receiver.setdefault(row["receiver"], []).append(row)
    for receiver, rows in by_receiver.items():
        for error in _sent_to(desk, receiver, rows, lake):
            sent += error is None
            failures += [f"{receiver}: {error}"] if error else []
    return Round(sent, tuple(dict.fromkeys(failures)))


@dataclass(frozen=True)
class _LakeNow:
    """How the lake stands, beside what is told of single tables: in words, and by table and severity what is open."""

    words: str
    open: Mapping[str | None, Mapping[str, int]]


def _lake_now(desk: Desk) -> _LakeNow:
    run = desk.results.last_published()
    looked = {row["table_name"] for row in desk.results.coverage(run["run_id"])} if run else set()
    tables = [table.name for table in desk.lake.tables]
    held = open_now(desk.results.again(), desk.now)
    return _LakeNow(message_text.lake_now(held, sum(name in looked for name in tables), len(tables)), held)


def _sent_to(desk: Desk, receiver: str, rows: list[Row], lake: _LakeNow) -> list[str | None]:
    """Send a receiver's messages; of each, why it failed."""
    try:
        way = _channel(desk, receiver)
    except CannotDeliver as error:
        return [_noted(desk, rows, str(error))]
    return [_sent(desk, way, group, lake) for group in (_by_subject(rows) if way.per_table else [rows])]


def _channel(desk: Desk, receiver: str) -> Channel:
    routes = desk.routes(receiver)
    if not routes:
        raise CannotDeliver("no route of the lake file leads there any more")
    return channel(routes[0], desk.env, desk.clients)


def _by_subject(rows: list[Row]) -> list[list[Row]]:
    """What is about one thing together: for receivers that keep incidents."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["fingerprint"], []).append(row)
    return list(found.values())


def _sent(desk: Desk, way: Channel, rows: list[Row], lake: _LakeNow) -> str | None:
    try:
        way.send(_post(desk, rows, lake))
    except CannotDeliver as failed:
        return _noted(desk, rows, str(failed))
    return _noted(desk, rows, None)


def _noted(desk: Desk, rows: list[Row], error: str | None) -> str | None:
    """Write down how one message went; why it failed."""
    done = [
        {
            "notice_id": row["notice_id"],
            "lake": row["lake"],
            "status": FAILED_TO_SEND if error else SENT,
            "attempts": row["attempts"] + 1,
            "error": error,
            "sent_at": None if error else desk.now,
        }
        for row in rows
    ]
    same = "old.lake = new.lake AND old.notice_id = new.notice_id"
    delta_writer.update(desk.results, "notices", pa.Table.from_pylist(done, _DONE), same, _COLUMNS)
    return error


def _post(desk: Desk, rows: Sequence[Row], lake: _LakeNow) -> Post:
    """The worst first; of one thing the newest word counts, and comes before what could not be delivered earlier."""
    groups = sorted(_by_subject(list(rows)), key=lambda group: _rank(group[-1], lake.open))
    headlines = [group[-1]["message"].partition("\n")[0] for group in groups]
    worst = groups[0][-1]
    of_audit = worst["kind"].startswith("audit_")
    return Post(
        title=message_text.title(desk.lake.name, headlines),
        body=message_text.body([group[-1]["message"] for group in groups] + _overtaken(groups), lake.words),
        severity=worst["severity"],
        over=all(group[-1]["over"] for group in groups),
        key=worst["fingerprint"],
        labels={
            "lake": desk.lake.name,
            "table": "" if of_audit else worst["table_name"] or "",
            "about": "audit" if of_audit else "table",
        },
        at=desk.now,
    )


def _rank(row: Row, open_now: Mapping[str | None, Mapping[str, int]]) -> tuple[bool, int, int, int, str]:
    """Worst severity, most of it open in the table, most told, name."""
    return (
        row["over"],
        SEVERITIES.index(row["severity"]),
        -open_now.get(row["table_name"], {}).get(row["severity"], 0),
        -(row["discrepancies"] or 0),
        row["table_name"] or "",
    )


def _overtaken(groups: Sequence[Sequence[Row]]) -> list[str]:
    """What could not be delivered before something newer was to be told of the same; the newest first."""
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
_DONE = pa.schema([NOTICES_ROW.field(name) for name in ("notice_id", "lake", *_COLUMNS)])


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), NOTICES_ROW)
