"""Find the tables that a quarantined file came from: only their current state shows that the file is not needed. Pure.

A table that left the lake file, or cannot be read completely, may still list the file: a slow writer may commit it
later. So the last copy of a file stays until its own table has been read and does not list it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.references import Key

BY_HAND = "or remove the file by hand once no table needs it"


@dataclass(frozen=True)
class Origins:
    """The tables of the lake file, and the locations of tables under earlier names.

    Attributes:
        tables: tables of the lake file.
        locations: URI by table name at which the last audit read the table.
    """

    tables: Sequence[Table] = ()
    locations: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str, file: Key) -> list[Table]:
        """Return the table of that name, or tables at its location under another name, that contain the file."""
        holding = [table for table in self.tables if table.location.holds(*file)]
        known = self.locations.get(name)
        if known is None:
            return [table for table in holding if table.name == name]
        return [table for table in holding if table.location.uri == known]

    def unread(self, name: str, file: Key, whole: Collection[str]) -> str:
        """Return why the file's table may list it unnoticed; empty: `whole`, the completely read tables, has it."""
        tables = self.of(name, file)
        if not tables:
            return (
                f"the lake file has no table {name} at the location of the file, which may list it: "
                f"add the table again, {BY_HAND}"
            )
        unread = sorted(table.name for table in tables if table.name not in whole)
        if unread:
            return (
                f"its table {unread[0]} cannot be read completely now, and may list it: "
                f"make the table readable again, {BY_HAND}"
            )
        return ""


def locations_of(states: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return by table the location at which it was last read, from rows of `states`."""
    read = [row for row in states if row["standing"] == "read" and row["location"]]
    return {row["table_name"]: row["location"] for row in sorted(read, key=_age)}


def _age(row: Mapping[str, Any]) -> tuple[datetime, str]:
    return row["as_of"], row["run_id"]
