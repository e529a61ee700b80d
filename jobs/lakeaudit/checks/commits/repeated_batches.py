"""Find repeated batches: two commits of one table that appended equal multisets of sizes, row counts and statistics.

Equal statistics prove nothing, so the finding is only probable, and batches without distinctive statistics are left
out. Equal transactions (all applications and versions of both commits) identify one batch, whatever its files are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import BATCH, REPEATED

WITHIN = timedelta(days=7)
FEWEST_ROWS = 10
"""Smaller batches may be equal by chance."""
MOST_OFTEN = 3
"""A batch that is appended more often within that time is regular: heartbeats, the same list every day."""


_EQUAL = "PARTITION BY table_name, digest, files, rows, bytes"


def find_repeats(con: Connection, batches: Rows) -> Relation:
    """Return REPEATED rows from all BATCH rows of some tables."""
    span = f"INTERVAL {WITHIN // timedelta(days=1)} DAY"
    one_reading = "SELECT table_name, max(reading) AS reading FROM batches GROUP BY table_name"
    known = duck.conform(con, batches, BATCH)
    sql = f"""
        WITH newest AS (SELECT * FROM batches SEMI JOIN ({one_reading}) USING (table_name, reading)),
        whole AS (
            SELECT table_name, version, max(time) AS time, bool_and(appends) AND count(operation) > 0 AS appends,
                CAST(sum(files) AS BIGINT) AS files, CAST(sum(rows) AS BIGINT) AS rows, bool_or(varied) AS varied,
                CAST(sum(bytes) AS BIGINT) AS bytes, sum(digest::HUGEINT) % {1 << 62} AS digest,
                bool_and(adds_alone) AND count(operation) > 0 AS adds_alone,
                list_sort(list_distinct(flatten(list(coalesce(transactions, []))))) AS transactions
            FROM newest GROUP BY table_name, version),
        equals AS (
            SELECT *, lag(version) OVER ({_EQUAL} ORDER BY time, version) AS older,
                lag(time) OVER ({_EQUAL} ORDER BY time, version) AS older_at,
                count(*) OVER ({_EQUAL} ORDER BY time RANGE BETWEEN {span} PRECEDING AND CURRENT ROW) AS often
            FROM whole WHERE appends AND varied AND rows >= {FEWEST_ROWS}),
        frequent AS (SELECT *, max(often) OVER ({_EQUAL}) AS most FROM equals),
        same AS (
            SELECT *, lag(version) OVER by_batch AS older, lag(time) OVER by_batch AS older_at,
                count(*) OVER (PARTITION BY table_name, transactions) AS often,
                (files, rows, bytes) = lag((files, rows, bytes)) OVER by_batch AS same_sums
            FROM whole WHERE adds_alone AND files > 0 AND len(transactions) > 0
            WINDOW by_batch AS (PARTITION BY table_name, transactions ORDER BY version)),
        pairs AS (
            SELECT table_name, older, older_at, version AS younger, time AS younger_at, files,
                array_to_string(transactions[1:{MOST_OFTEN}], ', ') AS transaction, same_sums
            FROM same WHERE older IS NOT NULL AND often <= {MOST_OFTEN}
            UNION ALL
            SELECT table_name, older, older_at, version AS younger, time AS younger_at, files, NULL, true
            FROM frequent WHERE time - older_at <= {span} AND most <= {MOST_OFTEN})
        SELECT * FROM pairs
        QUALIFY row_number() OVER (PARTITION BY table_name, younger ORDER BY transaction IS NULL, older DESC) = 1
        ORDER BY table_name, younger
    """
    return duck.conform(con, duck.query(con, sql, batches=known), REPEATED)


@dataclass(frozen=True)
class LiveBatch:
    """Files of a batch, and the files, rows and bytes of it that are live in the newest state."""

    files: int = 0
    live: int = 0
    rows: int | None = None
    bytes: int = 0


def live_batches(con: Connection, files: Rows, claims: Rows, tables: Sequence[str]) -> list[LiveBatch]:
    """Return the certainly live part of each commit, by its number in `files` (number, bucket, key, added).

    `claims` has table_name, bucket, key, state, certain, size, records; `tables` is the table of each commit.
    """
    sql = """
        SELECT number, count(*) AS files, count(*) FILTER (live) AS live,
            CAST(sum(c.records) FILTER (live) AS BIGINT) AS rows, CAST(sum(c.size) FILTER (live) AS BIGINT) AS bytes
        FROM (SELECT * FROM files WHERE added) f JOIN tables USING (number)
        LEFT JOIN (SELECT *, state = 'live' AND certain AS live FROM claims) c USING (table_name, bucket, key)
        GROUP BY number
    """
    numbered = duck.small(_NUMBERED, list(enumerate(tables)))
    rows = {
        r["number"]: r
        for r in duck.rows_of(duck.query(con, sql, files=files, claims=claims, tables=numbered))
    }
    return [
        LiveBatch(r["files"], r["live"], r["rows"], r["bytes"] or 0)
        if (r := rows.get(number))
        else LiveBatch()
        for number in range(len(tables))
    ]


_NUMBERED = pa.schema([("number", pa.int64()), ("table_name", pa.string())])
