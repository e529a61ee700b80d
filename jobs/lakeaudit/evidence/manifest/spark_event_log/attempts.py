"""Find files that are the same split of one job by the event logs, and are visible together: pure, in DuckDB.

Spark names a file by its write and split and not by its attempt, so attempts of one task mostly overwrite each other.
Two cases remain, both of committers that show files before a job is complete (mainly FileOutputCommitter's algorithm
2). A run that failed or was killed leaves the files that its tasks had committed, and its retry writes all of it again
under another UUID. And an attempt that divided a split in another way than the one that counts leaves files of other
numbers, or in other partitions. Names alone never decide: rows, bytes and attempts are those of the log.
"""

from collections.abc import Mapping

from lakeaudit.evidence.manifest.spark_event_log.totals import CLOCKS
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import SAME_SPLIT

SURE = 4096
"""Bytes from which on a single split of equal rows and bytes is not a coincidence."""


def runs(con: Connection, writes: Rows, splits: Rows, parts: Rows, mine: Rows) -> Relation:
    """Return runs that did not succeed, with the UUID of their files and the run that wrote the same splits again.

    The retry is the first write of the same path that succeeded since and whose splits hold exactly the committed rows
    and bytes of the run; the files are those that belong to no other write. A task that was killed may have shown its
    file without an event in the log.
    """
    return duck.query(con, _RUNS, writes=writes, splits=splits, parts=parts, mine=mine)


def same_splits(con: Connection, rows: Mapping[str, Rows]) -> Relation:
    """Return SAME_SPLIT rows, from the tables of `names.resolved`: writes, splits, parts, files, per_split and runs."""
    found = duck.union(con, [_of_runs(con, rows), _of_attempts(con, rows)])
    return duck.conform(con, found, SAME_SPLIT)


def _of_runs(con: Connection, rows: Mapping[str, Rows]) -> Relation:
    named = {name: rows[name] for name in ("writes", "splits", "parts", "files", "runs")}
    return duck.conform(con, duck.query(con, _OF_RUNS, **named), SAME_SPLIT, _KIND)


def _of_attempts(con: Connection, rows: Mapping[str, Rows]) -> Relation:
    named = {name: rows[name] for name in ("writes", "files", "per_split")}
    return duck.conform(con, duck.query(con, _OF_ATTEMPTS, **named), SAME_SPLIT, _KIND)


_KIND = {"manifest_kind": "'spark_event_log'"}

_RUNS = f"""
WITH broken AS (
    SELECT w.*, count(*) AS splits, max(bytes) AS largest
    FROM writes w JOIN splits s USING (job, bucket, base)
    WHERE outcome <> 'succeeded' AND records > 0 GROUP BY ALL),
retries AS (
    SELECT b.job, b.bucket, b.base, arg_min(r.job, r.started_at) AS retry
    FROM broken b JOIN writes r USING (table_name, bucket, base, path)
    WHERE r.outcome = 'succeeded' AND r.emptied IS NULL AND r.started_at > b.started_at GROUP BY ALL),
repeated AS (
    SELECT b.job, b.bucket, b.base, t.retry
    FROM broken b JOIN retries t USING (job, bucket, base)
    JOIN splits s ON s.job = b.job AND s.bucket = b.bucket AND s.base = b.base AND s.records > 0
    JOIN splits a ON a.job = t.retry AND a.bucket = b.bucket AND a.base = b.base AND a.split = s.split
        AND a.records = s.records AND a.bytes = s.bytes
    GROUP BY ALL HAVING count(*) = any_value(b.splits) AND (count(*) > 1 OR any_value(b.largest) >= {SURE})),
stored AS (
    SELECT bucket, base, uuid, split, sum(size) AS size, median(modified_at) AS stored_at, min(folder) AS folder
    FROM parts ANTI JOIN mine USING (bucket, base, uuid) GROUP BY ALL),
fitting AS (
    SELECT r.job, r.bucket, r.base, r.retry, g.uuid
    FROM repeated r JOIN writes w USING (job, bucket, base) JOIN writes t ON t.job = r.retry AND t.bucket = r.bucket
    JOIN stored g ON g.bucket = r.bucket AND g.base = r.base
    LEFT JOIN splits s ON s.job = r.job AND s.bucket = r.bucket AND s.base = r.base AND s.split = g.split
    GROUP BY ALL
    HAVING count(s.bytes) > 0 AND bool_and(coalesce(s.bytes = g.size, true)
        AND g.stored_at BETWEEN w.started_at - {CLOCKS} AND coalesce(w.ended_at, t.started_at) + {CLOCKS}
        AND (g.folder = w.path OR starts_with(g.folder, w.path || '/') OR w.path = '')))
SELECT job, bucket, base, any_value(retry) AS retry, any_value(uuid) AS uuid FROM fitting
GROUP BY job, bucket, base
HAVING count(*) = 1 AND any_value(uuid) NOT IN (SELECT uuid FROM fitting GROUP BY uuid HAVING count(*) > 1)
"""

_OF_RUNS = """
SELECT w.table_name, p.bucket, p.key, f.key AS related_key, r.job AS commit_id, r.retry AS related_commit, t.ended_at,
    greatest(p.modified_at, f.modified_at) AS modified_at, p.size,
    CASE WHEN p.size = s.bytes THEN s.records END AS rows,
    'run ' || r.job || ' ' || CASE w.outcome WHEN 'failed' THEN 'failed' ELSE 'never ended' END || ' when it had '
        || 'written split ' || p.split || ', and run ' || r.retry || ' wrote the same splits again' AS why
FROM runs r JOIN writes w USING (job, bucket, base) JOIN writes t ON t.job = r.retry AND t.bucket = r.bucket
JOIN parts p ON p.bucket = r.bucket AND p.base = r.base AND p.uuid = r.uuid
LEFT JOIN splits s ON s.job = r.job AND s.bucket = r.bucket AND s.base = r.base AND s.split = p.split
JOIN files f ON f.job = r.retry AND f.bucket = p.bucket AND f.split = p.split AND f.folder = p.folder
    AND f.number = p.number AND f.size = p.size
"""

_OF_ATTEMPTS = """
WITH many AS (
    SELECT f.*, p.bytes AS committed,
        sum(f.size) OVER (PARTITION BY job, bucket, split ORDER BY f.modified_at DESC RANGE UNBOUNDED PRECEDING) AS upto
    FROM files f JOIN per_split p USING (job, bucket, split)
    WHERE p.retried AND p.files > 1 AND p.stored > p.bytes),
kept AS (
    SELECT job, bucket, split, min(key) AS related_key, max(modified_at) AS modified_at FROM many
    WHERE upto <= committed GROUP BY ALL HAVING sum(size) = any_value(committed))
SELECT w.table_name, m.bucket, m.key, k.related_key, m.job AS commit_id, m.job AS related_commit, w.ended_at,
    k.modified_at, m.size, NULL AS rows,
    'more than one attempt was made of split ' || m.split || ' of write ' || m.job || ', the one that counts committed '
        || m.committed || ' bytes, which are those of its younger files alone' AS why
FROM many m JOIN kept k USING (job, bucket, split) JOIN writes w ON w.job = m.job AND w.bucket = m.bucket
WHERE m.upto > m.committed
"""
"""The files of the attempt that counts are the younger ones, and have exactly the bytes that it committed."""
