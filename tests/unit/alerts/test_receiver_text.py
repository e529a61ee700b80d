"""Messages in the form of each receiver: their lengths, and names that look like markup. Payloads of Apprise."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from jsonschema import Draft202012Validator
from slack_sdk.errors import SlackObjectFormationError

from lakeaudit.alerts.deliver import AppriseChannel
from lakeaudit.alerts.message_text import tame_name
from lakeaudit.alerts.posts import Post
from lakeaudit.alerts.receiver_text import ReceiverText, escaped_markdown
from tests.builders.chat_schemas import (
    OF_RECEIVERS,
    SLACK_ATTACHMENTS,
    SLACK_BLOCKS,
    TEAMS_BYTES,
    slack_attachments,
)

NAME = "[click](http://evil.example) *b* _i_ `c` ~s~ ||x||"
PAGE = "  page: https://lake.example/table?table=daily_order_items"
REST = "https://lake.example/"
POST = Post(
    f"lakeaudit shop: CRITICAL: 1 file dropped in {NAME}",
    f"CRITICAL: 1 file dropped in {NAME}\n  1 file dropped (critical), new\n{PAGE}",
    "critical", False, "0a1b", datetime(2026, 11, 21, 12, tzinfo=UTC), rest=REST,
)  # fmt: skip
LONG = replace(
    POST,
    body="\n\n".join(
        f"CRITICAL: {n} dropped in {NAME}\n  at stake: {n} files & 9 rows" for n in range(2_000)
    ),
)
LONG_TITLE = replace(POST, title=POST.title + " and in other tables" * 100)
URLS = {
    "discord": f"discord://1234567890/{'a' * 60}",
    "slack": f"slack://T1JJ3T3L2/A1BRTD4JD/{'s' * 24}/#data",
    "slack with blocks": f"slack://T1JJ3T3L2/A1BRTD4JD/{'s' * 24}/#data?blocks=yes",
    "teams": "workflows://host:443/wf/sig",
    "mattermost": "mmost://host/key3",
    "rocket.chat": f"rocket://{'a' * 24}/{'b' * 24}@h/#c",
    "telegram": "tgram://123456789:abcdefg_hijklmnop/12315544/",
    "google chat": "gchat://w/k/t",
    "zulip": f"zulip://bot@org/{'a' * 32}/s",
    "webex": f"webex://{'a' * 80}",
    "pagerduty": "pagerduty://integrationkey@apikey",
    "opsgenie": "opsgenie://12345678-1234-1234-1234-123456789012",
}


def payload(receiver: str, post: Post) -> Any:
    """Return the JSON that Apprise sends to a receiver."""
    with patch("requests.sessions.Session.request") as sent:
        sent.return_value.status_code = 200
        sent.return_value.content = b"ok" if "slack" in receiver else b'{"requestId": "1"}'
        sent.return_value.text = "ok"
        sent.return_value.headers = {}
        AppriseChannel(URLS[receiver], "TO").send(post)
    (call,) = sent.call_args_list
    data = call.kwargs.get("data") or call.kwargs.get("json")
    return json.loads(data) if isinstance(data, str | bytes) else data


def texts(document: Any) -> list[str]:
    """Return all texts in a document."""
    if isinstance(document, str):
        return [document]
    inner = (
        document.values() if isinstance(document, Mapping) else document if isinstance(document, list) else ()
    )
    return [text for each in inner for text in texts(each)]


@pytest.mark.parametrize("post", [POST, LONG, LONG_TITLE], ids=["short", "long", "long title"])
@pytest.mark.parametrize("receiver", OF_RECEIVERS)
def test_a_message_has_the_form_that_its_receiver_documents(receiver: str, post: Post) -> None:
    sent = payload(receiver, post)
    Draft202012Validator(OF_RECEIVERS[receiver]).validate(sent)
    if receiver == "teams":
        assert len(json.dumps(sent).encode()) <= TEAMS_BYTES
    if "slack" in receiver:
        assert slack_attachments(sent) == sent["attachments"]


def block(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a message to Slack that consists of one block."""
    return {"attachments": [{"color": "#A32037", "blocks": [{"type": kind, **fields}]}]}


def plain(length: int) -> dict[str, Any]:
    """Return a text of this length."""
    return {"type": "plain_text", "text": "x" * length}


ATTACHMENT = {"title": "t", "text": "x", "color": "#A32037", "footer": "lakeaudit"}
SLACK_LIMITS = [
    # the longest valid message, one that is too long, the schema
    (block("header", text=plain(150)), block("header", text=plain(151)), SLACK_BLOCKS),
    (block("section", text=plain(3_000)), block("section", text=plain(3_001)), SLACK_BLOCKS),
    (block("context", elements=[plain(1)] * 10), block("context", elements=[plain(1)] * 11), SLACK_BLOCKS),
    (
        {"attachments": [{**ATTACHMENT, "footer": "x" * 300}]},
        {"attachments": [{**ATTACHMENT, "footer": "x" * 301}]},
        SLACK_ATTACHMENTS,
    ),
]


@pytest.mark.parametrize(("valid", "too_long", "schema"), SLACK_LIMITS)
def test_the_schemas_of_slack_have_the_limits_of_its_models(
    valid: dict[str, Any], too_long: dict[str, Any], schema: dict[str, Any]
) -> None:
    assert slack_attachments(valid) == valid["attachments"]
    assert Draft202012Validator(schema).is_valid(valid)
    with pytest.raises(SlackObjectFormationError):
        slack_attachments(too_long)
    assert not Draft202012Validator(schema).is_valid(too_long)


def test_the_models_of_slack_refuse_or_leave_out_unknown_parts() -> None:
    with pytest.raises(TypeError, match="size"):
        slack_attachments(block("section", text={**plain(1), "size": 3}))
    with pytest.raises(TypeError, match="subtitle"):
        slack_attachments({"attachments": [{**ATTACHMENT, "subtitle": "x"}]})
    other_text = block("section", text={"type": "html", "text": "x"})
    assert slack_attachments(other_text) != other_text["attachments"]
    other_block = block("heading", text=plain(1))
    assert slack_attachments(other_block) != other_block["attachments"]


@pytest.mark.parametrize("receiver", OF_RECEIVERS)
def test_a_long_message_is_cut_at_a_line_and_says_where_the_rest_is(receiver: str) -> None:
    sent = payload(receiver, LONG)
    (text,) = [text for text in texts(sent) if "more line" in text]
    *lines, last = text.replace("\r", "").replace("\\", "").split("\n")
    assert re.fullmatch(r"\.\.\. and [\d,]+ more lines: https://lake.example/", last)
    assert lines[-1].strip().startswith(("CRITICAL: ", "at stake: "))
    assert lines[-1].endswith(("||", "|", "rows"))


@pytest.mark.parametrize("receiver", URLS)
def test_a_short_message_is_sent_whole(receiver: str) -> None:
    assert any("1 file dropped" in text and "new" in text for text in texts(payload(receiver, POST)))
    assert not any("more line" in text for text in texts(payload(receiver, POST)))


@pytest.mark.parametrize("receiver", ["discord", "mattermost", "zulip", "teams", "rocket.chat", "webex"])
def test_markup_in_a_name_is_escaped(receiver: str) -> None:
    """These read Markdown: each sign of the name has a backslash before it, in titles, too."""
    shown = [text for text in texts(payload(receiver, POST)) if "1 file dropped" in text]
    assert shown
    for text in shown:
        assert not re.search(r"(?<!\\)[\[\]*`_]", text.replace(PAGE, "").lstrip("# ")), text


def test_pagerduty_has_the_headline_as_summary_and_the_text_in_the_details() -> None:
    sent = payload("pagerduty", POST)
    assert sent["payload"]["summary"] == POST.title
    assert sent["payload"]["custom_details"]["message"] == POST.body
    assert sent["links"] == [{"href": REST}]
    long = payload("pagerduty", LONG)["payload"]
    assert len(long["summary"]) <= 1_024
    assert 20_000 < len(long["custom_details"]["message"]) <= 30_000


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("http://evil.example/x", "http\uff1a//evil.example/x"),
        ("a HTTPS://evil.example", "a HTTPS\uff1a//evil.example"),
        ("www.evil.example", "www\uff0eevil.example"),
        ("mailto:a@b", "mailto\uff1aa\uff20b"),
        ("s3://lake/orders", "s3://lake/orders"),
        ("db.table", "db.table"),
    ],
)
def test_no_name_becomes_a_link(name: str, shown: str) -> None:
    assert tame_name(name) == shown


def test_the_address_of_a_page_stays_a_link() -> None:
    assert PAGE in payload("discord", POST)["content"]


ESCAPED = [
    ("[a](http://b)", r"\[a\]\(http://b\)"),
    ("daily_order_items", r"daily\_order\_items"),
    ("# a", r"\# a"),
    ("a\\", "a\\\\"),
    ("  page: https://lake.example/table?table=a_b", "  page: https://lake.example/table?table=a_b"),
    ("  page: https://lake.example/ [a](b)", r"  page: https://lake.example/ \[a\]\(b\)"),
]


@pytest.mark.parametrize(("text", "expected"), ESCAPED)
def test_markdown_is_escaped(text: str, expected: str) -> None:
    assert escaped_markdown(text) == expected


FITS = [
    # the most characters of a body, the body, what is sent
    (100, "one\ntwo", "one\ntwo"),
    (27, "one\ntwo\nthree\nfour\nfive" + "!" * 20, "one\n... and 4 more lines: X"),
    (40, "one\n\ntwo\n\n" + "x" * 40, "one\n\ntwo\n... and 1 more line: X"),
    (30, "y" * 40 + "\nz", "... and 2 more lines: X"),
]


@pytest.mark.parametrize(("most", "body", "expected"), FITS)
def test_whole_lines_are_left_out(most: int, body: str, expected: str) -> None:
    shown = ReceiverText(most, 250).fit("title", body, "X")[1]
    assert len(shown) <= most
    assert shown.strip() == expected
