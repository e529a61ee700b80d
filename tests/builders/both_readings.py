"""Matches of a lake with and without a projection pass before them, and the differences of their answers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.audit import match as first
from lakeaudit.audit import projection_pass
from lakeaudit.audit.projection_pass import Prefiltered
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.match_result import MatchResult
from lakeaudit.engine import chunks
from lakeaudit.engine.local import AuditEngine, InProcessEngine
from lakeaudit.evidence.protocol import BufferedRows, Part
from lakeaudit.matching import prefilter
from lakeaudit.runtime import duck
from tests.builders.connections import connection
from tests.builders.screen_lake import ScreenLake


@dataclass
class FirstAnswers:
    """The answers of one match, and the keys that were prefiltered before it."""

    answers: Mapping[str, Any]
    gone: Prefiltered = field(default_factory=Prefiltered)

    @property
    def files(self) -> int:
        """Return how many files were prefiltered."""
        return sum(row["files"] for row in self.gone.settled)


def in_full(lake: ScreenLake) -> FirstAnswers:
    """Everything is read in full at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection_pass, "PREFILTER_FROM", 1 << 60)
        return _read(lake, InProcessEngine(2))


def narrowly(lake: ScreenLake, engine: AuditEngine | None = None, bits: int = prefilter.BITS) -> FirstAnswers:
    """Match after a projection pass over everything, which clears keys by 2^`bits` buckets."""
    with pytest.MonkeyPatch.context() as patch, buckets(patch, bits):
        patch.setattr(projection_pass, "PREFILTER_FROM", 0)
        return _read(lake, engine or InProcessEngine(2))


@contextmanager
def buckets(patch: pytest.MonkeyPatch, bits: int) -> Iterator[None]:
    """Buckets of as many bits of the hash."""
    number = f"CAST(h >> {64 - bits} AS UINTEGER)"
    patch.setattr(prefilter, "BITS", bits)
    patch.setattr(prefilter, "BUCKET", number)
    patch.setitem(chunks.ROUTES, "traces", number)
    yield


def _read(lake: ScreenLake, engine: AuditEngine) -> FirstAnswers:
    gone: list[Prefiltered] = []

    def recording_pass(
        evidence: Evidence, runner: AuditEngine, rows: Sequence[Part | BufferedRows]
    ) -> Prefiltered:
        gone.append(projection_pass.run_projection_pass(evidence, runner, rows))
        return gone[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first, "run_projection_pass", recording_pass)
        answers = _answers(_match(lake.evidence(), engine))
    return FirstAnswers(answers, gone[-1])


def _match(evidence: Evidence, engine: AuditEngine) -> MatchResult:
    """Match rows that show no new gaps."""
    while True:
        read = first.read_rows(evidence, engine)
        evidence = first.with_gaps_of_rows(read)
        if evidence.gaps == read.evidence.gaps:
            return first.match(read, engine)


def _answers(read: MatchResult) -> dict[str, Any]:
    """Return every answer of a match, its relations as tables."""
    tables = {
        name: duck.table(getattr(read, name)) for name in ("suspects", "leftovers", "uploads", "entries")
    }
    tables["copies"] = duck.table(read.rows("copies"))
    tallies = {
        place: ({k: n for k, n in tally.outcomes.items() if n}, tally.bytes, tally.unconfirmed, tally.refuted)
        for place, tally in read.tallies.items()
        if tally.files or tally.bytes
    }
    return {
        **tables, "claimed": _files_by_table(read.claimed), "tallies": tallies, "counts": read.counts,
        "holes": read.holes,
        "vacuums": sorted(read.vacuums, key=repr), "partitions": read.partitions,
    }  # fmt: skip


def _files_by_table(claimed: duck.Relation) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for row in duck.rows_of(claimed):
        sums[row["judged_table"], row["source"]] += row["files"]
    return dict(sums)


def differences(one: FirstAnswers, other: FirstAnswers) -> dict[str, Any]:
    """Return the missing and the surplus rows of `other` by answer; empty if both are equal."""
    found: dict[str, Any] = {}
    con = connection()
    for name, left in one.answers.items():
        right = other.answers[name]
        if not isinstance(left, pa.Table):
            found |= {} if left == right else {name: (left, right)}
        elif missing := _without(con, left, right):
            found |= {name: (missing, _without(con, right, left))}
        elif left.num_rows != right.num_rows:  # of as many, none of which is missing, none is one too many
            found |= {name: ([], _without(con, right, left))}
    con.close()
    return found


def _without(con: duck.Connection, one: pa.Table, other: pa.Table) -> list[Any]:
    columns = ", ".join(map(duck.quoted, sorted(one.schema.names)))
    sql = f"SELECT {columns} FROM one EXCEPT ALL SELECT {columns} FROM other"
    rows = duck.rows_of(duck.query(con, sql, one=one, other=other))
    shown = ("bucket", "key", "axis", "judged_table", "rule", "outcome", "source")
    return [{name: row[name] for name in shown if name in row} for row in rows]
