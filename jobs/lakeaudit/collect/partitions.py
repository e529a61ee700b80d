"""Handles the partitions that a live audit was requested to check; other files are not judged."""

import re
from collections.abc import Collection, Mapping, Sequence

from lakeaudit.config import Table
from lakeaudit.errors import BadInput
from lakeaudit.keys import Location
from lakeaudit.kinds import PART_REQUESTED, PART_UNKNOWN

_PARTITION = re.compile(r"[^/=]+=[^/]*(/[^/=]+=[^/]*)*")

Partitions = Mapping[str, tuple[Location, ...]]
"""By table the requested places; empty: whole tables."""


def partitions_of(tables: Sequence[Table], partitions: Sequence[str]) -> Partitions:
    """Return the places of `col=value/col=value` partitions, spelled like their folders, in each of the tables.

    Raises:
        BadInput: the spelling of a partition is wrong.
    """
    named = dict.fromkeys(partition.strip("/") for partition in partitions)
    for partition in named:
        if not _PARTITION.fullmatch(partition):
            raise BadInput(f"--partition {partition}", "is not a partition", "write col=value/col=value")
    outer = [part for part in named if not any(part.startswith(f"{other}/") for other in named)]
    return (
        {table.name: tuple(table.location.join(part) for part in outer) for table in tables} if outer else {}
    )


def uris(partitions: Partitions) -> dict[Location, str]:
    """Return the URI of every requested place."""
    return {place: place.uri for places in partitions.values() for place in places}


def scope_reasons(partitions: Partitions, known: Collection[str]) -> dict[str, str]:
    """Return by table why its coverage is partial: the requested partitions, or those without a known file."""
    reasons = {}
    for table, places in partitions.items():
        requested = [place.uri for place in places]
        unknown = [uri for uri in requested if uri not in known]
        reasons[table] = (
            f"{PART_UNKNOWN} {', '.join(unknown)}"
            if unknown
            else f"only {', '.join(requested)}{PART_REQUESTED}"
        )
    return reasons


def requested_reasons(scope_reasons: Mapping[str, str]) -> frozenset[str]:
    """Return the reasons that only repeat the request."""
    return frozenset(reason for reason in scope_reasons.values() if not reason.startswith(PART_UNKNOWN))
