"""Compare states whose file was written twice with the older version that storage keeps."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakeaudit.checks.lineage.marked_states import OWN_FOLDER
from lakeaudit.collect.evidence import Evidence
from lakeaudit.errors import SourceError
from lakeaudit.evidence.lineage import METADATA, RIVAL_LINE, Witness
from lakeaudit.evidence.protocol import Claims
from lakeaudit.keys import Location

MOST_READ = 200
"""Older versions of states that are read in one run."""


def of_older_versions(evidence: Evidence, replaced: Sequence[Mapping[str, Any]]) -> list[Witness]:
    """Return witnesses of overwritten states whose older version has content that the table lacks.

    Args:
        evidence: the evidence of the run.
        replaced: REPLACED_VERSION rows.
    """
    if evidence.partitions or not evidence.context.live:
        return []
    pairs = [*_pairs(evidence, replaced)][:MOST_READ]
    return [one for read, name, row in pairs if (one := _of_version(evidence, read, name, row)) is not None]


def _pairs(
    evidence: Evidence, replaced: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Claims, str, Mapping[str, Any]]]:
    """Yield each overwritten state with the reader and the name of its table."""
    rows = by_root(replaced)
    for read in evidence.observed.sources.claims:
        for fact in evidence.facts_in_scope:
            name, place = fact.table.name, fact.table.location
            if read.replaced_state is not None and name in read.states:
                grouped = rows.get((read.info.kind, place.bucket, place.prefix), ())
                yield from ((read, name, row) for row in grouped)


def _of_version(evidence: Evidence, read: Claims, table: str, row: Mapping[str, Any]) -> Witness | None:
    place = Location(row["bucket"], row["key"])
    if read.replaced_state is None:
        return None
    try:
        return read.replaced_state(table, place, row["version_id"], evidence.context.clients)
    except SourceError as error:
        words = f"{place.uri} was written again, and its older version cannot be read: {error.what}"
        return Witness(table, RIVAL_LINE, (METADATA,), place.uri, words, row["number"])


def by_root(states: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], list[Mapping[str, Any]]]:
    """Group states by format, bucket and the prefix of the table whose metadata folder has them."""
    grouped: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in states:
        prefix = re.sub(OWN_FOLDER, "", row["folder"])
        grouped.setdefault((row["format"], row["bucket"], prefix), []).append(row)
    return grouped
