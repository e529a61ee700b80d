"""Makes the alerts of Alertmanager: one for each table, kind and severity, each with a text of its own. Pure.

Alertmanager identifies an alert by its labels. An alert whose labels no longer hold is ended, also if the owner of the
table has changed: otherwise it would go on for a week.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from lakeaudit.alerts import webhook
from lakeaudit.alerts.decide import OF_AUDIT, RECOVERED, TEST, any_concerns
from lakeaudit.alerts.lake_now import LakeNow
from lakeaudit.alerts.message_text import tame_name
from lakeaudit.alerts.storm_text import change_text
from lakeaudit.formatting import visible
from lakeaudit.json_documents import PostedAlert, WebhookChange
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.results.read import Row

HOLDS_FOR = timedelta(days=7)
"""Shortest time that Alertmanager shows an alert without an update: audits send only changes."""

TEST_HOLDS_FOR = timedelta(minutes=5)
"""Time that Alertmanager shows an example: long enough for its `group_wait`."""


class _Labels(NamedTuple):
    """What distinguishes the alerts of one table, or of the audit."""

    kind: str
    severity: str
    owner: str | None


def alerts_of(row: Row, same: Sequence[Row], now: LakeNow) -> Iterator[PostedAlert]:
    """Yield the alerts of one table, or of the audit: those that hold now, and those that held before and ended.

    Args:
        row: the newest notice.
        same: all notices of this receiver about the same table, or about the audit, oldest first.
        now: what is open in the lake.
    """
    holding = _holding(row, now)
    routes = now.routes.get(row["receiver"], ())
    repeats = [2 * route.repeat for route in routes if route.repeat]
    holds_for = TEST_HOLDS_FOR if row["kind"] == TEST else max([HOLDS_FOR, *repeats])
    for labels, number in holding.items():
        yield _alert(row, same, labels, number, now, now.at + holds_for)
    for labels in sorted(_reported(same) - holding.keys(), key=str):
        yield _alert(row, same, labels, 0, now, now.at)


def _holding(row: Row, now: LakeNow) -> Mapping[_Labels, int]:
    """Return the alerts that hold now, with their numbers of discrepancies."""
    owner = row.get("owner")
    if row["kind"] in OF_AUDIT:
        return {} if row["kind"] == RECOVERED else {_Labels(row["kind"], row["severity"], owner): 1}
    routes, table = now.routes.get(row["receiver"], ()), row["table_name"]
    return {
        _Labels(kind, severity, owner): number
        for (kind, severity), number in now.open.get(table, {}).items()
        if any_concerns(routes, table, {severity: number})
    }


def _reported(same: Iterable[Row]) -> set[_Labels]:
    """Return the labels of all alerts about a table, or about the audit."""
    return {
        _Labels(kind, severity, row.get("owner"))
        for row in same if row["kind"] != RECOVERED
        for kind, severity in ([(row["kind"], row["severity"])] if row["kind"] in OF_AUDIT else _kinds(row))
    }  # fmt: skip


def _kinds(row: Row) -> set[tuple[str, str]]:
    content = webhook.stored_content(row)
    return {(each["kind"], each["severity"]) for each in content["changes"]} if content else set()


def _alert(
    row: Row, same: Sequence[Row], of: _Labels, number: int, now: LakeNow, ends: datetime
) -> PostedAlert:
    table = row["table_name"]
    labels = {"alertname": "lakeaudit", "lake": now.lake, "kind": of.kind, "severity": of.severity}
    about = {"table": table, "owner": of.owner}
    labels |= {name: visible(value) for name, value in about.items() if value}
    labels["about"] = "audit" if row["kind"] in OF_AUDIT else "table" if table else "source"
    where = f" in {tame_name(table)}" if table else ""
    named = row["message"].partition("\n")[0]
    is_whole = row["kind"] in (*OF_AUDIT, TEST)
    summary = named if is_whole else f"{counted_kind(of.kind, number)}{where}"
    description = row["message"] if is_whole else _description(row, same, of, is_over=not number)
    if now.footer and now.lake_file in description:
        description += f"\n{now.footer}"
    alert: PostedAlert = {
        "labels": labels,
        "annotations": {"summary": f"lakeaudit {now.lake}: {summary}", "description": description},
        "startsAt": now.at.isoformat(),
        "endsAt": ends.isoformat(),
    }
    content = webhook.stored_content(row)
    if content is not None and content["page"]:
        alert["generatorURL"] = content["page"]
    return alert


def _description(row: Row, same: Sequence[Row], of: _Labels, *, is_over: bool) -> str:
    """Return the text of the newest change of this kind and severity, which an earlier message may have reported."""
    for each in reversed(same):
        for change in _changes(each):
            if (change["kind"], change["severity"]) == (of.kind, of.severity) and (
                (change["transition"] == "resolved") == is_over
            ):
                return change_text(change, row["table_name"], of.owner)
    return str(row["message"])


def _changes(row: Row) -> Sequence[WebhookChange]:
    content = webhook.stored_content(row)
    return content["changes"] if content else ()
