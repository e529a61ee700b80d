"""How many files partitions have, by what manifests list: asked only where very many of one are wrong alike."""

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial

import pyarrow as pa

from lakeaudit.compare.bulk_changes import Partition
from lakeaudit.evidence.protocol import Claims
from lakeaudit.pipeline.ask_claims import ask_claims
from lakeaudit.pipeline.engine import AuditEngine
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

_NAMES = pa.schema([("table_name", pa.string()), ("partition_path", pa.string())])


def files_of_partitions(
    engine: AuditEngine, claims: Sequence[Claims], partitions: Collection[Partition], *, live: bool = False
) -> dict[Partition, int]:
    """Files of each of these partitions that a state of its table lists, or has listed and still promises.

    With `live` only those that the newest state lists.
    """
    wanted = duck.small(_NAMES, sorted(partitions))
    tables = {table for table, _ in partitions}
    found: Counter[Partition] = Counter()
    for batch in ask_claims(engine, claims, tables, partial(_counted, wanted, live)):
        found.update({(r["table_name"], r["partition_path"]): r["files"] for r in batch.to_pylist()})
    return dict(found)


def _counted(wanted: pa.Table, live: bool, con: Connection, claims: Rows) -> Relation:
    sql = f"""
        SELECT table_name, partition_path, count(*) AS files FROM claims SEMI JOIN wanted
            USING (table_name, partition_path)
        WHERE {"state = 'live'" if live else "state <> 'gone'"} GROUP BY ALL
    """
    return duck.query(con, sql, claims=claims, wanted=wanted)
