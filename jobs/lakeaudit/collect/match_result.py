"""The result of the match: tallies of the settled rows, and the rows that a later step has to confirm or judge."""

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
"""Data files that a table's newest state lists, and their bytes; None: not said of all."""


@dataclass(frozen=True)
class MatchResult:
    """What the kernel answers: tallies of what is settled, and on the driver's connection the rows that are not."""

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
    """Of each share where live files lie that are not below their table's location."""
    outside: tuple[Mapping[str, Any], ...]
    """Where listed files lie that no storage source covers, see `kernel.outside_places`."""
    unnamed_fields: tuple[Mapping[str, Any], ...]
    """What storage does not name of undecided files, see `checks.unnamed_file_fields`."""
    nested: Mapping[Location, frozenset[str]]
    """Roots of tables in tables' folders, with the formats of their metadata."""
    vacuums: Sequence[Mapping[str, Any]]
    counts: Counts
    holes: tuple[EvidenceGap, ...]
    partitions: frozenset[str]
