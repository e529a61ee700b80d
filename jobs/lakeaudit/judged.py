"""What "judged" means: the one definition that coverage, headlines, exit lines, pages and the certificate use. Pure.

A file is judged on an axis if it is consistent, a finding or ignored. A file that is too young for the evidence is not
judged, and a later storage snapshot can judge it; whatever is undecided or uncovered is not judged, and a reason says
why. Rows are those of the result table `coverage`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lakeaudit.kinds import FILE_AXES, JUDGED_OUTCOMES, OPEN_OUTCOMES, YOUNG_OUTCOME

Row = Mapping[str, Any]

CONTENT = "content"
TO_COME = "hazard"
"""The axis of what will be lost; how a table stands is about what is there and what is not."""

OFF, EMPTY, YOUNG, NOTHING, PART, WHOLE = "off", "empty", "young", "nothing", "part", "whole"
IDLE = "idle"
AXIS_STATES = (OFF, EMPTY, YOUNG, NOTHING, PART, WHOLE)


def count_of(row: Row, outcome: str) -> int:
    """How many files of an axis have an outcome."""
    return int(row["findings" if outcome == "finding" else outcome] or 0)


def files_judged(row: Row) -> int:
    """How many files of an axis are judged."""
    return sum(count_of(row, outcome) for outcome in JUDGED_OUTCOMES)


def files_young(row: Row) -> int:
    """How many files of an axis are too young to be judged."""
    return count_of(row, YOUNG_OUTCOME)


def axis_state(row: Row) -> str:
    """One of AXIS_STATES: off, empty (no files), young (all files too young), nothing, part or whole."""
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
    """Whether any axis of files of a table has a file."""
    return any(row["files"] for row in rows if row["axis"] in FILE_AXES)


def table_standing(rows: Iterable[Row]) -> str:
    """How one table stands: nothing, idle (nothing to judge), young, part or whole.

    It is whole only if its content is judged: a table whose files no manifest lists is judged in part, one whose listed
    files are all too young is young, and one that lists none of the files that it has is idle.
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
