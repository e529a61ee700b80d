"""Partitions: the parts of its tables that a live audit was asked to look at. Of the rest it says nothing at all."""

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from lakeaudit.compare.coverage import Tallies
from lakeaudit.config import Table
from lakeaudit.errors import BadInput
from lakeaudit.keys import Location
from lakeaudit.owners import attach_label

_PARTITION = re.compile(r"[^/=]+=[^/]*(/[^/=]+=[^/]*)*")

Parts = Mapping[str, tuple[Location, ...]]
"""By table the places that were asked for; empty: whole tables were."""


def parts_of(tables: Sequence[Table], partitions: Sequence[str]) -> Parts:
    """The places of `col=value/col=value` partitions, spelled as their folders are, in each of the tables.

    Raises:
        BadInput: one is no such partition.
    """
    named = dict.fromkeys(partition.strip("/") for partition in partitions)
    for partition in named:
        if not _PARTITION.fullmatch(partition):
            raise BadInput(f"--partition {partition}", "is no partition", "write col=value/col=value")
    return (
        {table.name: tuple(table.location.join(part) for part in named) for table in tables} if named else {}
    )


def within(rows: DataFrame, parts: Parts) -> DataFrame:
    """The rows (bucket, key) that lie in one of the places; all of them where whole tables were asked for."""
    if not parts:
        return rows
    places = {place: place.uri for of_table in parts.values() for place in of_table}
    return attach_label(rows, places, "__part").filter("__part is not null").drop("__part")


def narrowed(parts: Parts, tallies: Tallies) -> dict[str, str]:
    """By table why its coverage is partial: what was asked for, or that nobody knows a file there."""
    known = {table for (table, _), tally in tallies.items() if tally.files}
    asked = {table: ", ".join(place.uri for place in places) for table, places in parts.items()}
    return {
        table: f"only {names} was looked at, as asked" if table in known else f"{_NOBODY} {names}"
        for table, names in asked.items()
    }


def as_asked(narrowed: Mapping[str, str]) -> frozenset[str]:
    """The reasons that only repeat what was asked for."""
    return frozenset(reason for reason in narrowed.values() if not reason.startswith(_NOBODY))


_NOBODY = "neither a manifest nor storage knows a file in"
