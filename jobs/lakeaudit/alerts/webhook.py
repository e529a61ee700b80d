"""Words notices as one JSON document for programs. docs/alerts.md describes version 1 of its fields.

The JSON of a notice is stored with it, so that a message that was not delivered is sent later as it was.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from lakeaudit.alerts.decide import Notice
from lakeaudit.alerts.message_text import (
    ASK,
    MOST_SECTIONS,
    Wording,
    command,
    headline,
    next_steps,
    total_by_severity,
)
from lakeaudit.formatting import iso, iso_or_null
from lakeaudit.json_documents import WebhookChange, WebhookContent, WebhookMessage, WebhookNotice
from lakeaudit.keys import digest
from lakeaudit.kinds import SEVERITIES
from lakeaudit.results.read import Row
from lakeaudit.results.summaries.change_summary import Change

VERSION = 1
MOST_CHANGES = 20
"""Number of changes in one notice; the others are counted."""
LARGEST = 1 << 18
"""The most bytes of a document; notices that do not fit are counted."""


def content(notice: Notice, wording: Wording) -> WebhookContent:
    """Return the JSON of a notice."""
    ranked = sorted(
        notice.changes, key=lambda each: (each.resolution is not None, SEVERITIES.index(each.severity))
    )
    return {
        "kind": notice.kind,
        "run_id": wording.run_id,
        "severity": notice.severity,
        "table": notice.table,
        "owner": notice.owner,
        "page": wording.page(notice),
        "resolved": notice.over,
        "headline": headline(notice),
        "reason": notice.words or None,
        "changes": [_change(change, wording) for change in ranked[:MOST_CHANGES]],
        "more_changes": len(ranked[MOST_CHANGES:]),
    }


def stored_content(row: Row) -> WebhookContent | None:
    """Return the JSON of a stored notice; None: an earlier version wrote it for another receiver than a webhook."""
    text = row.get("content") or row["message"].partition("\n")[2]
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or "changes" not in found:
        return None
    known: WebhookContent = {"owner": None, "page": None, **found}  # type: ignore[typeddict-item]
    return known


def _change(change: Change, wording: Wording) -> WebhookChange:
    over, redact = change.transition == "resolved", wording.redact
    steps = dict(() if over else next_steps(change, wording))
    return {
        "transition": change.transition,
        "kind": change.kind,
        "severity": change.severity,
        "discrepancies": change.number,
        "discrepancy_ids": list(change.ids),
        "resolution": change.resolution,
        "files": change.files,
        "rows": change.rows,
        "bytes": change.bytes,
        "recoverable": dict(change.recoverable),
        "recoverable_until": iso_or_null(change.until),
        "since": iso_or_null(change.since),
        "since_newest": iso_or_null(change.since_newest),
        "cause": change.cause,
        "causes": dict(change.by_cause),
        "needs_allow": change.recovery.needs_allow,
        "explanation": change.explanation,
        "partitions": [] if redact else list(change.partitions),
        "more_partitions": change.more_partitions + (len(change.partitions) if redact else 0),
        "advice": steps.pop("do", None),
        "question": steps.get(ASK),
        "commands": {
            "show": None if over else command(change, wording),
            "repair": steps.pop("repair", None),
            "recover": next((step for label, step in steps.items() if label != ASK), None),
        },
    }


def document(
    lake: str,
    title: str,
    groups: Sequence[Sequence[Row]],
    open_now: Mapping[str | None, Mapping[str, int]],
    now: datetime,
    place: str = "",
) -> str:
    """Return the document of notices.

    `groups` has the notices of each subject, oldest first; `place` states where the commands can be run.
    """
    newest = [_notice(group[-1], late=False) for group in groups]
    late = [_notice(row, late=True) for group in groups for row in reversed(group[:-1])]
    notices = [*newest, *late]
    message: WebhookMessage = {
        "version": VERSION,
        "id": digest(*(row["notice_id"] for group in groups for row in group)),
        "lake": lake,
        "sent_at": iso(now),
        "severity": groups[0][-1]["severity"],
        "title": title,
        "open": total_by_severity(open_now),
        "commands_place": place or None,
        "notices": notices[:MOST_SECTIONS],
        "more_notices": len(notices[MOST_SECTIONS:]),
    }
    while len(text := json.dumps(message)) > LARGEST and message["notices"]:
        message["notices"].pop()
        message["more_notices"] += 1
    return text


def _notice(row: Row, *, late: bool) -> WebhookNotice:
    found = stored_content(row)
    if found is None:  # an earlier version stored its text alone
        found = {
            "kind": row["kind"], "run_id": row["run_id"], "severity": row["severity"], "table": row["table_name"],
            "owner": None, "page": None, "resolved": row["over"], "headline": row["message"].partition("\n")[0],
            "reason": None, "changes": [], "more_changes": 0,
        }  # fmt: skip
    return {"id": row["notice_id"], "late": late, **found}
