"""Words notices as one JSON document for programs. docs/alerts.md describes version 1 of its fields.

A section is the JSON of one notice. It is stored below the headline in the notice's message, so that a message that was
not delivered is sent later as it was.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from lakeaudit.alerts.decide import Notice
from lakeaudit.alerts.message_text import MOST_SECTIONS, Reach, command, headline, next_steps
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


def section(notice: Notice, lake_file: str, run_id: str, *, redact: bool, reach: Reach | None = None) -> str:
    """Return the headline, and on the next line the JSON of a notice."""
    ranked = sorted(
        notice.changes, key=lambda each: (each.resolution is not None, SEVERITIES.index(each.severity))
    )
    content: WebhookContent = {
        "kind": notice.kind,
        "run_id": run_id,
        "severity": notice.severity,
        "table": notice.table,
        "resolved": notice.over,
        "headline": headline(notice),
        "reason": notice.words or None,
        "changes": [
            _change(change, lake_file, run_id, reach, redact=redact) for change in ranked[:MOST_CHANGES]
        ],
        "more_changes": len(ranked[MOST_CHANGES:]),
    }
    return f"{headline(notice)}\n{json.dumps(content)}"


def _change(
    change: Change, lake_file: str, run_id: str, reach: Reach | None, *, redact: bool
) -> WebhookChange:
    over = change.transition == "resolved"
    steps = dict(() if over else next_steps(change, lake_file, reach, redact=redact))
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
        "cause": change.cause,
        "partitions": [] if redact else list(change.partitions),
        "more_partitions": change.more_partitions + (len(change.partitions) if redact else 0),
        "advice": steps.pop("do", None),
        "commands": {
            "show": None if over else command(change, lake_file, run_id, redact=redact),
            "repair": steps.pop("repair", None),
            "recover": next(iter(steps.values()), None),
        },
    }


def document(
    lake: str,
    title: str,
    groups: Sequence[Sequence[Row]],
    open_now: Mapping[str | None, Mapping[str, int]],
    now: datetime,
) -> str:
    """Return the document of notices; `groups` has those of each subject, oldest first."""
    newest = [_notice(group[-1], late=False) for group in groups]
    late = [_notice(row, late=True) for group in groups for row in reversed(group[:-1])]
    notices = [*newest, *late]
    content: WebhookMessage = {
        "version": VERSION,
        "id": digest(*(row["notice_id"] for group in groups for row in group)),
        "lake": lake,
        "sent_at": iso(now),
        "severity": groups[0][-1]["severity"],
        "title": title,
        "open": {name: sum(counts.get(name, 0) for counts in open_now.values()) for name in SEVERITIES},
        "notices": notices[:MOST_SECTIONS],
        "more_notices": len(notices[MOST_SECTIONS:]),
    }
    while len(text := json.dumps(content)) > LARGEST:
        content["notices"].pop()
        content["more_notices"] += 1
    return text


def _notice(row: Row, *, late: bool) -> WebhookNotice:
    content: WebhookContent = json.loads(row["message"].partition("\n")[2])
    return {"id": row["notice_id"], "late": late, **content}
