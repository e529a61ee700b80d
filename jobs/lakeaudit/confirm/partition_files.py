"""Counts the listed files of partitions in which very many files have the same fault."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import pyarrow as pa

from lakeaudit.collect.claim_lookups import query_claims
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import Claims
from lakeaudit.findings.bulk_changes import Partition
from lakeaudit.matching.pairs import partition_folder
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

_NAMES = pa.schema([("table_name", pa.string()), ("partition_path", pa.string()), ("prefix", pa.string())])


def files_of_partitions(
    engine: AuditEngine,
    claims: Sequence[Claims],
    prefixes: Mapping[str, str],
    partitions: Collection[Partition],
    *,
    live: bool = False,
) -> dict[Partition, int]:
    """Return the number of files of each partition in the newest state and in older states that must be readable.

    With `live` only the newest state counts. `prefixes` are the key prefixes of the tables: a claim without a partition
    belongs to the partition of its folder.
    """
    requested = duck.small(
        _NAMES, [(table, path, prefixes.get(table, "")) for table, path in sorted(partitions)]
    )
    tables = {table for table, _ in partitions}
    counts: Counter[Partition] = Counter()
    for batch in query_claims(engine, claims, tables, partial(_count_files, requested, live)):
        counts.update({(r["table_name"], r["partition_path"]): r["files"] for r in batch.to_pylist()})
    return dict(counts)


def _count_files(requested: pa.Table, live: bool, con: Connection, claims: Rows) -> Relation:
    folder = partition_folder("substring(key, len(prefix) + 1)")
    sql = f"""
        SELECT requested.table_name, requested.partition_path, count(*) AS files FROM claims JOIN requested
            ON claims.table_name = requested.table_name
                AND coalesce(claims.partition_path, {folder}) = requested.partition_path
        WHERE {"state = 'live'" if live else "state <> 'gone'"} GROUP BY ALL
    """
    return duck.query(con, sql, claims=claims, requested=requested)
