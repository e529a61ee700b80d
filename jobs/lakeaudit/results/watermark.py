"""Computes up to which time all commits of a table are verified: the watermark that other pipelines wait for. Pure.

A commit is verified if an audit whose storage snapshot is younger than the commit judged every file that the table
still needs, and no discrepancy of severity error or critical is open about a file of this commit or an earlier one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lakeaudit.formatting import number_of, second

STEP = timedelta(microseconds=1)
FORWARD, BACK, SAME = "forward", "back", "same"
NONE_VERIFIED = "fell behind: none of its commits is verified"
MOVEMENTS = (FORWARD, BACK, SAME)


@dataclass(frozen=True)
class Blocking:
    """The open discrepancies of a table that count.

    Attributes:
        number: how many there are.
        first_at: time of the oldest commit with a file that they concern; None: no time is known.
        undated: how many are about no file with a known time, such as a lost log: they concern every commit.
        ids: some of their ids.
    """

    number: int = 0
    first_at: datetime | None = None
    undated: int = 0
    ids: tuple[str, ...] = ()


NOTHING_OPEN = Blocking()


def blocking_of(row: Mapping[str, Any] | None) -> Blocking:
    """Return the discrepancies of a row of `results.summaries.verified_tables.blocking_discrepancies`."""
    if row is None:
        return NOTHING_OPEN
    return Blocking(int(row["number"]), row["first_at"], int(row["undated"]), tuple(row["ids"]))


def stopped_by(row: Mapping[str, Any]) -> str:
    """Return in words what stops the watermark of a row of `verified`; empty: nothing."""
    if row["open_discrepancies"]:
        return f"{number_of(row['open_discrepancies'], 'open discrepancy', 'open discrepancies')}"
    return "; ".join(row["blocked_by"] or ())


def fell_behind(row: Mapping[str, Any]) -> str:
    """Return in words up to which time commits are verified after a run that moved the watermark back; else empty."""
    if row["movement"] != BACK:
        return ""
    at = row["verified_through"]
    return f"fell behind: its commits are verified only through {second(at)}" if at else NONE_VERIFIED


@dataclass(frozen=True)
class Watermark:
    """The watermark of a table after an audit. `blocked_by` are ids of discrepancies, or reasons; empty: nothing."""

    through: datetime | None
    movement: str
    blocked_by: tuple[str, ...] = ()


def next_watermark(
    before: datetime | None, judged_through: datetime | None, blocking: Blocking, reasons: Sequence[str] = ()
) -> Watermark:
    """Return the watermark after an audit.

    Args:
        before: the watermark of the last audit; None: there was none.
        judged_through: the time up to which this audit judged the files of all commits; None: it judged only a part.
        blocking: the open discrepancies after this audit.
        reasons: what else stops the watermark, such as why this audit judged only a part.
    """
    known = [time for time in (before, judged_through) if time is not None]
    through = time_before(blocking, max(known, default=None))
    blocked_by = blocking.ids if blocking.number else tuple(reasons)
    return Watermark(through, _movement(before, through), blocked_by)


def time_before(faults: Blocking, through: datetime | None) -> datetime | None:
    """Return the newest time up to `through` that is before the commits of all faults; None: there is none."""
    if through is None or faults.undated:
        return None
    return through if faults.first_at is None else min(through, faults.first_at - STEP)


def _movement(before: datetime | None, after: datetime | None) -> str:
    if before == after:
        return SAME
    return BACK if after is None or (before is not None and after < before) else FORWARD
