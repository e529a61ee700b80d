"""Makes the messages of a round from stored notices, in the form that each channel takes. Pure.

A chat, a topic and a webhook get one message of all notices. A channel that keeps incidents gets one message for each
incident. An Alertmanager gets an alert for each table, kind and severity.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

from lakeaudit.alerts import message_text, storm_text, webhook
from lakeaudit.alerts.decide import MASS_LOSS, OF_AUDIT, RECOVERED, STILL_OPEN, TEST, TROUBLE, any_concerns
from lakeaudit.alerts.incidents import STORM, last_of_tables
from lakeaudit.config import Alert
from lakeaudit.formatting import count, visible
from lakeaudit.json_documents import PostedAlert, WebhookContent
from lakeaudit.kinds import COVERAGE_LOST, SEVERITIES
from lakeaudit.results.read import Row
from lakeaudit.results.summaries.change_summary import KindsOpen, by_severity

Form = Literal["text", "incidents", "json", "alerts"]
"""The form of a channel's messages: one text, a text for each incident, one JSON document, or alerts."""

HOLDS_FOR = timedelta(days=7)
"""Shortest time that Alertmanager shows an alert without an update: audits send only changes."""

TEST_HOLDS_FOR = timedelta(minutes=5)
"""Time that Alertmanager shows an example: long enough for its `group_wait`."""


@dataclass(frozen=True)
class Post:
    """One message. `key` identifies its incident and is the same in every run; `alerts` are those of Alertmanager."""

    title: str
    body: str
    severity: str
    over: bool
    key: str
    at: datetime
    alerts: tuple[PostedAlert, ...] = ()


@dataclass(frozen=True)
class LakeNow:
    """What all messages of a round share.

    Attributes:
        lake: name of the lake.
        lake_file: its lake file, as commands name it.
        words: open discrepancies of the whole lake, and the scope of the last audit.
        open: open discrepancies by table, kind and severity.
        earlier: all notices on record, oldest first, with those of this round.
        at: the time of the round.
        footer: the last line of texts: where the commands can be run.
        dashboard: the address of the dashboard; None: there is none.
    """

    lake: str
    lake_file: str
    words: str
    open: KindsOpen
    earlier: Sequence[Row]
    at: datetime
    footer: str = ""
    dashboard: str | None = None
    routes: Mapping[str, Sequence[Alert]] = field(default_factory=dict)
    """The routes of each receiver."""

    @cached_property
    def by_severity(self) -> Mapping[str | None, Mapping[str, int]]:
        """Return the number of open discrepancies by table and severity."""
        return by_severity(self.open)


def post_in(form: Form, rows: Sequence[Row], now: LakeNow) -> Post:
    """Return the message of these notices in the form of a channel."""
    if form == "json":
        return webhook_post(rows, now)
    return alerts_post(rows, now) if form == "alerts" else text_post(rows, now)


def text_post(rows: Sequence[Row], now: LakeNow) -> Post:
    """Return one message of all notices for people."""
    groups = _groups(rows, now)
    title, sections = _texts(groups, now)
    in_trouble = any(group[-1]["kind"] in TROUBLE for group in groups)
    words = message_text.lake_known(now.by_severity) if in_trouble else now.words
    audit = f"Audit {visible(rows[-1]['run_id'])}" if rows[-1]["run_id"] else ""
    body = message_text.body(sections, "\n".join(filter(None, (words, audit, now.footer))))
    return _post(title, body, rows, groups, now)


def webhook_post(rows: Sequence[Row], now: LakeNow) -> Post:
    """Return one JSON document of all notices for a program."""
    groups = _groups(rows, now)
    title, _ = _texts(groups, now)
    document = webhook.document(now.lake, title, groups, now.by_severity, now.at)
    return _post(title, document, rows, groups, now)


def alerts_post(rows: Sequence[Row], now: LakeNow) -> Post:
    """Return the alerts of Alertmanager, whose labels are the same in every run."""
    groups = _groups(rows, now)
    post = _post(_texts(groups, now)[0], "", rows, groups, now)
    earlier = _by_subject(now.earlier)
    alerts = [alert for group in groups for alert in _alerts(group[-1], earlier[_subject(group[-1])], now)]
    return replace(post, alerts=tuple(alerts))


def _post(title: str, body: str, rows: Sequence[Row], groups: Sequence[Sequence[Row]], now: LakeNow) -> Post:
    worst = groups[0][-1]
    return Post(title, body, worst["severity"], _is_over(rows, now), worst["fingerprint"], now.at)


def _is_over(rows: Sequence[Row], now: LakeNow) -> bool:
    """Return whether nothing is open in any table of these incidents, also in those that the message does not name."""
    keys = {row["fingerprint"] for row in rows}
    of_tables = [about for about, row in last_of_tables(now.earlier).items() if row["fingerprint"] in keys]
    opened = now.by_severity
    if any(any_concerns(now.routes.get(to, ()), table, opened.get(table, {})) for to, table in of_tables):
        return False
    return all(
        row["over"] for row in {row["fingerprint"]: row for row in rows if row["kind"] in OF_AUDIT}.values()
    )


def _groups(rows: Iterable[Row], now: LakeNow) -> list[list[Row]]:
    """Return the notices of each table, oldest first; the worst table comes first."""
    return sorted(_by_subject(rows).values(), key=lambda group: _rank(group[-1], now))


def _rank(row: Row, now: LakeNow) -> tuple[bool, int, int, int, str]:
    """Return the sort key: worst severity, most of it open in the table, most discrepancies, name."""
    return (
        row["over"],
        SEVERITIES.index(row["severity"]),
        -now.by_severity.get(row["table_name"], {}).get(row["severity"], 0),
        -(row["discrepancies"] or 0),
        row["table_name"] or "",
    )


def _texts(groups: Sequence[Sequence[Row]], now: LakeNow) -> tuple[str, list[str]]:
    """Return the title, and the sections of the body: one for each table, or for each kind and cause of many tables."""
    late = [message_text.late(row["message"]) for group in groups for row in reversed(group[:-1])]
    newest = [group[-1] for group in groups]
    of_audit = [row["message"] for row in newest if row["kind"] in OF_AUDIT]
    tables = [row for row in newest if row["kind"] not in OF_AUDIT]
    stored = [(row, content) for row in tables if (content := webhook.stored_content(row)) is not None]
    many = sum(row["table_name"] is not None for row in tables) > STORM
    kinds = storm_text.groups_of(stored) if many and len(stored) == len(tables) else []
    if not kinds:
        headlines = [_headline(group) for group in groups]
        return message_text.title(now.lake, headlines), [*(row["message"] for row in newest), *late]
    blind = sum(any(kind == COVERAGE_LOST for kind, _ in open_) for open_ in now.open.values())
    storm = f"{_first_words(tables)}{storm_text.headline(kinds, blind)}"
    if kinds[0].over and (still_open := message_text.open_words(now.by_severity)):
        storm += f"; still open: {still_open}"
    first = next((_headline(group) for group in groups if group[-1]["kind"] in OF_AUDIT), "")
    title = message_text.title(now.lake, [f"{first}; {storm}" if first else storm])
    losses = [
        f"Mass loss in {message_text.tame(row['table_name'] or '')}: {message_text.tame(content['reason'] or '')}"
        for row, content in stored if row["kind"] == MASS_LOSS
    ]  # fmt: skip
    sections = storm_text.sections(kinds, now.lake_file, now.dashboard)
    return title, [*of_audit, *(["\n".join(losses[:STORM])] if losses else []), *sections, *late]


def _headline(group: Sequence[Row]) -> str:
    """Return the headline of the newest notice; the end of trouble that nobody knows of yet names the trouble."""
    line, *older = [_first_line(row) for row in reversed(group)]
    is_end = group[-1]["kind"] == RECOVERED and len(group) > 1 and group[-2]["kind"] in TROUBLE
    return f"{line}; not reported until now: {older[0]}" if is_end else line


def _first_line(row: Row) -> str:
    line: str = row["message"].partition("\n")[0]
    return line


def _first_words(rows: Sequence[Row]) -> str:
    """Return the beginning of the title of a storm."""
    if any(row["kind"] == MASS_LOSS for row in rows):
        return "MASS LOSS: "
    return "STILL OPEN: " if all(row["kind"] == STILL_OPEN for row in rows) else ""


def _by_subject(rows: Iterable[Row]) -> dict[tuple[str, bool, str | None], list[Row]]:
    groups: dict[tuple[str, bool, str | None], list[Row]] = {}
    for row in rows:
        groups.setdefault(_subject(row), []).append(row)
    return groups


def _subject(row: Row) -> tuple[str, bool, str | None]:
    """Return receiver and table of a notice; or that it is about the audit itself."""
    return row["receiver"], row["kind"] in OF_AUDIT, row["table_name"]


def _alerts(row: Row, same: Sequence[Row], now: LakeNow) -> Iterator[PostedAlert]:
    """Yield the alerts of one table, or of the audit: those that hold now, and those that held before and ended.

    `same` are all notices of this receiver about the same table, or about the audit.
    """
    content = webhook.stored_content(row)
    if row["kind"] in OF_AUDIT:
        holding = {} if row["kind"] == RECOVERED else {(row["kind"], row["severity"]): 1}
    else:
        routes = now.routes.get(row["receiver"], ())
        holding = {
            each: number for each, number in now.open.get(row["table_name"], {}).items()
            if any_concerns(routes, row["table_name"], {each[1]: number})
        }  # fmt: skip
    repeats = [2 * route.repeat for route in now.routes.get(row["receiver"], ()) if route.repeat]
    holds_for = TEST_HOLDS_FOR if row["kind"] == TEST else max([HOLDS_FOR, *repeats])
    for (kind, severity), number in holding.items():
        yield _alert(row, content, kind, severity, number, now, now.at + holds_for)
    for kind, severity in _reported(same) - holding.keys():
        yield _alert(row, content, kind, severity, 0, now, now.at)


def _reported(same: Sequence[Row]) -> set[tuple[str, str]]:
    """Return the kinds and severities of all alerts about a table, or about the audit."""
    if same[-1]["kind"] in OF_AUDIT:
        return {(each["kind"], each["severity"]) for each in same if each["kind"] != RECOVERED}
    contents = [content for each in same if (content := webhook.stored_content(each)) is not None]
    return {(change["kind"], change["severity"]) for content in contents for change in content["changes"]}


def _alert(
    row: Row,
    content: WebhookContent | None,
    kind: str,
    severity: str,
    number: int,
    now: LakeNow,
    ends: datetime,
) -> PostedAlert:
    labels = {"alertname": "lakeaudit", "lake": now.lake, "kind": kind, "severity": severity}
    about = {"table": row["table_name"], "owner": row.get("owner")}
    labels |= {name: visible(value) for name, value in about.items() if value}
    labels["about"] = "audit" if row["kind"] in OF_AUDIT else "table" if row["table_name"] else "source"
    where = f" in {visible(row['table_name'])}" if row["table_name"] else ""
    named = row["message"].partition("\n")[0]
    summary = (
        named if row["kind"] in (*OF_AUDIT, TEST) else f"{count(number)} {kind.replace('_', ' ')}{where}"
    )
    alert: PostedAlert = {
        "labels": labels,
        "annotations": {"summary": f"lakeaudit {now.lake}: {summary}", "description": row["message"]},
        "startsAt": now.at.isoformat(),
        "endsAt": ends.isoformat(),
    }
    if content is not None and content["page"]:
        alert["generatorURL"] = content["page"]
    return alert
