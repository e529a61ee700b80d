"""Selects the tables of one owner, and sums them up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lakeaudit.config import Lake
from lakeaudit.dashboard.queries.lake import Health
from lakeaudit.formatting import visible
from lakeaudit.results.summaries.open_by_day import OpenByDay

NO_OWNER = "(no owner)"


def owners(lake: Lake, tables: Iterable[str]) -> Mapping[str, str]:
    """Return the owner of each table by the lake file, `NO_OWNER` for a table without one."""
    return {name: owner or NO_OWNER for name, owner in lake.owners_of(tables).items()}


def owner_text(owners: Mapping[str, str], table: str) -> str:
    """Return the owner of a table for people; empty: it has none, or `owners` lacks the table."""
    owner = owners.get(table, NO_OWNER)
    return "" if owner == NO_OWNER else visible(owner)


def days_of(days: OpenByDay, tables: Sequence[Health]) -> OpenByDay:
    """Return the numbers by day of these tables only."""
    names = {health.table for health in tables}
    return replace(days, numbers={of: each for of, each in days.numbers.items() if of[0] in names})
