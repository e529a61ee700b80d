"""Define "judged" for coverage, headlines, exit lines, pages and the certificate. Pure.

A file is judged on an axis if it is consistent, a finding or ignored. A file that is too young for the evidence is not
judged, and a later storage snapshot can judge it; undecided and uncovered files are not judged, and a reason tells why.
Rows are those of the result table `coverage`.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeaudit.kinds import (
    FILE_AXES,
    JUDGED_OUTCOMES,
    OPEN_OUTCOMES,
    PART_REQUESTED,
    PART_UNKNOWN,
    YOUNG_OUTCOME,
)

Row = Mapping[str, Any]
About = tuple[str, str]
"""A table and an axis."""

CONTENT = "content"
OUTDATED = "no recent storage source"
"""Part of the reason of an axis whose storage snapshot is older than `max_age`: later losses are not in it."""
TO_COME = "hazard"
"""The axis of upcoming losses; it does not count for the standing of a table."""

OFF, EMPTY, YOUNG, NOTHING, PART, WHOLE = "off", "empty", "young", "nothing", "part", "whole"
IDLE = "idle"
AXIS_STATES = (OFF, EMPTY, YOUNG, NOTHING, PART, WHOLE)


def count_of(row: Row, outcome: str) -> int:
    """Return the number of files of an axis with an outcome."""
    return int(row["findings" if outcome == "finding" else outcome] or 0)


def files_judged(row: Row) -> int:
    """Return the number of judged files of an axis."""
    return sum(count_of(row, outcome) for outcome in JUDGED_OUTCOMES)


def files_young(row: Row) -> int:
    """Return the number of files of an axis that are too young to be judged."""
    return count_of(row, YOUNG_OUTCOME)


def axis_state(row: Row) -> str:
    """Return one of AXIS_STATES: off, empty (no files), young (all files too young), nothing, part or whole."""
    if row["status"] == "off":
        return OFF
    if row["files"] == 0 and row["status"] == "complete":
        return EMPTY
    if not files_judged(row):
        young = row["status"] == "complete" and files_young(row) == row["files"]
        return YOUNG if young else NOTHING
    if row["status"] == "complete" and not any(count_of(row, outcome) for outcome in OPEN_OUTCOMES):
        return WHOLE
    return PART


def has_files(rows: Iterable[Row]) -> bool:
    """Return whether any axis of files of a table has a file."""
    return any(row["files"] for row in rows if row["axis"] in FILE_AXES)


def table_standing(rows: Iterable[Row]) -> str:
    """Return the standing of one table: nothing, idle (nothing to judge), young, part or whole.

    It is whole only if its content is judged. A table without listed files on judged axes is part, one whose listed
    files are all too young is young, and one that has files but lists none is idle.
    """
    known = list(rows)
    states = {row["axis"]: axis_state(row) for row in known if row["axis"] != TO_COME}
    found = set(states.values())
    if not {WHOLE, PART} & found:
        return NOTHING if NOTHING in found else IDLE
    content = states.get(CONTENT)
    if {PART, NOTHING} & found:
        return PART
    if content == YOUNG:
        return YOUNG
    if content == EMPTY and has_files(known):
        return IDLE
    return PART if content == OFF else WHOLE


@dataclass(frozen=True)
class LastJudged:
    """The coverage of an axis in earlier audits.

    `share` is the highest share of the files that an audit judged, `at` the `as_of` of the last audit that judged at
    least half of it, and `files` the number of files then. `snapshot` is the time of its storage snapshot; None: not
    known.
    """

    at: datetime
    share: float
    files: int | None
    snapshot: datetime | None = None


def judged_share(row: Row) -> float | None:
    """Return the judged share of an axis; None if nothing was judged, or the axis was not part of the audit.

    A storage snapshot that is too old judges nothing of today.
    """
    if OUTDATED in (row["reason"] or ""):
        return None
    state = axis_state(row) if row["status"] in ("complete", "partial") else NOTHING
    if state in (WHOLE, EMPTY, YOUNG):
        return 1.0
    return float(row["decided_share"] or 0) if state == PART else None


def is_part(reason: str) -> bool:
    """Return whether only some partitions of the table were requested."""
    return reason.endswith(PART_REQUESTED) or PART_UNKNOWN in reason


def is_other_part(reason: str, requested: Collection[str]) -> bool:
    """Return whether a reason names requested partitions that have no file in common with other requested ones.

    Args:
        reason: the reason of an axis that is partial.
        requested: URIs of the other partitions; empty: the whole table.
    """
    named = _REQUESTED.search(reason)
    if named is None or PART_UNKNOWN in reason or any(_BETWEEN.search(uri) for uri in requested):
        return False
    others = [f"{uri}/" for uri in _BETWEEN.split(named[1])]
    mine = [f"{uri}/" for uri in requested]
    return bool(mine) and not any(a.startswith(b) or b.startswith(a) for a in mine for b in others)


_BETWEEN = re.compile(r", (?=[a-z0-9]+:/|/)")
_REQUESTED = re.compile(rf"(?:^|; )only ((?:[a-z0-9]+:/|/).+){re.escape(PART_REQUESTED)}$")
