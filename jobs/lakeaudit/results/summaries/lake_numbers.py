"""Counts what is open in a lake, and what one run changed, for the metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeaudit.kinds import SEVERITIES
from lakeaudit.results.read import Results
from lakeaudit.results.sql import ask, text
from lakeaudit.results.summaries.lake_standing import standing

TRANSITIONS = ("opened", "reopened", "escalated", "reclassified", "resolved")
"""The changes of a discrepancy that a run can make."""


@dataclass(frozen=True)
class OpenSums:
    """Open and not accepted discrepancies of one table or of several.

    `rows` are at stake in the discrepancies of each table's worst severity above info, so that no file is counted
    twice; `without_rows` counts those of them whose number of rows is unknown.
    """

    numbers: Mapping[str, int]
    rows: int = 0
    without_rows: int = 0

    @property
    def number(self) -> int:
        return sum(self.numbers.values())


NOTHING_OPEN = OpenSums({})


def total(parts: Sequence[OpenSums]) -> OpenSums:
    """Return the sums of several tables."""
    numbers: dict[str, int] = {}
    for part in parts:
        for severity, number in part.numbers.items():
            numbers[severity] = numbers.get(severity, 0) + number
    return OpenSums(numbers, sum(part.rows for part in parts), sum(part.without_rows for part in parts))


def open_sums(results: Results, now: datetime) -> dict[str | None, OpenSums]:
    """Return the sums by table; tables without an open discrepancy are left out.

    Raises:
        CannotAudit: the results cannot be read.
    """
    sql = f"""SELECT table_name, severity, count(*) AS number, coalesce(sum(rows_at_stake), 0) AS rows,
            count(*) - count(rows_at_stake) AS without_rows
        FROM discrepancies WHERE {standing(now)} = 'open' GROUP BY table_name, severity"""
    numbers: dict[str | None, dict[str, int]] = {}
    stakes: dict[tuple[str | None, str], tuple[int, int]] = {}
    for row in ask(results, sql, "discrepancies"):
        numbers.setdefault(row["table_name"], {})[row["severity"]] = row["number"]
        stakes[row["table_name"], row["severity"]] = row["rows"], row["without_rows"]
    worst = {name: next((s for s in SEVERITIES[:-1] if s in by), "") for name, by in numbers.items()}
    return {name: OpenSums(by, *stakes.get((name, worst[name]), (0, 0))) for name, by in numbers.items()}


def run_changes(results: Results, run_id: str) -> dict[str, int]:
    """Return how many discrepancies one run changed, by transition.

    Raises:
        CannotAudit: the results cannot be read.
    """
    sql = f"SELECT transition, count(*) AS number FROM transitions WHERE run_id = {text(run_id)} GROUP BY transition"
    counted = {row["transition"]: row["number"] for row in ask(results, sql, "transitions")}
    return {transition: counted.get(transition, 0) for transition in TRANSITIONS}
