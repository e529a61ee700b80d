"""What was open at the end of each of the last days, by table and severity. Pure: counted elsewhere."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from lakeaudit.kinds import SEVERITIES

SPAN = 30
"""Days, today the last of them."""

Numbers = tuple[int, ...]
"""One number a day."""


@dataclass(frozen=True)
class OpenByDay:
    """Numbers at the end of each day, oldest first; what somebody accepts today is left out of every day.

    `audited` are the days on which a run was published: on the others nobody looked.
    """

    days: tuple[date, ...]
    numbers: Mapping[tuple[str, str], Numbers] = field(default_factory=dict)
    """By table and severity."""
    audited: frozenset[date] = frozenset()

    def of_severity(self, severity: str) -> Numbers:
        """Of the whole lake."""
        return self._summed(numbers for (_, each), numbers in self.numbers.items() if each == severity)

    def of_table(self, table: str) -> Numbers:
        """Of all severities."""
        return self._summed(self.by_severity(table).values())

    def serious(self, table: str) -> Numbers:
        """Of what is above info: old rubbish hides no burst."""
        by = self.by_severity(table).items()
        return self._summed(numbers for severity, numbers in by if severity != SEVERITIES[-1])

    def by_severity(self, table: str) -> Mapping[str, Numbers]:
        """Worst first."""
        found = {name: self.numbers.get((table, name)) for name in SEVERITIES}
        return {name: numbers for name, numbers in found.items() if numbers}

    def _summed(self, of: Iterable[Numbers]) -> Numbers:
        return tuple(map(sum, zip(*of, strict=True))) or (0,) * len(self.days)
