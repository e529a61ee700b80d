"""Sum the entries that rewriting and overwriting commits add and remove, while the commits are read anyway.

A rewrite declares that it changes no rows (`dataChange: false`), and an overwrite that it replaces the previous data.
The replay of the log knows the rows that they remove, see `contradictions`; `checks.commits.commit_sums` joins both.
"""

from collections.abc import Collection

import pyarrow as pa

from lakeaudit.evidence.manifest.delta.log.paths import vector_id
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, literals
from lakeaudit.schemas import COMMIT_SUMS

KIND = "commit_sums"
"""The kind of row that carries COMMIT_SUMS rows."""

MODULUS = 1 << 62
REPLACES = ("CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT")
"""Operations that overwrite a table and record no mode."""
MOST_PARTITIONS = 1000
"""Most partitions of one commit that are compared."""
_NO_PREDICATE = ("", "[]", "true")

ENTRY = f"hash(path, CASE WHEN has_vector THEN {vector_id('vector_kind', 'vector_text', 'vector_offset')} ELSE '' END)"
"""SQL for an entry of a file as one number."""


_SETTINGS = f"""SELECT file, operation, read_version,
        coalesce(lower(parameters ->> '$.mode') = 'overwrite', false) OR operation IN ({literals(REPLACES)})
            AS overwrites,
        CASE WHEN (parameters ->> '$.predicate') NOT IN ({literals(_NO_PREDICATE)})
            THEN parameters ->> '$.predicate' END AS predicate
    FROM parsed WHERE kind = 'commitInfo'"""
_LIKELY = """SELECT file FROM parsed WHERE kind = 'remove' AND NOT data_change
    UNION SELECT file FROM settings WHERE overwrites"""


def commit_sums(con: Connection, parsed: pa.Table, files: pa.Table, in_blocks: Collection[int]) -> Relation:
    """Return COMMIT_SUMS rows of parsed lines; for files `in_blocks` the lines may be only a part of the file."""
    sql = f"""
        WITH settings AS ({_SETTINGS}),
        likely AS ({_LIKELY} UNION SELECT file FROM parsed WHERE file IN ({literals(sorted(in_blocks))})),
        sums AS (
            SELECT file, count(*) FILTER (kind = 'add') AS adds, count(*) FILTER (kind = 'remove') AS removes,
                bool_and(coalesce(NOT data_change, false)) FILTER (kind IN ('add', 'remove')) AS declares,
                CAST(coalesce(sum(records - coalesce(vector_rows, 0)) FILTER (kind = 'add'), 0) AS BIGINT) AS rows,
                count(*) FILTER (kind = 'add' AND records IS NULL) AS uncounted,
                CAST(sum(({ENTRY} % {MODULUS})::HUGEINT) FILTER (kind = 'remove') % {MODULUS} AS BIGINT) AS digest,
                list(DISTINCT hash(partition)::VARCHAR) FILTER (kind = 'add') AS partitions
            FROM parsed SEMI JOIN likely USING (file) GROUP BY file)
        SELECT table_name, reading, version, operation, overwrites, predicate, read_version, declares, adds, removes,
            rows, uncounted, coalesce(digest, 0) AS digest,
            list_slice(coalesce(partitions, []), 1, {MOST_PARTITIONS}) AS partitions
        FROM sums LEFT JOIN settings USING (file) JOIN files ON sums.file = files.file WHERE NOT checkpoint
    """
    return duck.conform(con, duck.query(con, sql, parsed=parsed, files=files), COMMIT_SUMS)
