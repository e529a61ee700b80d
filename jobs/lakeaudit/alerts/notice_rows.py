"""Makes the rows of the result table `notices`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from json import dumps

from lakeaudit.alerts import message_text, webhook
from lakeaudit.alerts.decide import BOOKKEEPING, DUE, TEST, Notice
from lakeaudit.alerts.incidents import fingerprints
from lakeaudit.alerts.message_text import Wording
from lakeaudit.alerts.redaction import redacted
from lakeaudit.config import Alert, Lake
from lakeaudit.keys import digest
from lakeaudit.results.read import Results, Row
from lakeaudit.runtime.connections.aws import Clients

OUTCOME_COLUMNS = ("status", "attempts", "error", "sent_at")
"""Columns that change when a notice is sent."""


@dataclass(frozen=True)
class AlertContext:
    """Everything that a round needs: the lake, its results, clients, environment, and the time.

    `footer` is the last line of a text; it states where the commands of the message can be run.
    """

    lake: Lake
    lake_file: str
    results: Results
    clients: Clients
    env: Mapping[str, str]
    now: datetime
    footer: str = ""

    def routes(self, receiver: str) -> list[Alert]:
        """Return the routes to a receiver."""
        return [route for route in self.lake.alerts if route.receiver == receiver]

    def owner(self, table: str | None) -> str | None:
        """Return the owner of a table; that of a discovered table is on record, where this lake has none."""
        if table is None:
            return None
        own = self.lake.owner_of(table)
        if own or not self.lake.finds_tables or any(each.name == table for each in self.lake.tables):
            return own
        return self._recorded_owners.get(table)

    @cached_property
    def _recorded_owners(self) -> Mapping[str, str | None]:
        return {row["table_name"]: row["owner"] for row in self.results.tables()}


def rows_of(
    context: AlertContext,
    run_id: str,
    notices: Sequence[Notice],
    earlier: Iterable[Row],
    made: int,
    part_of_id: str = "",
) -> list[Row]:
    """Return the rows of a run's notices, with times after the `made` rows before them in this round.

    `earlier` are all rows that were made before: a table keeps its open incident.
    """
    owned = [
        replace(notice, owner=context.lake.owner_of(notice.table or ""))
        if notice.kind == TEST  # an example reads no results
        else replace(notice, owner=context.owner(notice.table))
        for notice in notices
    ]
    keys = fingerprints(context.lake.name, run_id, owned, earlier)
    return [
        _row(context, run_id, notice, key, context.now + timedelta(microseconds=made + at), part_of_id)
        for at, (notice, key) in enumerate(zip(owned, keys, strict=True))
    ]


def _row(
    context: AlertContext, run_id: str, notice: Notice, fingerprint: str, at: datetime, part_of_id: str
) -> Row:
    redact = any(route.redact for route in context.routes(notice.receiver))
    notice = redacted(notice, keys=redact)
    reach, dashboard = context.clients.endpoint, context.lake.dashboard_url
    wording = Wording(context.lake_file, run_id, redact, reach, dashboard, context.lake.name)
    about = notice.fingerprint(context.lake.name)
    return {
        "notice_id": digest(run_id, about, notice.kind, *filter(None, [part_of_id])),
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
        "message": "" if notice.kind in BOOKKEEPING else message_text.text(notice, wording),
        "status": DUE,
        "attempts": 0,
        "error": None,
        "made_at": at,
        "sent_at": None,
        "owner": notice.owner,
        "content": None if notice.kind in BOOKKEEPING else dumps(webhook.content(notice, wording)),
    }
