"""Defines the result of the match: tallies, and the rows that a later step has to confirm or judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeaudit.engine.answers import AnswersByKind, answers_of, few_answers
from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.findings.coverage import Tallies
from lakeaudit.keys import Location
from lakeaudit.runtime.duck import Connection, Relation

Counts = Mapping[str, Mapping[str, Any]]
"""By source id: rows, rejected, sample."""


Listed = tuple[int, int | None]
"""Data files that a table's newest state lists, and their bytes; None: not recorded for all."""

SMALL_FILE = 16 << 20
"""Bytes below which a data file is small: reading it costs more requests than bytes."""


@dataclass(frozen=True)
class SmallFiles:
    """The number and the bytes of the small data files that the newest state of a table lists."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class MatchResult:
    """The answers of the tasks: tallies of settled rows, and, on the driver's connection, all other rows."""

    con: Connection
    selected: AnswersByKind
    """Rows by kind, see `rows`."""

    tallies: Tallies
    suspects: Relation
    fresh: Relation
    leftovers: Relation
    uploads: Relation
    entries: Relation
    claimed: Relation
    folders: Relation
    live: Mapping[str, Listed]
    """By table."""
    live_rows: Mapping[str, int]
    """By table the rows of these files; without tables for which they are not recorded."""
    small_files: Mapping[str, SmallFiles]
    """By table; without tables of which the prefilter has cleared files, whose sizes it does not return."""
    nested: Mapping[Location, frozenset[str]]
    """Roots of tables in tables' folders, with the formats of their metadata."""
    vacuums: Sequence[Mapping[str, Any]]
    counts: Counts
    holes: tuple[EvidenceGap, ...]
    partitions: frozenset[str]

    def rows(self, kind: str, schema: pa.Schema | None = None) -> Relation:
        """Return the rows that a check selected in the tasks, see `answers_of`."""
        return answers_of(self.con, self.selected, kind, schema)

    def few(self, kind: str) -> tuple[Mapping[str, Any], ...]:
        """Return the rows of a small kind as Python objects."""
        return tuple(few_answers(self.selected, kind))
