"""Holds the answers of an engine run on the driver: small kinds in memory, large kinds in tables that spill."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakeaudit.engine.local import Answers
from lakeaudit.findings import coverage
from lakeaudit.findings.coverage import Tallies
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import ANSWERS

AnswersByKind = Mapping[str, Relation | pa.Table]
"""Answers by kind of row."""

FEW = 1000
"""Kinds with fewer rows stay in memory: to create a table takes longer than to read them."""


class AnswerTables:
    """Collects answers on the driver: kinds with few rows in memory, others in tables that spill."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._batches: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._tables: dict[str, str] = {}
        self._rows: Counter[str] = Counter()

    def add(self, kind: str, batch: pa.RecordBatch) -> None:
        self._batches[kind].append(batch)
        self._rows[kind] += batch.num_rows
        if self._rows[kind] >= duck.BATCH_ROWS:
            self._insert(kind)

    def by_kind(self) -> AnswersByKind:
        """All answers."""
        for kind in [kind for kind in self._batches if kind in self._tables or self._rows[kind] >= FEW]:
            self._insert(kind)
        small = {kind: pa.Table.from_batches(batches) for kind, batches in self._batches.items()}
        return {kind: duck.table_relation(self._con, name) for kind, name in self._tables.items()} | small

    def _insert(self, kind: str) -> None:
        rows = duck.relation(self._con, pa.Table.from_batches(self._batches.pop(kind)))
        del self._rows[kind]
        if kind in self._tables:
            rows.insert_into(self._tables[kind])
        else:
            self._tables[kind] = duck.fresh_name(self._con)
            rows.create(self._tables[kind])


def hold_answers(con: Connection, answers: Answers) -> AnswersByKind:
    """Collect all answers."""
    tables = AnswerTables(con)
    for kind, batch in answers:
        tables.add(kind, batch)
    return tables.by_kind()


def answers_of(
    con: Connection, answers: AnswersByKind, kind: str, schema: pa.Schema | None = None
) -> Relation:
    """Return the rows of one kind; an empty relation if there are none.

    Args:
        con: the driver's connection.
        answers: what the tasks returned.
        kind: of row.
        schema: of these rows; None: the kind is one of `schemas.ANSWERS`.
    """
    empty = (ANSWERS[kind] if schema is None else schema).empty_table()
    return duck.relation(con, answers.get(kind, empty))


def few_answers(answers: AnswersByKind, kind: str) -> list[dict[str, Any]]:
    """Return the rows of a small kind as Python objects."""
    return duck.rows_of(answers[kind]) if kind in answers else []


def tallies_of(rows: Relation) -> Tallies:
    """Return tallies from few rows: tables x axes x outcomes."""
    return coverage.tallies(duck.rows_of(rows))
