"""Holds how many discrepancies were open at the end of each of the last days, by table and severity. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from lakeaudit.formatting import count
from lakeaudit.kinds import SEVERITIES

SPAN = 30
"""Days, today the last of them."""
_WEEK = 7

Numbers = tuple[int, ...]
"""One number a day."""


@dataclass(frozen=True)
class OpenByDay:
    """Numbers at the end of each day, oldest first; discrepancies that are accepted today are left out of every day.

    `audited` are the days on which a run was published.
    """

    days: tuple[date, ...]
    numbers: Mapping[tuple[str, str], Numbers] = field(default_factory=dict)
    """By table and severity."""
    audited: frozenset[date] = frozenset()

    def of_severity(self, severity: str) -> Numbers:
        """Return the numbers of one severity in the whole lake."""
        return self._sum(numbers for (_, each), numbers in self.numbers.items() if each == severity)

    def of_table(self, table: str) -> Numbers:
        """Return the numbers of one table, all severities together."""
        return self._sum(self.by_severity(table).values())

    def serious(self, table: str) -> Numbers:
        """Return the numbers of one table above info, so that many old unused files do not hide a rise."""
        by = self.by_severity(table).items()
        return self._sum(numbers for severity, numbers in by if severity != SEVERITIES[-1])

    def by_severity(self, table: str) -> Mapping[str, Numbers]:
        """Return the numbers of one table by severity, worst first."""
        found = {name: self.numbers.get((table, name)) for name in SEVERITIES}
        return {name: numbers for name, numbers in found.items() if numbers}

    @property
    def course(self) -> str:
        """Return how many discrepancies above info are open today, were yesterday and a week ago; empty: none were.

        A day without an audit has no number.
        """
        numbers = self._sum(
            each for (_, severity), each in self.numbers.items() if severity != SEVERITIES[-1]
        )
        if not any(numbers) or len(numbers) <= _WEEK:
            return ""
        days = {"today": 0, "yesterday": 1, "a week ago": _WEEK}
        parts = [
            f"{count(numbers[-1 - ago]) if self.days[-1 - ago] in self.audited else 'no audit'} {name}"
            for name, ago in days.items()
        ]
        return f"Open discrepancies above {SEVERITIES[-1]}: {', '.join(parts)}."

    def _sum(self, of: Iterable[Numbers]) -> Numbers:
        return tuple(map(sum, zip(*of, strict=True))) or (0,) * len(self.days)
