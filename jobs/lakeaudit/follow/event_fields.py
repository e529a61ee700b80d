"""Validate the fields of event messages, and describe those that are not understood. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from lakeaudit.errors import one_line
from lakeaudit.schemas import plain_time

Form = Literal[
    "not JSON", "unknown message", "unknown SNS message", "unknown source", "unknown event", "invalid record"
]


FOREIGN: frozenset[Form] = frozenset({"not JSON", "unknown message", "unknown SNS message", "unknown source"})
"""The forms of messages that no store sends."""


@dataclass(frozen=True, slots=True)
class UnknownPart:
    """A part of a body that was not understood.

    Attributes:
        form: one of few, so that a caller can count by it.
        reason: one line; it may quote the body.
    """

    form: Form
    reason: str


LONGEST_KEY = 1024
"""The most bytes of a key in S3, as UTF-8."""
_LONGEST_BUCKET = 255
_LONGEST_TEXT = 2048
_LARGEST = 1 << 63
_HEX = re.compile("[0-9A-Fa-f]{1,64}")
_QUOTED = 120


class UnknownFormError(Exception):
    """A body, record or field is not understood; `part` describes it."""

    def __init__(self, form: Form, reason: str) -> None:
        super().__init__(form, reason)
        self.part = UnknownPart(form, one_line(reason, 2 * _QUOTED))


def inner_object(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an inner object; an empty one for other values, whose fields are then missing."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def bucket_name(value: object) -> str:
    """Return a name that a bucket of some store may have."""
    name = required_text(value, "the bucket's name")
    if len(name) > _LONGEST_BUCKET or "/" in name or not name.isprintable():
        raise UnknownFormError("invalid record", f"not the name of a bucket: {quoted(name)}")
    return name


def decoded_key(key: str) -> str:
    """Return the key of a notification: a `%` without two hexadecimal digits stands for itself."""
    return _valid_key(key, unquote_to_bytes(_utf8(key.replace("+", " "))))


def raw_key(key: str) -> str:
    """Return a key that is not encoded, if it is valid."""
    return _valid_key(key, _utf8(key))


def _utf8(key: str) -> bytes:
    """Return the key's bytes; a lone surrogate, which JSON can name, has none."""
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise UnknownFormError("invalid record", f"the key is not text: {quoted(key)}") from error


def _valid_key(written: str, raw: bytes) -> str:
    if len(raw) > LONGEST_KEY:
        raise UnknownFormError(
            "invalid record", f"the key is longer than {LONGEST_KEY} bytes: {quoted(written)}"
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UnknownFormError("invalid record", f"the key is not UTF-8: {quoted(written)}") from error


def required_text(value: object, what: str) -> str:
    """Return a text that is not empty, or raise with the name of the field."""
    if not isinstance(value, str) or not value:
        raise UnknownFormError("invalid record", f"{what} is missing: {quoted(value)}")
    return value


def optional_text(value: object) -> str | None:
    """Return a text that can be stored; None for other values."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_TEXT:
        return None
    return value.encode(errors="replace").decode()


def event_name(value: str) -> str:
    """Return the name of an event as one short line."""
    return one_line(value, _QUOTED)


def sequencer_of(value: object) -> str | None:
    """Return hexadecimal digits in upper case; None for other values."""
    text = optional_text(value)
    return text.upper() if text and _HEX.fullmatch(text) else None


def size_of(value: object) -> int | None:
    """Return a size in bytes; None for other values."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST else None


def etag_of(value: object) -> str | None:
    """Return an ETag without quotes; None for other values."""
    return optional_text(value.strip('"')) if isinstance(value, str) else None


def time_of(value: object) -> datetime | None:
    """Return a time of ISO 8601 as UTC without a zone; one without a zone is UTC."""
    try:
        return plain_time(datetime.fromisoformat(value)) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def quoted(value: object) -> str:
    """Return the start of a short text, or the type of another value: a body may hold a secret."""
    return one_line(ascii(value) if isinstance(value, str) else type(value).__name__, _QUOTED)
