"""Removes secrets from the texts of messages, and for receivers with `redact` also keys and partition values. Pure.

Causes and errors quote other programs, whose texts contain addresses with passwords and signatures.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from lakeaudit.advice.causes import added
from lakeaudit.alerts.decide import Notice

_SECRETS = (
    # a user with a password in an address; the container of an Azure address has no colon
    (re.compile(r"://[^/?#\s@]*:[^/?#\s@]*@"), "://...@"),
    # the query of an address may be a signature
    (re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\")]+"), r"\1?..."),
    (
        re.compile(
            r"(?i)((?:password|passwd|pwd|secret|token|signature|credential|api_?key|access_?key)\w*['\"]?"
            r"\s*(?:=|:\s*(?=['\"])))\s*(?:'[^']*'|\"[^\"]*\"|[^\s,;&)]+)"
        ),
        r"\1...",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 ..."),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}\b"), r"\1..."),
)
_KEYS = (
    (re.compile(r"\b([a-z][a-z0-9+.-]*://[^/\s,;'\"()]+)/[^\s,;'\"()]*[^\s,;'\"():]"), r"\1/..."),
    # a file or a folder of a partition, also without its bucket
    (re.compile(r"[^\s,;'\"():]*/[^\s,;'\"():]*=[^\s,;'\"()]*"), "..."),
    (
        re.compile(
            r"(?<![\w./])(?:/?[^\s,;'\"():/]+/)*[^\s,;'\"():/]+"
            r"\.(?:parquet|orc|avro|json|csv|crc|txt|gz|log)\b"
        ),
        "...",
    ),
    (re.compile(r"\b(\w+)=(?!\.\.\.)[^\s,;'\"()]+"), r"\1=..."),
)  # fmt: skip


def without_secrets(text: str) -> str:
    """Return the text without passwords, tokens, keys of accounts, and queries of addresses."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def without_keys(text: str, values: Sequence[str] = ()) -> str:
    """Return the text without keys of objects and values of partitions; `values` are partitions as they are named."""
    for path in sorted(values, key=len, reverse=True):
        text = text.replace(path, "...") if path else text
    for pattern, instead in _KEYS:
        text = pattern.sub(instead, text)
    return text


def redacted(notice: Notice, *, keys: bool) -> Notice:
    """Return the notice without secrets in its words and causes; with `keys` also without keys and partition values."""

    def clean(text: str, values: Sequence[str] = ()) -> str:
        text = without_secrets(text)
        return without_keys(text, values) if keys else text

    changes = tuple(
        replace(
            each,
            by_cause=added({clean(cause, each.partitions): many} for cause, many in each.by_cause.items()),
            explanation=each.explanation and clean(each.explanation),
        )
        for each in notice.changes
    )
    return replace(notice, words=clean(notice.words), changes=changes)
