"""Watched places: prefixes with files that no table owns, and tables that nobody names."""

from tests.builders.group_scenario import GroupScenario, group, watched
from tests.builders.scenario import Row

UNOWNED, TABLE = "unowned", "unregistered_table"


def prefix(name: str, verdict: str, row: Row) -> GroupScenario:
    return group("watched", name, verdict, row)


SCENARIOS = (
    # healthy
    prefix("a table that a catalog names", "ok", watched(9, "delta", named=True)),
    prefix("files of a table that a catalog names", "ok", watched(named=True)),
    prefix("a catalog names it, where another catalog could not be read", "ok", watched(named=True, untold=True)),
    prefix("a catalog names a table that was made just now", "ok", watched(0, "iceberg", signed=False, named=True)),
    # young
    prefix("files that were written just now", "young", watched(0)),
    prefix("a table that was made just now", "young", watched(0, "delta", signed=False)),
    prefix("an old folder that was made a table just now", "young", watched(3, "delta", signed=False)),
    prefix("an old log without old data is still one of a table", TABLE, watched(1, "delta")),
    prefix("an old log whose files are all ignored", "young", watched(0, "delta")),
    prefix("written just now, where a catalog could not be read", "young", watched(0, untold=True)),
    # cannot be told
    prefix("files of a table that a catalog may name, which could not be read", "undecided", watched(untold=True)),
    prefix("a table that a catalog may name, which could not be read", "undecided", watched(9, "hudi", untold=True)),
    # findings
    prefix("files that nobody owns", UNOWNED, watched()),
    prefix("one file that nobody owns", UNOWNED, watched(1)),
    prefix("a Delta table that nobody names", TABLE, watched(9, "delta")),
    prefix("folders of partitions that nobody names", TABLE, watched(9, "hive")),
)  # fmt: skip
