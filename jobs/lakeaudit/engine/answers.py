"""Holds the answers of an engine run on the driver: small kinds in memory, large kinds in tables that spill."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
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


def hold_answers(con: Connection, answers: Answers) -> AnswersByKind:
    """Put the answers into tables of this connection; kinds with few rows stay in memory."""
    batches_by_kind: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    tables: dict[str, str] = {}
    rows: Counter[str] = Counter()
    for kind, batch in answers:
        batches_by_kind[kind].append(batch)
        rows[kind] += batch.num_rows
        if rows[kind] >= duck.BATCH_ROWS:
            _insert(con, tables, kind, batches_by_kind.pop(kind))
            del rows[kind]
    small = {kind: pa.Table.from_batches(batches_by_kind.pop(kind)) for kind in _small_kinds(rows, tables)}
    for kind, batches in batches_by_kind.items():
        _insert(con, tables, kind, batches)
    return {kind: duck.table_relation(con, name) for kind, name in tables.items()} | small


def _small_kinds(rows: Mapping[str, int], tables: Collection[str]) -> list[str]:
    return [kind for kind, number in rows.items() if number < FEW and kind not in tables]


def _insert(con: Connection, tables: dict[str, str], kind: str, batches: Sequence[pa.RecordBatch]) -> None:
    rows = duck.relation(con, pa.Table.from_batches(batches))
    if kind in tables:
        rows.insert_into(tables[kind])
    else:
        tables[kind] = duck.fresh_name()
        rows.create(tables[kind])


def answers_of(con: Connection, answers: AnswersByKind, kind: str) -> Relation:
    """Return the rows of one kind; an empty relation if there are none."""
    return duck.relation(con, answers.get(kind, ANSWERS[kind].empty_table()))


def few_answers(answers: AnswersByKind, kind: str) -> list[dict[str, Any]]:
    """Return the rows of a small kind as Python objects."""
    return duck.rows_of(answers[kind]) if kind in answers else []


def tallies_of(rows: Relation) -> Tallies:
    """Return tallies from few rows: tables x axes x outcomes."""
    return coverage.tallies(duck.rows_of(rows))
