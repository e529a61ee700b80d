"""Defines the result of the match: tallies, and the rows that a later step has to confirm or judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.findings.coverage import Tallies
from lakeaudit.keys import Location
from lakeaudit.runtime.duck import Relation

Counts = Mapping[str, Mapping[str, Any]]
"""By source id: rows, rejected, sample."""


Listed = tuple[int, int | None]
"""Data files that a table's newest state lists, and their bytes; None: not recorded for all."""


@dataclass(frozen=True)
class MatchResult:
    """The answers of the kernel: tallies of judged rows, and other rows on the driver's connection."""

    tallies: Tallies
    suspects: Relation
    fresh: Relation
    leftovers: Relation
    uploads: Relation
    copies: Relation
    moves: Relation
    entries: Relation
    claimed: Relation
    log_versions: Relation
    marked_states: tuple[Mapping[str, Any], ...]
    replaced_versions: tuple[Mapping[str, Any], ...]
    repeated: Relation
    idle_removals: Relation
    changed_rows: Relation
    rivals: Relation
    cloned: Relation
    folders: Relation
    watched: Relation
    live: Mapping[str, Listed]
    """By table."""
    elsewhere: tuple[Mapping[str, Any], ...]
    """By share the places of live files that are not below their table's location."""
    outside: tuple[Mapping[str, Any], ...]
    """Places of listed files that no storage source covers, see `kernel.outside_places`."""
    unnamed_fields: tuple[Mapping[str, Any], ...]
    """Fields that storage does not report for undecided files, see `checks.unnamed_file_fields`."""
    nested: Mapping[Location, frozenset[str]]
    """Roots of tables in tables' folders, with the formats of their metadata."""
    vacuums: Sequence[Mapping[str, Any]]
    counts: Counts
    holes: tuple[EvidenceGap, ...]
    partitions: frozenset[str]
