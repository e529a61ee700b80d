"""Partitions: the parts of its tables that a live audit was asked to look at. Of the rest it says nothing at all."""

import re
from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import DataFrame

from lakeaudit.config import Table
from lakeaudit.errors import BadInput
from lakeaudit.keys import Location
from lakeaudit.longest_prefix_match import attach_label

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
    outer = [part for part in named if not any(part.startswith(f"{other}/") for other in named)]
    return (
        {table.name: tuple(table.location.join(part) for part in outer) for table in tables} if outer else {}
    )


def within(rows: DataFrame, parts: Parts) -> DataFrame:
    """The rows (bucket, key) that lie in one of the places; all of them where whole tables were asked for."""
    if not parts:
        return rows
    return _placed(rows, parts).filter("__part is not null").drop("__part")


def known(rows: DataFrame, parts: Parts) -> frozenset[str]:
    """URIs of the places in which any of the rows (bucket, key) lies."""
    if not parts:
        return frozenset()
    found = _placed(rows.select("bucket", "key"), parts).select("__part").distinct().collect()
    return frozenset(row["__part"] for row in found if row["__part"] is not None)


def _placed(rows: DataFrame, parts: Parts) -> DataFrame:
    places = {place: place.uri for of_table in parts.values() for place in of_table}
    return attach_label(rows, places, "__part")


def narrowed(parts: Parts, known: Collection[str]) -> dict[str, str]:
    """By table why its coverage is partial: what was asked for, or that nobody knows a file in some of it."""
    said = {}
    for table, places in parts.items():
        asked = [place.uri for place in places]
        blind = [uri for uri in asked if uri not in known]
        said[table] = (
            f"{_NOBODY} {', '.join(blind)}" if blind else f"only {', '.join(asked)} was looked at, as asked"
        )
    return said


def as_asked(narrowed: Mapping[str, str]) -> frozenset[str]:
    """The reasons that only repeat what was asked for."""
    return frozenset(reason for reason in narrowed.values() if not reason.startswith(_NOBODY))


_NOBODY = "neither a manifest nor storage knows a file in"
