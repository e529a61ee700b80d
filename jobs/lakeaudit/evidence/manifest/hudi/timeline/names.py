"""Parse the names of a timeline's files, and of a table's data files. Pure.

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
_END_OF_SECOND = "999"
BEHIND_UTC = timedelta(hours=12)
"""How far a clock may be behind UTC."""


@dataclass(frozen=True)
class InstantName:
    """Holds the name of a timeline's file. `completed`: when the action was completed, in timelines of layout 2."""

    begin: str
    action: str
    state: str
    completed: str = ""


def instant_named(name: str, *, of_index: bool = False) -> InstantName | None:
    """Parse the name of a timeline's file; None for other files.

    In layout 1 the metadata table's own compactions and cleans have three digits more than their write.
    """
    found = _INSTANT.fullmatch(name)
    if found is None or (len(found[1]) > LENGTH and not of_index):
        return None
    begin, completed, action, state = found.groups()
    if action in ("requested", "inflight"):  # of a commit, written by layout 1
        action, state = "commit", action
    return InstantName(in_order(begin), action, state or "completed", in_order(completed or ""))


def instant_of(number: int) -> str:
    """Return the instant for the number of a state; instants have LENGTH digits here, as `in_order` returns them."""
    return f"{number:0{LENGTH}}"


def in_order(instant: str) -> str:
    """Return an instant as text that sorts: old ones have no milliseconds, and count as the end of their second."""
    return instant + _END_OF_SECOND if len(instant) == 14 else instant


@dataclass(frozen=True)
class FileName:
    """Holds the parts of a data file's name. `kind` is base, log or changes (change data, for readers that want it)."""

    file_id: str
    instant: str
    kind: str


def file_named(name: str) -> FileName | None:
    """Parse the name of a data file; None for unknown names."""
    found = _LOG.fullmatch(name)
    if found is not None:
        kind = "changes" if (found["token"] or "").endswith(("-cdc", ".cdc")) else "log"
        return FileName(found["file_id"], in_order(found["instant"]), kind)
    found = _BASE.fullmatch(name)
    return None if found is None else FileName(found["file_id"], in_order(found["instant"]), "base")


def time_of(instant: str, *, utc: bool) -> datetime | None:
    """Return when that was, or the latest possible time; None if the instant is not a time."""
    try:
        at = datetime.strptime(f"{instant:0<17}"[:17] + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
        return at if utc else at + BEHIND_UTC
    except (ValueError, OverflowError):
        return None
