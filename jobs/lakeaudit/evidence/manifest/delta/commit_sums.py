"""What commits add and remove in sum, taken while they are read anyway: of those that rewrite or overwrite files.

A rewrite declares that it changes no rows (`dataChange: false`), and an overwrite that it replaces what was there. What
they take out is known where the log is replayed, see `contradictions`; `checks.commits.commit_sums` joins both.
"""

from collections.abc import Collection

import pyarrow as pa

from lakeaudit.evidence.manifest.delta.paths import vector_id
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, literals
from lakeaudit.schemas import COMMIT_SUMS

KIND = "commit_sums"
"""The kind of row that COMMIT_SUMS rows travel as."""

MODULUS = 1 << 62
REPLACES = ("CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT")
"""Operations that overwrite a table and have no mode."""
MOST_PARTITIONS = 1000
"""Partitions of one commit that are compared."""
_NO_PREDICATE = ("", "[]", "true")

ENTRY = f"hash(path, CASE WHEN has_vector THEN {vector_id('vector_kind', 'vector_text', 'vector_offset')} ELSE '' END)"
"""An entry of a file as one number."""


def added_up(entry: str) -> str:
    """The sum of numbers, whatever their order, as SQL."""
    return f"coalesce(sum(({entry} % {MODULUS})::HUGEINT), 0)"


_SETTINGS = f"""SELECT file, operation, read_version,
        coalesce(lower(parameters ->> '$.mode') = 'overwrite', false) OR operation IN ({literals(REPLACES)})
            AS overwrites,
        CASE WHEN (parameters ->> '$.predicate') NOT IN ({literals(_NO_PREDICATE)})
            THEN parameters ->> '$.predicate' END AS predicate
    FROM parsed WHERE kind = 'commitInfo'"""
_LIKELY = """SELECT file FROM parsed WHERE kind = 'remove' AND NOT data_change
    UNION SELECT file FROM settings WHERE overwrites"""


def commit_sums(con: Connection, parsed: pa.Table, files: pa.Table, in_blocks: Collection[int]) -> Relation:
    """COMMIT_SUMS rows of parsed lines; of files `in_blocks` only a part of the lines may be among them."""
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
