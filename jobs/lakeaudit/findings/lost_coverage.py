"""Detects lost coverage: what an earlier audit judged, and this audit cannot judge any more. Pure.

Rows are those of the result table `coverage`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeaudit.formatting import second
from lakeaudit.judged import CONTENT, EMPTY, NOTHING, PART, WHOLE, YOUNG, axis_state

COVERAGE_LOST = "coverage_lost"
"""The kind of these findings; each table has at most one."""
MUCH = 0.5
"""Coverage is also lost if an audit judges less than this part of the share that the earlier audit judged."""

_PROBLEMS = {
    "content": "missing and changed files",
    "metastore": "differences from the metadata store",
    "metastore_tree": "broken folders of the metadata store",
    "leftover": "unused files",
    "duplicate": "duplicates",
    "commit": "lost and repeated commits",
    "pointer": "stale catalog pointers",
    "hazard": "upcoming losses",
}
"""The problems that nobody sees while an axis is not judged."""

Row = Mapping[str, Any]
About = tuple[str, str]
"""A table and an axis."""


@dataclass(frozen=True)
class LastJudged:
    """The last audit that judged an axis: its `as_of`, the judged share of the files, and the number of the files."""

    at: datetime
    share: float
    files: int | None


@dataclass(frozen=True)
class LostTable:
    """A table with lost coverage: the rows of its lost axes, since when, and the files that were judged before."""

    table: str
    rows: tuple[Row, ...]
    since: datetime
    files: int | None

    @property
    def cause(self) -> str:
        """Return why its most important axis cannot be judged; tables with the same lost source have the same text."""
        return str(_ordered(self.rows)[0]["reason"] or "the audit gives no reason")

    @property
    def explanation(self) -> str:
        """Return what the audit cannot see, since when, and why."""
        axes: dict[str, list[str]] = {}
        for row in _ordered(self.rows):
            axes.setdefault(row["reason"] or "", []).append(_PROBLEMS.get(row["axis"], row["axis"]))
        hidden = "; ".join(", ".join(names) + (f" ({why})" if why else "") for why, names in axes.items())
        return f"audits cannot see since {second(self.since)}: {hidden}"


def judged_share(row: Row) -> float | None:
    """Return the judged share of an axis; None if nothing was judged, or the axis was not part of the audit."""
    state = axis_state(row) if row["status"] in ("complete", "partial") else NOTHING
    if state in (WHOLE, EMPTY, YOUNG):
        return 1.0
    return float(row["decided_share"] or 0) if state == PART else None


def unjudged(coverage: Iterable[Row], excused: Collection[str]) -> list[Row]:
    """Return the rows of axes that an audit could judge at most in part, but for those with an excused reason."""
    return [
        row
        for row in coverage
        if row["status"] in ("complete", "partial")
        and axis_state(row) in (NOTHING, PART)
        and (row["reason"] or "") not in excused
        and (judged_share(row) or 0.0) < MUCH
    ]


def lost_tables(
    rows: Sequence[Row], before: Mapping[About, LastJudged], known: Mapping[str, datetime]
) -> Iterator[LostTable]:
    """Yield the tables that lost coverage.

    Args:
        rows: the rows of `unjudged`.
        before: the last audit that judged each axis.
        known: tables whose coverage was lost already, and since when.
    """
    by_table: dict[str, list[Row]] = {}
    for row in rows:
        last = before.get((row["table_name"], row["axis"]))
        if _is_lost(row, last) or (last is None and row["table_name"] in known):
            by_table.setdefault(row["table_name"], []).append(row)
    for table, lost in by_table.items():
        last_judged = [before[table, row["axis"]] for row in lost if (table, row["axis"]) in before]
        since = known.get(table) or max(last.at for last in last_judged)
        files = max((last.files for last in last_judged if last.files is not None), default=None)
        yield LostTable(table, tuple(lost), since, files)


def _is_lost(row: Row, last: LastJudged | None) -> bool:
    now = judged_share(row)
    return last is not None and (now is None or now < last.share * MUCH)


def _ordered(rows: Iterable[Row]) -> list[Row]:
    """Return rows by the importance of their axes."""
    order = [CONTENT, *(axis for axis in _PROBLEMS if axis != CONTENT)]
    return sorted(rows, key=lambda row: order.index(row["axis"]) if row["axis"] in order else len(order))
