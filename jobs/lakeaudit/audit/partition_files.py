"""How many files partitions have, by what manifests list: asked only where very many of one are wrong alike."""

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
    """Files of each of these partitions that a state of its table lists, or has listed and still promises.

    With `live` only those that the newest state lists. `prefixes` are those of the keys of each table: a claim without
    a partition is in that of its folder.
    """
    wanted = duck.small(
        _NAMES, [(table, path, prefixes.get(table, "")) for table, path in sorted(partitions)]
    )
    tables = {table for table, _ in partitions}
    found: Counter[Partition] = Counter()
    for batch in query_claims(engine, claims, tables, partial(_counted, wanted, live)):
        found.update({(r["table_name"], r["partition_path"]): r["files"] for r in batch.to_pylist()})
    return dict(found)


def _counted(wanted: pa.Table, live: bool, con: Connection, claims: Rows) -> Relation:
    folder = partition_folder("substring(key, len(prefix) + 1)")
    sql = f"""
        SELECT wanted.table_name, wanted.partition_path, count(*) AS files FROM claims JOIN wanted
            ON claims.table_name = wanted.table_name
                AND coalesce(claims.partition_path, {folder}) = wanted.partition_path
        WHERE {"state = 'live'" if live else "state <> 'gone'"} GROUP BY ALL
    """
    return duck.query(con, sql, claims=claims, wanted=wanted)
