"""Parse the names of storage's objects below the tables, in the form of Spark's output: pure, in DuckDB."""

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.evidence.storage.versions import BELOW, CURRENT
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

PARTS = pa.schema(
    [
        ("bucket", pa.string()),
        ("base", pa.string()),
        ("key", pa.string()),
        ("folder", pa.string()),
        ("split", pa.int64()),
        ("uuid", pa.string()),
        ("number", pa.int64()),  # of the split's files
        ("joint", pa.string()),  # the text between the UUID and the number
        ("suffix", pa.string()),
        ("size", pa.int64()),
        ("modified_at", pa.timestamp("us")),
    ]
)
"""A row is a current object with data; rows of kind `parts`.

`split`, `uuid` and the rest of the name are null if it is not named as Spark names its output.
"""

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = rf"^part-(\d{{5,10}})-({_UUID})([-.]c)(\d{{3,9}})([-.][^/]*)$"
_BASE = "regexp_replace({folder}, '(^|/)[^/=]+=[^/]*(/[^/=]+=[^/]*)*$', '')"


def base_of(folder: str) -> str:
    """Return SQL for a folder without the folders of partition values at its end."""
    return _BASE.format(folder=folder)


def parts(con: Connection, objects: Rows, homes: pa.Table) -> Relation:
    """Return PARTS rows of schemas.VERSION rows below any of `homes` (bucket, prefix).

    An object whose newest version is unknown counts as existing.
    """
    sql = f"""
        WITH named AS (
            SELECT bucket, key, size, modified_at,
                CASE WHEN contains(key, '/') THEN regexp_extract(key, '^(.*)/', 1) ELSE '' END AS folder,
                regexp_extract(regexp_extract(key, '[^/]*$'), {duck.literal(_NAME)},
                    ['split', 'uuid', 'joint', 'number', 'suffix']) AS name
            FROM {BELOW}
            WHERE {CURRENT})
        SELECT bucket, {base_of("folder")} AS base, key, folder, TRY_CAST(name.split AS BIGINT) AS split,
            nullif(name.uuid, '') AS uuid, TRY_CAST(name.number AS BIGINT) AS number, name.joint AS joint,
            name.suffix AS suffix, size, modified_at
        FROM named
        WHERE name.uuid <> '' OR (size > 0 AND NOT regexp_matches(key, {duck.pattern(keys.UNSEEN)}))
    """
    return duck.conform(con, duck.query(con, sql, objects=objects, homes=homes), PARTS)
