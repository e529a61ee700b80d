"""Queries the claims of some tables: reads only the parts that may contain them, and folds them share by share.

It serves checks that need more than the sums of the match, for a few tables or keys.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.engine.chunks import Reading
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import BufferedRows, Claims, Fold, Part, pieces
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM

Question = Callable[[Connection, Rows], Relation]
"""Turns the CLAIM rows of a share into answer rows; travels to the tasks."""


def query_claims(
    engine: AuditEngine,
    claims: Sequence[Claims],
    tables: Collection[str],
    question: Question,
    keys: pa.Table | None = None,
) -> list[pa.RecordBatch]:
    """Return the answers of all shares.

    Args:
        engine: the engine that reads the parts.
        claims: the manifests.
        tables: names of the tables whose claims are queried.
        question: the query.
        keys: bucket and key of the files that are queried; None: all files.
    """
    parts = [part for read in claims for part in parts_of(read, tables)]
    stage = partial(_answer, tuple(read.fold for read in claims), question)
    reading = Reading(partial(_only, tuple(sorted(tables)), keys))
    return [batch for kind, batch in engine.run(parts, [stage], reading) if kind == _ANSWER]


def claims_of(
    engine: AuditEngine, claims: Claims, tables: Collection[str], keys: pa.Table
) -> tuple[list[pa.RecordBatch], list[Mapping[str, Any]]]:
    """Return the CLAIM rows of some keys, and the NOTE rows of parts that could not be read."""
    stage = partial(_answer, (claims.fold,), _as_they_are)
    answers = [
        *engine.run(
            [*parts_of(claims, tables)], [stage], Reading(partial(_only, tuple(sorted(tables)), keys))
        )
    ]
    notes = [row for kind, batch in answers if kind == "notes" for row in batch.to_pylist()]
    return [batch for kind, batch in answers if kind == _ANSWER], notes


_ANSWER = "answer about claims"


def _as_they_are(con: Connection, rows: Rows) -> Relation:
    return duck.relation(con, rows)


def parts_of(read: Claims, tables: Collection[str]) -> Iterator[Part | BufferedRows]:
    """Return the parts of a manifest that may contain rows of these tables."""
    return pieces(*(read.rows if read.rows_of is None else read.rows_of(tables)))


def _only(
    tables: Sequence[str], keys: pa.Table | None, con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    """Filter the rows of a part by tables and keys."""
    columns = set(duck.relation(con, rows).columns)
    if "table_name" in columns:
        of_tables = f"SELECT * FROM input WHERE table_name IN ({duck.literals(tables)})"
        rows = duck.query(con, of_tables, input=rows)
    if keys is None:
        yield kind, rows
    elif {"bucket", "key"} <= columns:
        of_keys = "SELECT * FROM input SEMI JOIN keys USING (bucket, key)"
        yield kind, duck.query(con, of_keys, input=rows, keys=keys)


def _answer(
    folds: Sequence[Fold], question: Question, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    folded = [duck.conform(con, fold(con, rows), CLAIM) for fold in folds]
    yield _ANSWER, question(con, duck.union(con, [CLAIM.empty_table(), *folded]))
