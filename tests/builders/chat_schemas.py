"""JSON Schemas of the messages that receivers take: the documented limits of the parts that lakeaudit sends.

`slack_attachments` checks a message by Slack's own models, too. They know the fields of all blocks and most limits, but
neither the 50 blocks and 100 attachments of a message nor the length of a text outside of blocks.
"""

from typing import Any

from slack_sdk.models.attachments import Attachment, BlockAttachment
from slack_sdk.models.blocks import Block

Schema = dict[str, Any]


def _text(most: int, *, kind: str) -> Schema:
    return {
        "type": "object",
        "required": ["type", "text"],
        "properties": {
            "type": {"const": kind},
            "text": {"type": "string", "minLength": 1, "maxLength": most},
        },
    }


# Slack, Block Kit reference: https://docs.slack.dev/reference/block-kit/blocks
# section: text of 1 to 3,000 characters; header: plain_text of at most 150; context: at most 10 elements;
# a message has at most 50 blocks, a message of attachments at most 100 attachments.
SLACK_BLOCKS: Schema = {
    "type": "object",
    "required": ["attachments"],
    "properties": {
        "attachments": {
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": {
                "type": "object",
                "required": ["blocks"],
                "properties": {
                    "color": {"type": "string", "pattern": "^#[0-9A-Fa-f]{6}$"},
                    "blocks": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": 50,
                        "items": {
                            "oneOf": [
                                {
                                    "required": ["type", "text"],
                                    "properties": {
                                        "type": {"const": "header"},
                                        "text": _text(150, kind="plain_text"),
                                    },
                                },
                                {
                                    "required": ["type", "text"],
                                    "properties": {
                                        "type": {"const": "section"},
                                        "text": {
                                            "oneOf": [
                                                _text(3_000, kind="plain_text"),
                                                _text(3_000, kind="mrkdwn"),
                                            ]
                                        },
                                    },
                                },
                                {
                                    "required": ["type", "elements"],
                                    "properties": {
                                        "type": {"const": "context"},
                                        "elements": {"type": "array", "minItems": 1, "maxItems": 10},
                                    },
                                },
                            ]
                        },
                    },
                },
            },
        }
    },
}

# Slack, secondary attachments: https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments
SLACK_ATTACHMENTS: Schema = {
    "type": "object",
    "required": ["attachments"],
    "properties": {
        "attachments": {
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": {
                "type": "object",
                "required": ["title", "text", "color"],
                "properties": {
                    "title": {"type": "string", "minLength": 1},
                    "text": {"type": "string", "minLength": 1, "maxLength": 35_000},
                    "footer": {"type": "string", "maxLength": 300},
                },
            },
        }
    },
}


def slack_attachments(message: Any) -> list[Any]:
    """Return the attachments of a message as Slack's models write them. An unknown block becomes None.

    Raises:
        SlackObjectFormationError: an attachment or a block is not valid.
        TypeError: an attachment has no text or an unknown field.
    """
    return [_slack_attachment(**attachment) for attachment in message["attachments"]]


def _slack_attachment(*, blocks: list[Any] | None = None, **others: Any) -> Any:
    if blocks is None:
        written = Attachment(**others).to_dict()
        return {name: value for name, value in written.items() if value != []}
    return BlockAttachment(blocks=Block.parse_all(blocks), **others).to_dict()


# Adaptive Cards, schema explorer: https://adaptivecards.io/explorer/ (AdaptiveCard, TextBlock), and the message around
# a card: https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
TEAMS_CARD: Schema = {
    "type": "object",
    "required": ["type", "attachments"],
    "properties": {
        "type": {"const": "message"},
        "attachments": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "required": ["contentType", "content"],
                "properties": {
                    "contentType": {"const": "application/vnd.microsoft.card.adaptive"},
                    "content": {
                        "type": "object",
                        "required": ["type", "version", "body"],
                        "properties": {
                            "type": {"const": "AdaptiveCard"},
                            "version": {"enum": ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"]},
                            "body": {
                                "type": "array",
                                "minItems": 1,
                                "items": {
                                    "type": "object",
                                    "required": ["type", "text"],
                                    "properties": {
                                        "type": {"const": "TextBlock"},
                                        "text": {"type": "string", "minLength": 1},
                                        "wrap": {"type": "boolean"},
                                        "style": {"enum": ["default", "heading"]},
                                        "weight": {"enum": ["Default", "Lighter", "Bolder"]},
                                        "size": {
                                            "enum": ["Default", "Small", "Medium", "Large", "ExtraLarge"]
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}

TEAMS_BYTES = 28_000
"""The most bytes of a message of Teams: https://learn.microsoft.com/microsoftteams/limits-specifications-teams"""

# Discord, Create Message: https://discord.com/developers/docs/resources/message#create-message
DISCORD: Schema = {
    "type": "object",
    "required": ["content"],
    "properties": {"content": {"type": "string", "minLength": 1, "maxLength": 2_000}},
}

# PagerDuty, Events API v2: https://developer.pagerduty.com/docs/send-alert-event
PAGERDUTY: Schema = {
    "type": "object",
    "required": ["routing_key", "event_action", "payload"],
    "properties": {
        "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
        "dedup_key": {"type": "string", "maxLength": 255},
        "payload": {
            "type": "object",
            "required": ["summary", "source", "severity"],
            "properties": {
                "summary": {"type": "string", "minLength": 1, "maxLength": 1_024},
                "severity": {"enum": ["critical", "error", "warning", "info"]},
            },
        },
    },
}

# Opsgenie, Create Alert: https://docs.opsgenie.com/docs/alert-api#create-alert
OPSGENIE: Schema = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "message": {"type": "string", "minLength": 1, "maxLength": 130},
        "alias": {"type": "string", "maxLength": 512},
        "description": {"type": "string", "maxLength": 15_000},
        "source": {"type": "string", "maxLength": 100},
        "priority": {"enum": ["P1", "P2", "P3", "P4", "P5"]},
    },
}

# Telegram, sendMessage: https://core.telegram.org/bots/api#sendmessage
TELEGRAM: Schema = {
    "type": "object",
    "required": ["chat_id", "text"],
    "properties": {"text": {"type": "string", "minLength": 1, "maxLength": 4_096}},
}


def _with_text(name: str, most: int) -> Schema:
    return {
        "type": "object",
        "required": [name],
        "properties": {name: {"type": "string", "minLength": 1, "maxLength": most}},
    }


OF_RECEIVERS: dict[str, Schema] = {
    "slack": SLACK_ATTACHMENTS,
    "slack with blocks": SLACK_BLOCKS,
    "teams": TEAMS_CARD,
    "discord": DISCORD,
    "pagerduty": PAGERDUTY,
    "opsgenie": OPSGENIE,
    "telegram": TELEGRAM,
    # Mattermost: https://developers.mattermost.com/integrate/webhooks/incoming/
    "mattermost": _with_text("text", 16_383),
    # Zulip: https://zulip.com/api/send-message
    "zulip": _with_text("content", 10_000),
    # Rocket.Chat: the setting Message_MaxAllowedSize, 5,000 by default
    "rocket.chat": _with_text("text", 5_000),
    # Google Chat: https://developers.google.com/workspace/chat/api/reference/rest/v1/spaces.messages
    "google chat": _with_text("text", 4_096),
    # Webex: https://developer.webex.com/docs/api/v1/messages/create-a-message
    "webex": _with_text("markdown", 7_439),
}
"""Schemas of the messages by receiver."""
