"""Shallow clones: tables that list files below another table's root, and what the other table makes of these files.

The source of a clone knows nothing of it: what it has removed its next VACUUM deletes, whoever lists it still.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakeaudit.compare.prefix_match import Places
from lakeaudit.config import Table
from lakeaudit.kinds import KINDS
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLONED

AT_RISK = "clone_at_risk"
_ROOTS = pa.schema([("name", pa.string()), ("root_bucket", pa.string()), ("root_prefix", pa.string())])


def under_own_root(con: Connection, pairs: Rows, roots: Places) -> Relation:
    """PAIR rows that a table claims, and whether the key lies below that table's own location: `own`."""
    places = [(name, place.bucket, place.prefix) for place, name in roots.items()]
    sql = """
        SELECT p.*, p.bucket = root_bucket AND starts_with(p.key, root_prefix) AS own
        FROM pairs p JOIN places ON table_name = name
    """
    return duck.query(con, sql, pairs=pairs, places=duck.small(_ROOTS, places))


def cloned(con: Connection, claimed: Rows) -> Relation:
    """CLONED rows of clones' live files that their sources have removed, from rows of `under_own_root`.

    A source that never listed a file, or has forgotten it, counts where its log is whole.
    """
    sql = """
        WITH clones AS (
            SELECT * FROM claimed WHERE NOT own AND c_state = 'live' AND c_certain AND owner <> table_name
                AND s_presence IS DISTINCT FROM 'absent'),
        sources AS (SELECT bucket, key, table_name AS owner, c_state, c_certain, c_removed_at FROM claimed WHERE own)
        SELECT c.table_name, c.owner AS source, count(*) AS files, CAST(sum(c.c_records) AS BIGINT) AS rows,
            CAST(sum(c.c_size) AS BIGINT) AS bytes, min(s.c_removed_at) AS removed_at, min(c.key) AS sample
        FROM clones c LEFT JOIN sources s USING (bucket, key, owner)
        WHERE CASE WHEN s.c_state IS NULL THEN o_logged AND o_complete AND NOT h_references
            ELSE s.c_state <> 'live' AND s.c_certain END
        GROUP BY c.table_name, c.owner
    """
    return duck.conform(con, duck.query(con, sql, claimed=claimed), CLONED)


def clone_findings(con: Connection, rows: Rows, tables: Sequence[Table]) -> list[dict[str, Any]]:
    """One row for FINDINGS per clone and source, from all CLONED rows."""
    sql = """
        SELECT table_name, source, CAST(sum(files) AS BIGINT) AS files, CAST(sum(rows) AS BIGINT) AS rows,
            CAST(sum(bytes) AS BIGINT) AS bytes, min(removed_at) AS removed_at, min(sample) AS sample
        FROM input GROUP BY table_name, source ORDER BY table_name, source
    """
    asked = {table.name: table for table in tables}
    found = duck.rows_of(duck.query(con, sql, input=rows))
    return [_finding(row, asked[row["table_name"]]) for row in found if row["table_name"] in asked]


def _finding(row: Mapping[str, Any], table: Table) -> dict[str, Any]:
    kind = KINDS[AT_RISK]
    since = f", the first at {row['removed_at']:%Y-%m-%dT%H:%M:%SZ}" if row["removed_at"] else ""
    return {
        "table_name": table.name,
        "axis": kind.axis,
        "kind": kind.name,
        "severity": table.severity_of(kind.name, "error"),
        "subject_type": "table",
        "subject": f"{row['source']}#{kind.name}",
        "files": row["files"],
        "rows_at_stake": row["rows"],
        "bytes_at_stake": row["bytes"],
        "confirmation": "not_needed",
        "explanation": f"{row['files']} of its live files lie in {row['source']}, which has removed them{since}, "
        f"such as {row['sample']}: the next VACUUM of {row['source']} deletes them",
    }
