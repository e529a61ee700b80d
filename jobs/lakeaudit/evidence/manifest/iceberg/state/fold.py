"""Fold rows of manifests and metadata into claims: one row per table and key.

A file is live if the state of any branch or tag lists it, history if another retained snapshot does, and gone if it is
only named as removed. Nearly all files have one row and need no fold.
"""

from collections.abc import Mapping

import pyarrow as pa

from lakeaudit.evidence.manifest.iceberg.state.rows import FILE, KIND
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows, literal
from lakeaudit.schemas import CLAIM

TABLE = pa.schema(
    [
        ("table_name", pa.string()),
        ("reading", pa.int64()),  # whose rows count
        ("version", pa.int64()),  # the snapshot of main; null if there is none
        ("root_bucket", pa.string()),
        ("root_prefix", pa.string()),
    ]
)
"""The constants of one table for the fold."""

_FILE = "table_name, bucket, key"
_OWN = "bucket = root_bucket AND starts_with(key, root_prefix)"
_KNOWN = f"SELECT f.*, version, {_OWN} AS own_root FROM files f JOIN tables USING (table_name, reading)"


def claims(tables: pa.Table, source: str, con: Connection, rows: Mapping[str, Rows]) -> Relation:
    """Return CLAIM rows of FILE rows; those of tables, and of readings, that are not in `tables` are left out."""
    known = duck.query(con, _KNOWN, files=rows.get(KIND, FILE.empty_table()), tables=tables)
    held = duck.hold(con, known)
    once = duck.query(con, _ONCE, input=held, many=duck.query(con, _MANY, input=held))
    sql = f"""SELECT *, {literal(source)} AS source, 'iceberg' AS manifest_kind, true AS certain,
            NULL AS least_size, NULL AS etag, NULL AS version_id, NULL AS checksum,
            CASE WHEN state <> 'gone' THEN "at" END AS claimed_at,
            CASE WHEN state = 'gone' THEN "at" END AS removed_at, version AS table_version
        FROM once"""
    return duck.conform(con, duck.query(con, sql, once=once), CLAIM)


def fingerprints(tables: pa.Table, con: Connection, files: Rows) -> Relation:
    """Return the claim of each FILE row alone: table_name, bucket, key, category, size, claimed_at, plain.

    If a plain row is the only one of its key, `claims` makes a live claim of it, listed once, under the table's root.
    """
    sql = f"""SELECT {_FILE}, category, size, "at" AS claimed_at,
            state = 'live' AND own_root AND size IS NOT NULL AS plain
        FROM ({_KNOWN})"""
    return duck.query(con, sql, files=files, tables=tables)


_MANY = f"SELECT {_FILE} FROM input GROUP BY ALL HAVING count(*) > 1"

_SHARED = "own_root, version, state, explained, category, partition_path, commit_id"
_LATEST = ", ".join(
    f'arg_max({name}, "at") FILTER ({name} IS NOT NULL) AS {name}' for name in ("partition_path", "commit_id")
)

_ONCE = f"""
WITH ranked AS (
    SELECT *, CASE state WHEN 'live' THEN 2 WHEN 'history' THEN 1 ELSE 0 END AS rank,
        max(rank) OVER (PARTITION BY {_FILE}) AS best
    FROM input SEMI JOIN many USING (table_name, bucket, key)
),
chosen AS (SELECT * FROM ranked WHERE rank = best),
-- how often one state lists it; one file holds many deletion vectors
listed AS (
    SELECT {_FILE}, max(times) AS listed FROM (
        SELECT {_FILE}, head, count(*) AS times FROM (SELECT {_FILE}, unnest(heads) AS head FROM chosen
            WHERE category = 'data') GROUP BY ALL)
    GROUP BY ALL
),
gathered AS (
    SELECT {_FILE}, bool_or(own_root) AS own_root, max(version) AS version, min(state) AS state,
        bool_and(explained) AS explained, min(category) AS category,
        CASE WHEN min(state) = 'gone' THEN max("at") ELSE min("at") END AS "at",
        max(size) AS size, {_LATEST},
        CASE WHEN min(category) = 'deletes' THEN sum(records) ELSE arg_max(records, "at") END AS records
    FROM chosen GROUP BY {_FILE}
)
SELECT {_FILE}, {_SHARED}, "at", size, records, (state = 'live')::BIGINT AS listed
FROM input ANTI JOIN many USING (table_name, bucket, key)
UNION ALL BY NAME
SELECT gathered.*, coalesce(listed, (state = 'live')::BIGINT) AS listed
FROM gathered LEFT JOIN listed USING (table_name, bucket, key)
"""
"""One row per key: its best state, and the values of the rows with that state."""
