"""How many files partitions have, by what manifests list: asked only where very many of one are wrong alike."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from lakeaudit.compare.bulk_changes import Partition
from lakeaudit.evidence.protocol import Claims, Fold, pieces
from lakeaudit.pipeline.chunks import Reading
from lakeaudit.pipeline.engine import AuditEngine
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import CLAIM

_NAMES = pa.schema([("table_name", pa.string()), ("partition_path", pa.string())])


def files_of_partitions(
    engine: AuditEngine, claims: Sequence[Claims], partitions: Collection[Partition]
) -> dict[Partition, int]:
    """Files of each of these partitions that a state of its table lists, or has listed and still promises."""
    wanted = duck.small(_NAMES, sorted(partitions))
    rows = [each for read in claims for each in pieces(*read.rows)]
    stage = partial(_counted, tuple(read.fold for read in claims), wanted)
    found: Counter[Partition] = Counter()
    for kind, batch in engine.run(rows, [stage], Reading(partial(_of_tables, wanted))):
        if kind == _ANSWER:
            found.update({(r["table_name"], r["partition_path"]): r["files"] for r in batch.to_pylist()})
    return dict(found)


_ANSWER = "files_of_partitions"


def _of_tables(wanted: pa.Table, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Of the rows of a part those about these tables."""
    if "table_name" in duck.relation(con, rows).types:
        sql = "SELECT * FROM input SEMI JOIN wanted USING (table_name)"
        yield kind, duck.query(con, sql, input=rows, wanted=wanted)


def _counted(
    folds: Sequence[Fold], wanted: pa.Table, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    claims = duck.union(
        con, [CLAIM.empty_table(), *(duck.conform(con, fold(con, rows), CLAIM) for fold in folds)]
    )
    sql = """
        SELECT table_name, partition_path, count(*) AS files FROM claims SEMI JOIN wanted
            USING (table_name, partition_path)
        WHERE state <> 'gone' GROUP BY ALL
    """
    yield _ANSWER, duck.query(con, sql, claims=claims, wanted=wanted)
