"""Partitions: the parts of its tables that a live audit was asked to look at. Of the rest it says nothing at all."""

import re
from collections.abc import Collection, Mapping, Sequence

from lakeaudit.config import Table
from lakeaudit.errors import BadInput
from lakeaudit.keys import Location

_PARTITION = re.compile(r"[^/=]+=[^/]*(/[^/=]+=[^/]*)*")

Partitions = Mapping[str, tuple[Location, ...]]
"""By table the places that were asked for; empty: whole tables were."""


def partitions_of(tables: Sequence[Table], partitions: Sequence[str]) -> Partitions:
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


def uris(partitions: Partitions) -> dict[Location, str]:
    """The URI of every place that was asked for."""
    return {place: place.uri for places in partitions.values() for place in places}


def scope_reasons(partitions: Partitions, known: Collection[str]) -> dict[str, str]:
    """By table why its coverage is partial: what was asked for, or that nobody knows a file in some of it."""
    reasons = {}
    for table, places in partitions.items():
        asked = [place.uri for place in places]
        unknown = [uri for uri in asked if uri not in known]
        reasons[table] = (
            f"{_NOBODY} {', '.join(unknown)}"
            if unknown
            else f"only {', '.join(asked)} was looked at, as asked"
        )
    return reasons


def requested_reasons(scope_reasons: Mapping[str, str]) -> frozenset[str]:
    """The reasons that only repeat what was asked for."""
    return frozenset(reason for reason in scope_reasons.values() if not reason.startswith(_NOBODY))


_NOBODY = "neither a manifest nor storage knows a file in"
