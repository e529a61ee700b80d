"""Makes the messages of a round from stored notices, in the form that each channel takes. Pure.

A chat, a topic and a webhook get one message of all notices. A channel that keeps incidents gets one message for each
incident. An Alertmanager gets an alert for each table, kind and severity.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from lakeaudit.advice.command_lines import operand
from lakeaudit.alerts import message_text, storm_text, webhook
from lakeaudit.alerts.alertmanager_alerts import alerts_of
from lakeaudit.alerts.decide import BLIND, MASS_LOSS, OF_AUDIT, RECOVERED, STILL_OPEN, TROUBLE, any_concerns
from lakeaudit.alerts.incidents import STORM, last_of_tables
from lakeaudit.alerts.lake_now import LakeNow
from lakeaudit.alerts.open_in_all import critical_lines, open_in_all
from lakeaudit.formatting import duration, visible
from lakeaudit.json_documents import PostedAlert
from lakeaudit.kinds import COVERAGE_LOST, SEVERITIES
from lakeaudit.results.read import Row

STILL = "; still open: "
"""Before what is open when a storm ends."""

Form = Literal["text", "incidents", "json", "alerts"]
"""The form of a channel's messages: one text, a text for each incident, one JSON document, or alerts."""


@dataclass(frozen=True)
class Post:
    """One message.

    `key` identifies its incident and is the same in every run; `alerts` are those of Alertmanager. `rest` states where
    to read what a receiver has no room for.
    """

    title: str
    body: str
    severity: str
    over: bool
    key: str
    at: datetime
    alerts: tuple[PostedAlert, ...] = ()
    rest: str = ""


def post_in(form: Form, rows: Sequence[Row], now: LakeNow) -> Post:
    """Return the message of these notices in the form of a channel."""
    if form == "json":
        return webhook_post(rows, now)
    return alerts_post(rows, now) if form == "alerts" else text_post(rows, now)


def text_post(rows: Sequence[Row], now: LakeNow) -> Post:
    """Return one message of all notices for people."""
    groups = _groups(rows, now)
    title, sections = _texts(groups, now)
    rest = open_in_all(rows, now)
    title, sections = _with_rest(title, rest), _with_rest_first(sections, rest)
    in_trouble = any(group[-1]["kind"] in TROUBLE for group in groups)
    words = message_text.lake_known(now.by_severity) if in_trouble and now.is_open_known else now.words
    audit = f"Audit {visible(rows[-1]['run_id'])}" if rows[-1]["run_id"] else ""
    criticals = critical_lines(now.criticals) if rest else []
    closing = (words, *criticals, *_lake(now), _repetition(rows, now), audit, now.footer)
    body = message_text.body(sections, "\n".join(filter(None, closing)))
    return _post(title, body, rows, groups, now)


def _with_rest(line: str, rest: str) -> str:
    """Return a title with what is open in all; a title that states what is still open has it already."""
    return line if not rest or STILL in line else f"{line}; {rest}"


def _with_rest_first(sections: Sequence[str], rest: str) -> list[str]:
    """Return the sections, with what is open in all in the first line of the first one."""
    first, *others = sections
    headline, newline, text = first.partition("\n")
    return [f"{_with_rest(headline, rest)}{newline}{text}", *others]


def _lake(now: LakeNow) -> list[str]:
    """Return the page of the lake, and the command that lists what is open; empty if nothing is open."""
    if not any(message_text.total_by_severity(now.by_severity).values()):
        return []
    page = [f"The lake: {now.page}"] if now.page else []
    return [*page, f"List all: lakeaudit discrepancies {operand(now.lake_file)}"]


def _repetition(rows: Sequence[Row], now: LakeNow) -> str:
    """Return whether the message is a reminder, and when the next one follows; empty if nothing is left to repeat."""
    lasting = [row for row in rows if not row["over"] and row["kind"] != RECOVERED]
    routes = now.routes.get(rows[0]["receiver"], ())
    if not lasting or not routes or not now.is_open_known:
        return ""
    repeat = min((route.repeat for route in routes if route.repeat is not None), default=None)
    if repeat is None:
        return "This is not reported again unless it changes"
    is_reminder = all(row["transition"] == "open" for row in lasting)
    first = "This is a reminder: " if is_reminder else ""
    return f"{first}{'it' if first else 'This'} is reported every {duration(repeat)} until it is over"


def webhook_post(rows: Sequence[Row], now: LakeNow) -> Post:
    """Return one JSON document of all notices for a program."""
    groups = _groups(rows, now)
    title = _with_rest(_texts(groups, now)[0], open_in_all(rows, now))
    document = webhook.document(now.lake, title, groups, now.by_severity, now.at, now.footer)
    return _post(title, document, rows, groups, now)


def alerts_post(rows: Sequence[Row], now: LakeNow) -> Post:
    """Return the alerts of Alertmanager, whose labels are the same in every run."""
    groups = _groups(rows, now)
    post = _post(_texts(groups, now)[0], "", rows, groups, now)
    earlier = _by_subject(now.earlier)
    alerts = [alert for group in groups for alert in alerts_of(group[-1], earlier[_subject(group[-1])], now)]
    return replace(post, alerts=tuple(alerts))


def _post(title: str, body: str, rows: Sequence[Row], groups: Sequence[Sequence[Row]], now: LakeNow) -> Post:
    worst = groups[0][-1]
    rest = now.page or f"lakeaudit discrepancies {operand(now.lake_file)}"
    over = _is_over(rows, now)
    return Post(title, body, worst["severity"], over, worst["fingerprint"], now.at, rest=rest)


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
    kinds = storm_text.groups_of(stored) if _is_storm(tables) and len(stored) == len(tables) else []
    if not kinds:
        headlines = [_headline(group) for group in groups]
        return message_text.title(now.lake, headlines), [*(row["message"] for row in newest), *late]
    blind = sum(any(kind == COVERAGE_LOST for kind, _ in open_) for open_ in now.open.values())
    storm = f"{_first_words(tables)}{storm_text.headline(kinds, blind)}"
    if kinds[0].over and (still_open := message_text.open_words(now.by_severity)):
        storm += f"{STILL}{still_open}"
    first = next((_headline(group) for group in groups if group[-1]["kind"] in OF_AUDIT), "")
    title = message_text.title(now.lake, [f"{first}; {storm}" if first else storm])
    losses = [
        f"Mass loss in {message_text.tame_name(row['table_name'] or '')}: {message_text.tame(content['reason'] or '')}"
        for row, content in stored if row["kind"] == MASS_LOSS
    ]  # fmt: skip
    sections = storm_text.sections(kinds, now.lake_file, now.page)
    return title, [*of_audit, *(["\n".join(losses[:STORM])] if losses else []), *sections, *late]


def _is_storm(rows: Sequence[Row]) -> bool:
    """Return whether the message is about kinds and causes: of many tables, or of several that a source made blind."""
    of_tables = [row for row in rows if row["table_name"] is not None]
    return len(of_tables) > STORM or (len(of_tables) > 1 and all(row["kind"] == BLIND for row in of_tables))


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
