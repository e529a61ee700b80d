"""Turn the files of timelines into claims: each file already has one row."""

from collections.abc import Mapping

import pyarrow as pa

from lakeaudit.evidence.manifest.hudi.state.rows import FILE, FILES
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows, literal
from lakeaudit.schemas import CLAIM

TABLE = pa.schema(
    [
        ("table_name", pa.string()),
        ("reading", pa.int64()),  # whose rows count
        ("version", pa.int64()),  # the newest completed instant; null if there is none
        ("encoded", pa.bool_()),  # values in partitions' folders are percent-encoded
        ("certain", pa.bool_()),  # all intentional removals are known
    ]
)
"""The constants of one table for the fold."""

_PLAIN = "coalesce(TRY(url_decode(replace(folder, '+', '%2B'))), folder)"
"""A folder without percent-encoding; unchanged if it has none."""

_KNOWN = "SELECT f.*, version, encoded, certain FROM files f JOIN tables USING (table_name, reading)"


def claims(tables: pa.Table, source: str, con: Connection, rows: Mapping[str, Rows]) -> Relation:
    """Return CLAIM rows of FILE rows; those of tables, and of readings, that are not in `tables` are left out.

    A stray file has no claim, so that an existing one is compared with the files that readers list.
    """
    sql = f"""SELECT * EXCLUDE (file_group, slice, hidden)
            REPLACE (CASE category WHEN 'index' THEN 'log' ELSE category END AS category),
            {literal(source)} AS source, 'hudi' AS manifest_kind,
            CASE WHEN encoded THEN {_PLAIN} ELSE folder END AS partition_path,
            NULL AS etag, NULL AS version_id, NULL AS checksum, true AS own_root, version AS table_version,
            CASE WHEN state <> 'gone' THEN "at" END AS claimed_at,
            CASE WHEN state = 'gone' THEN "at" END AS removed_at,
            (state = 'live')::BIGINT AS listed
        FROM ({_KNOWN}) WHERE state <> 'stray'"""
    files = rows.get(FILES, FILE.empty_table())
    return duck.conform(con, duck.query(con, sql, files=files, tables=tables), CLAIM)


def fingerprints(tables: pa.Table, con: Connection, files: Rows) -> Relation:
    """Return the claim of each FILE row: table_name, bucket, key, category, size, claimed_at, plain."""
    sql = f"""SELECT table_name, bucket, key, category, size, "at" AS claimed_at,
            certain AND state = 'live' AND size IS NOT NULL AND least_size IS NULL AS plain
        FROM ({_KNOWN})"""
    return duck.query(con, sql, files=files, tables=tables)
