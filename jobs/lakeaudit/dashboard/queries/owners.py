"""Selects the tables of one owner, and sums them up."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lakeaudit.config import Lake, glob_to_regex
from lakeaudit.dashboard.queries.lake import Health
from lakeaudit.formatting import visible
from lakeaudit.results.summaries.open_by_day import OpenByDay

NO_OWNER = "(no owner)"


def owners(lake: Lake, tables: Iterable[str]) -> Mapping[str, str]:
    """Return the owner of each table by the lake file, `NO_OWNER` for a table without one."""
    named = {table.name: table.owner for table in lake.tables}
    return {name: _owner(lake, named, name) or NO_OWNER for name in tables}


def _owner(lake: Lake, named: Mapping[str, str | None], name: str) -> str | None:
    """Return the owner of a table: its own, or for a discovered one the only discovery's, or a pattern's."""
    if name in named:
        return named[name]
    found = {each.owner for each in lake.discoveries} | {each.owner for each in lake.catalog_discoveries}
    if len(found) == 1 and None not in found:
        return found.pop()
    return next((by.owner for by in lake.owners if re.fullmatch(glob_to_regex(by.match), name)), None)


def owner_text(owners: Mapping[str, str], table: str) -> str:
    """Return the owner of a table for people; empty: it has none, or `owners` lacks the table."""
    owner = owners.get(table, NO_OWNER)
    return "" if owner == NO_OWNER else visible(owner)


def days_of(days: OpenByDay, tables: Sequence[Health]) -> OpenByDay:
    """Return the numbers by day of these tables only."""
    names = {health.table for health in tables}
    return replace(days, numbers={of: each for of, each in days.numbers.items() if of[0] in names})
