"""Fits a message to a receiver: its limits of length, and the characters that it reads as markup. Pure.

Apprise escapes markup for receivers that only take Markdown or HTML, and sends a text of any length, which many
receivers then refuse. Other receivers read Markdown in a plain text, and Apprise leaves that to its callers.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from html import escape as html_escape

from lakeaudit.errors import one_line
from lakeaudit.formatting import number

Size = Callable[[str], int]
"""Returns the length of a text in the unit of a receiver's limit."""

_MARKDOWN = re.compile(r"[\\`*_~|\[\]()#>]")
_SIGN = re.compile(r"[^\w\s]")
_PAGE = re.compile(r"\s*page: https?://\S+")
"""A line with the address of a page of the dashboard, in which names are percent-encoded."""


def escaped_markdown(text: str) -> str:
    """Return the text in which Markdown shows every character as it is; addresses of pages stay links."""
    return "\n".join(
        line if _PAGE.fullmatch(line) else _MARKDOWN.sub(r"\\\g<0>", line) for line in text.split("\n")
    )


def _in_markdown(text: str) -> int:
    return len(escaped_markdown(text))


def _in_html(text: str) -> int:
    return len(html_escape(text, quote=False))


def _in_commonmark(text: str) -> int:
    """Return the length of a text whose markup Apprise escapes, also dots and other signs; it indents lines, too."""
    return len(_SIGN.sub(r"\\\g<0>", html_escape(text))) + 4 * (text.count("\n") + 1)


def _in_card(text: str) -> int:
    """Return the bytes in JSON of such a text."""
    return len(json.dumps(_SIGN.sub(r"\\\g<0>", text)))


@dataclass(frozen=True)
class ReceiverText:
    """The texts that a receiver takes.

    Attributes:
        body: the longest body; None: any.
        title: the longest title; 0: Apprise puts the title before the body.
        size: how lengths are counted.
        reads_markdown: whether the receiver reads Markdown in a plain text that Apprise does not escape.
        title_in_markdown: the same for the title.
        merges: whether the limit of the body includes the title.
    """

    body: int | None = None
    title: int | None = None
    size: Size = len
    reads_markdown: bool = False
    title_in_markdown: bool = False
    merges: bool = False

    def fit(self, title: str, body: str, rest: str) -> tuple[str, str]:
        """Return title and body, with whole lines left out at the end.

        Args:
            title: the title, one line.
            body: lines.
            rest: where to read the lines that are left out.
        """
        room, most = self.body, self.title
        if room is not None and (self.merges or self.title == 0):
            most = room // 2 if not self.title else min(room // 2, self.title)
        title = _shortened(title, most or None, self.size)
        if room is not None and (self.merges or self.title == 0):
            room -= self.size(title) + len("\r\n")
        body = body if room is None else self._lines(body, room, rest)
        return (
            escaped_markdown(title) if self.reads_markdown or self.title_in_markdown else title,
            escaped_markdown(body) if self.reads_markdown else body,
        )

    def _lines(self, body: str, room: int, rest: str) -> str:
        if self.size(body) <= room:
            return body
        lines = body.split("\n")
        fitting = bisect_right(range(1, len(lines)), room, key=lambda n: self.size(_without(lines, n, rest)))
        return (
            _without(lines, fitting, rest)
            if fitting
            else _shortened(_without(lines, 0, rest), room, self.size)
        )


def _without(lines: list[str], kept: int, rest: str) -> str:
    """Return the first lines, and how many others there are; the empty lines between sections do not count."""
    left = sum(bool(line.strip()) for line in lines[kept:])
    above = "\n".join(lines[:kept]).rstrip()
    return "\n".join(filter(None, (above, f"... and {number(left, 'more line')}: {rest}")))


def _shortened(text: str, most: int | None, size: Size) -> str:
    """Return one line of at most this size."""
    if most is None or size(text) <= most:
        return text
    keep = max(1, most * len(text) // max(1, size(text)))
    while keep > 1 and size(one_line(text, keep)) > most:
        keep -= 1
    return one_line(text, keep)


SLACK, SLACK_BLOCKS = ReceiverText(35_000, 250, _in_html), ReceiverText(3_000, 150, _in_html)
"""Attachments, and blocks: a section has at most 3,000 characters, a header 150 (Slack, Block Kit reference)."""

TEAMS = ReceiverText(24_000, 500, _in_card, title_in_markdown=True)
"""A message of Teams has at most 28 KB (Microsoft, limits of webhooks); the rest is for the card around the text."""

OF_SCHEME = {
    # the content of a message of Discord, with the title (Discord, Create Message)
    "discord": ReceiverText(2_000, 250, _in_markdown, reads_markdown=True, merges=True),
    "mmost": ReceiverText(16_000, 0, _in_markdown, reads_markdown=True),
    "mmosts": ReceiverText(16_000, 0, _in_markdown, reads_markdown=True),
    "zulip": ReceiverText(10_000, 60, _in_markdown, reads_markdown=True),
    "rocket": ReceiverText(5_000, 0, _in_commonmark),
    "rockets": ReceiverText(5_000, 0, _in_commonmark),
    "gchat": ReceiverText(4_000, 0, _in_commonmark),
    "webex": ReceiverText(7_000, 0, _in_commonmark),
    "wxteams": ReceiverText(7_000, 0, _in_commonmark),
    "workflow": TEAMS,
    "workflows": TEAMS,
    # the title is the summary of an event, the body is in its details (PagerDuty, Events API v2)
    "pagerduty": ReceiverText(30_000, 1_024),
    # Apprise cuts the message at 130 characters; the description has 15,000 (Opsgenie, Create Alert)
    "opsgenie": ReceiverText(15_000, 130),
    # mails, files and programs
    **dict.fromkeys(
        ("mailto", "mailtos", "json", "jsons", "xml", "xmls", "form", "forms", "syslog"), ReceiverText()
    ),
}
"""Texts of receivers by the scheme of their address in Apprise; others have the limits that Apprise knows."""


def receiver_text(scheme: str, *, body: int, title: int, has_blocks: bool = False) -> ReceiverText:
    """Return the texts that a receiver takes.

    Args:
        scheme: the scheme of its address.
        body: the longest body that Apprise knows.
        title: the longest title that Apprise knows.
        has_blocks: whether messages to Slack consist of blocks.
    """
    if scheme == "slack":
        return SLACK_BLOCKS if has_blocks else SLACK
    return OF_SCHEME.get(scheme) or ReceiverText(body, title, _in_html)
