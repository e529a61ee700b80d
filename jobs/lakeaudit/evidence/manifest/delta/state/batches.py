"""Compute one digest of the data that each commit appended, to show whether another commit appended the same.

The digest covers the multiset of (size, partition, statistics) of the files that a commit adds, in any order. It is
computed while the commit is read anyway; see `checks.commits.repeated_batches` for its use. A transaction (`txn`:
application and version) identifies the batch itself, whatever its files are.
"""

from collections.abc import Collection

import pyarrow as pa

from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, literals
from lakeaudit.schemas import BATCH

KIND = "batches"
"""The kind of row that carries BATCH rows."""

APPENDS = ("WRITE", "STREAMING UPDATE", "COPY INTO")
"""Operations of a commitInfo that append data; the others rewrite files or list data that was there before."""

MOST_TRANSACTIONS = 1000
"""Most transactions of one commit that are compared."""
_MODULUS = 1 << 62


def tokens(stats: str) -> str:
    """Return the tokens of statistics (SQL, JSON text), sorted: writers give columns in any order."""
    return f"list_sort(string_split(translate({stats}, '{{}}', ',,'), ','))"


_ONE = f"(hash(size, partition, {tokens('stats')}) % {_MODULUS})::HUGEINT"
_VARIED = f"""{tokens("TRY(json_extract(stats, '$.minValues'))::VARCHAR")}
    IS DISTINCT FROM {tokens("TRY(json_extract(stats, '$.maxValues'))::VARCHAR")}"""
_APPENDED = """kind = 'add' AND data_change AND NOT has_vector AND records > 0 AND size IS NOT NULL
    AND contains(stats, '"minValues"') AND contains(stats, '"maxValues"')"""


def batches(con: Connection, parsed: pa.Table, files: pa.Table, in_blocks: Collection[int]) -> Relation:
    """Return BATCH rows of parsed lines; for files `in_blocks` the lines may be only a part of the file."""
    sql = f"""
        WITH commits AS (
            SELECT file, max(operation) AS operation, count(*) FILTER (kind = 'add') AS files,
                bool_and(kind = 'add') FILTER (kind IN ('add', 'remove', 'cdc', 'torn')) AS adds_alone,
                list_slice(coalesce(list(DISTINCT txn) FILTER (txn IS NOT NULL), []), 1, {MOST_TRANSACTIONS})
                    AS transactions
            FROM parsed GROUP BY file),
        likely AS (
            SELECT * FROM commits WHERE file IN ({literals(sorted(in_blocks))})
                OR (adds_alone AND operation IN ({literals(APPENDS)}))),
        sums AS (
            SELECT file, CAST(sum({_ONE}) FILTER ({_APPENDED}) % {_MODULUS} AS BIGINT) AS digest,
                count(*) FILTER ({_APPENDED}) AS appended, sum(size) AS bytes, sum(records) AS rows,
                bool_or({_VARIED}) FILTER ({_APPENDED}) AS varied
            FROM parsed SEMI JOIN likely USING (file) WHERE kind = 'add' GROUP BY file)
        SELECT table_name, reading, version, coalesce(in_commit_time, time) AS time, operation,
            coalesce(adds_alone, true) AND coalesce(appended, 0) = files
                AND coalesce(operation IN ({literals(APPENDS)}), true) AS appends, files, coalesce(rows, 0) AS rows,
            coalesce(bytes, 0) AS bytes, coalesce(digest, 0) AS digest, coalesce(varied, false) AS varied,
            coalesce(adds_alone, true) AND coalesce(operation IN ({literals(APPENDS)}), true) AS adds_alone,
            transactions
        FROM likely LEFT JOIN sums USING (file) JOIN files ON likely.file = files.file
        WHERE likely.file IN ({literals(sorted(in_blocks))})
            OR (files > 0 AND ((appended = files AND varied) OR len(transactions) > 0))
    """
    return duck.conform(con, duck.query(con, sql, parsed=parsed, files=files), BATCH)
