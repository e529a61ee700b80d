"""The tables that a file came from: only what they say now shows that nobody needs the last of it. Pure.

A table that left the lake file, or that cannot be read completely, may list the file all the same: a slow writer
commits it later. So the last of a file stays until its own table is read and does not list it.
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
    """Knows the tables of the lake file now, and where the audits read tables under the names that they had.

    Attributes:
        tables: those of the lake file.
        locations: by name the location, as a URI, at which the last audit read the table.
    """

    tables: Sequence[Table] = ()
    locations: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str, file: Key) -> list[Table]:
        """The table of that name, or those at its location under another name, if they hold the file."""
        holding = [table for table in self.tables if table.location.holds(*file)]
        known = self.locations.get(name)
        if known is None:
            return [table for table in holding if table.name == name]
        return [table for table in holding if table.location.uri == known]

    def unread(self, name: str, file: Key, whole: Collection[str]) -> str:
        """Why nobody can tell whether the table of a file lists it; empty where all of `whole` were read, and it is."""
        tables = self.of(name, file)
        if not tables:
            return (
                f"its table {name} is not in the lake file at the place of the file, and may list it: "
                f"name the table there again, {BY_HAND}"
            )
        unread = sorted(table.name for table in tables if table.name not in whole)
        if unread:
            return (
                f"its table {unread[0]} cannot be read completely now, and may list it: "
                f"make the table readable again, {BY_HAND}"
            )
        return ""


def locations_of(states: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By table the location at which it was last read, of rows of `states`."""
    read = [row for row in states if row["standing"] == "read" and row["location"]]
    return {row["table_name"]: row["location"] for row in sorted(read, key=_age)}


def _age(row: Mapping[str, Any]) -> tuple[datetime, str]:
    return row["as_of"], row["run_id"]
