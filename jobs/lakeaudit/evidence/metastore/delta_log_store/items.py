"""Items of the log store's table as rows, in DuckDB's SQL."""

from datetime import timedelta

import pyarrow as pa

from lakeaudit.evidence.aliases import true_columns
from lakeaudit.evidence.metastore.dynamodb.tally import Tally
from lakeaudit.keys import Aliases, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

TYPES = {"tablePath": "S", "fileName": "S", "tempPath": "S", "complete": "S", "expireTime": "N"}
"""By attribute the type that it must have, as DynamoDB's JSON names types."""

ITEM = pa.schema([(name, pa.struct([(kind, pa.string())])) for name, kind in TYPES.items()])
"""Columns of a relation of items: null where the item lacks the attribute."""

ENTERED = pa.schema(
    [
        ("bucket", pa.string()),
        ("base", pa.string()),  # the table's location below it
        ("version", pa.int64()),
        ("temp", pa.string()),  # below `_delta_log/`
        ("complete", pa.bool_()),
        ("entered_at", pa.timestamp("us")),  # when it was completed; null: it was not
    ]
)
"""Rows of kind `entered`, one for each commit in the store. A null version: the item does not describe a commit."""

_NOTHING_OF_A_COMMIT = "version IS NULL OR bucket IS NULL"


def entry_rows(
    con: Connection, items: Rows, *, ttl: timedelta, scope: Location | None, aliases: Aliases
) -> tuple[pa.Table, Tally]:
    """Return ENTERED rows of items below `scope` (None: everywhere), and the tally of all; `paths` counts commits."""
    bucket, key = true_columns(aliases, "place.bucket", "place.key")
    inside = "true" if scope is None else f"{duck.literal(scope.bucket)} = bucket"
    inside += "" if scope is None else f" AND starts_with(base || '/', {duck.literal(scope.prefix)})"
    sql = f"""
        WITH named AS (
            SELECT regexp_extract(tablePath.S, '^(?:s3[an]?|gs)://([^/]+)/*(.*?)/*$', ['bucket', 'key']) AS remote,
                regexp_extract(tablePath.S, '^file:/*(.+?)/*$', 1) AS local,
                TRY_CAST(nullif(regexp_extract(fileName.S, '^(\\d{{20}})\\.json$', 1), '') AS BIGINT) AS version,
                tempPath.S AS temp, complete.S = 'true' AS complete,
                TRY(make_timestamp(TRY_CAST(expireTime.N AS BIGINT) * 1000000) - {duck.literal(ttl)}) AS entered_at
            FROM items),
        placed AS (
            SELECT *, CASE WHEN remote.bucket <> '' THEN {{'bucket': remote.bucket, 'key': remote.key}}
                WHEN local <> '' THEN {{'bucket': '', 'key': local}} END AS place
            FROM named)
        SELECT {bucket} AS bucket, {key} AS base, version, temp, coalesce(complete, false) AS complete, entered_at
        FROM placed
    """
    rows = duck.table(duck.conform(con, duck.query(con, sql, items=items), ENTERED))
    odd = duck.query(con, f"SELECT * FROM input WHERE {_NOTHING_OF_A_COMMIT}", input=rows)
    kept = f"SELECT * FROM input WHERE NOT ({_NOTHING_OF_A_COMMIT}) AND {inside}"
    tally = Tally(rows.num_rows, rows.num_rows - duck.count_of(odd))
    return duck.table(duck.query(con, kept, input=rows)), tally
