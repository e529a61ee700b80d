"""What names say: those of a timeline's files, and those of the files that a table is made of. Pure.

Format: `HoodieInstant`, `FSUtils` and "File Layouts" of Apache Hudi.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_INSTANT = re.compile(r"(\d{14,17}|\d{20})(?:_(\d{14,17}))?\.([a-z]+)(?:\.(requested|inflight))?")
_LOG = re.compile(r"\.(?P<file_id>.+)_(?P<instant>\d+)\.log\.\d+(?:_(?P<token>.*))?")
_BASE = re.compile(r"(?P<file_id>[^_]+)_(?P<token>[^_]*)_(?P<instant>\d+)(?:\.[\w.]+)?")
LENGTH = 17
"""Digits of an instant, with its milliseconds."""
_UNTOLD_MILLIS = "999"
BEHIND_UTC = timedelta(hours=12)
"""A clock may be so far behind."""


@dataclass(frozen=True)
class InstantName:
    """The name of a timeline's file. `completed`: when the action was completed, in timelines of layout 2."""

    begin: str
    action: str
    state: str
    completed: str = ""


def instant_named(name: str, *, of_index: bool = False) -> InstantName | None:
    """What the name of a timeline's file says; None: it is none.

    In layout 1 the metadata table's own compactions and cleans bear three digits more than the write they belong to.
    """
    found = _INSTANT.fullmatch(name)
    if found is None or (len(found[1]) > LENGTH and not of_index):
        return None
    begin, completed, action, state = found.groups()
    if action in ("requested", "inflight"):  # of a commit, written by layout 1
        action, state = "commit", action
    return InstantName(in_order(begin), action, state or "completed", in_order(completed or ""))


def instant_of(number: int) -> str:
    """The instant that a state has as its number; instants have LENGTH digits here, as `in_order` gives them."""
    return f"{number:0{LENGTH}}"


def in_order(instant: str) -> str:
    """An instant as text that sorts: old ones have no milliseconds, and stand for the end of their second."""
    return instant + _UNTOLD_MILLIS if len(instant) == 14 else instant


@dataclass(frozen=True)
class FileName:
    """What the name of a file says. `kind` is base, log or changes (what changed, for those who ask for that)."""

    file_id: str
    instant: str
    kind: str


def file_named(name: str) -> FileName | None:
    """What the name of a data file says; None: nothing that is known."""
    found = _LOG.fullmatch(name)
    if found is not None:
        kind = "changes" if (found["token"] or "").endswith(("-cdc", ".cdc")) else "log"
        return FileName(found["file_id"], in_order(found["instant"]), kind)
    found = _BASE.fullmatch(name)
    return None if found is None else FileName(found["file_id"], in_order(found["instant"]), "base")


def time_of(instant: str, *, utc: bool) -> datetime | None:
    """When that was, or the latest that it can have been; None: it is no time."""
    try:
        at = datetime.strptime(f"{instant:0<17}"[:17] + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
        return at if utc else at + BEHIND_UTC
    except (ValueError, OverflowError):
        return None
