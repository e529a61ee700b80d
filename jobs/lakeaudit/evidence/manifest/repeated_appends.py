"""Find appends of one table that look like one batch committed twice: by their counts, for formats that record these.

Counts select the few candidates; stronger evidence (bounds of columns) is read for these alone. Commits of Delta hold
the statistics themselves, see `checks.commits.repeated_batches`.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from lakeaudit.evidence.lineage import CONTENT, REPEATED_BATCH, Stake, Witness

WITHIN = timedelta(days=7)
FEWEST_ROWS = 11
"""Fewer rows may be equal by coincidence."""
MOST_OFTEN = 3
"""A table that repeats an append more often within that time does so regularly: heartbeats, a daily list."""
_TIME = "%Y-%m-%dT%H:%M:%SZ"
MOST_READ = 20
"""Most pairs of appends of one table that are read, the newest first."""


@dataclass(frozen=True)
class Append:
    """Describes a live commit that only adds files.

    Attributes:
        name: the commit's name in the format.
        at: when it was committed.
        counts: the counts that another append must share to be a candidate.
        stake: the files, rows and bytes that it added.
        subject: URI of the file that records it.
        number: of its state; None if it has none.
    """

    name: str
    at: datetime
    counts: Hashable
    stake: Stake
    subject: str
    number: int | None = None


def candidates(appends: Iterable[Append]) -> list[tuple[Append, Append]]:
    """Return appends that follow one with equal counts soon, and not as a habit; the newest first."""
    groups: dict[Hashable, list[Append]] = defaultdict(list)
    for each in appends:
        if (each.stake.rows or 0) >= FEWEST_ROWS:
            groups[each.counts].append(each)
    pairs = []
    for equal in groups.values():
        ordered = sorted(equal, key=lambda each: (each.at, each.name))
        if not _is_habit(ordered):
            pairs += [
                (older, younger) for older, younger in pairwise(ordered) if younger.at - older.at <= WITHIN
            ]
    return sorted(pairs, key=lambda pair: pair[1].at, reverse=True)[:MOST_READ]


def _is_habit(ordered: Sequence[Append]) -> bool:
    return any(
        last.at - first.at <= WITHIN for first, last in zip(ordered, ordered[MOST_OFTEN:], strict=False)
    )


def witness(table: str, older: Append, younger: Append, unit: str, equal: str) -> Witness:
    """Return the witness of a pair; `unit` is the format's word for commits, `equal` names the equal features."""
    words = (
        f"{unit} {older.name} ({older.at:{_TIME}}) and {younger.name} ({younger.at:{_TIME}}) each appended "
        f"{younger.stake.files:,} files of equal {equal}"
    )
    claim = (table, REPEATED_BATCH, (CONTENT,), younger.subject, words, younger.number)
    return Witness(*claim, stake=younger.stake)
