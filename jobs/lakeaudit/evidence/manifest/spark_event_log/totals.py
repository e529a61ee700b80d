"""Compare the totals that a write declared with storage: pure, rows in and rows out, in DuckDB.

If any file of a write without partitions is left, the names of all others are known, and each is a claim of its own
(`names`). This module reports files without a name: all files of a write of which none is left, and the files of splits
whose rows were written to partitions that the log does not name.
"""

from collections.abc import Mapping

from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import DECLARED

CLOCKS = "INTERVAL 2 MINUTE"
"""Largest difference between the clocks of a driver and of a store."""


def short(con: Connection, rows: Mapping[str, Rows]) -> Relation:
    """Return DECLARED rows of writes that lack files without a name, or whose files cannot be identified.

    Args:
        con: the connection to use.
        rows: from `names.resolved`: `writes`, `splits`, `parts`, `mine`, `files`, `per_split`, `later`, `runs`.
    """
    unreported = dict.fromkeys(("files_named", "rows_named", "bytes_named", "marker"), "NULL")
    found = duck.query(con, _SHORT, **rows)
    return duck.conform(con, found, DECLARED, unreported | {"manifest_kind": "'spark_event_log'"})


_SHORT = f"""
WITH there AS (SELECT job, bucket, count(*) AS files, count(DISTINCT folder) AS folders FROM files GROUP BY ALL),
wrote AS (
    SELECT w.job, w.bucket, count(*) AS splits, TRY_CAST(sum(records) AS BIGINT) AS rows,
        TRY_CAST(sum(bytes) AS BIGINT) AS bytes
    FROM writes w JOIN splits USING (job, bucket, base)
    WHERE outcome = 'succeeded' AND records > 0 GROUP BY ALL),
lacking AS (
    SELECT job, bucket, count(*) FILTER (stored < bytes) AS splits, count(*) FILTER (files = 0) AS gone,
        TRY_CAST(sum(records) FILTER (stored >= bytes) AS BIGINT) AS rows,
        TRY_CAST(sum(least(stored, bytes)) AS BIGINT) AS bytes,
        count(*) FILTER (files > 0 AND stored < bytes) AS parted
    FROM per_split WHERE records > 0 GROUP BY ALL),
foreign_files AS (
    SELECT bucket, base, folder, max(coalesce(modified_at, 'infinity')) AS modified_at
    FROM parts ANTI JOIN mine USING (bucket, base, uuid) ANTI JOIN runs USING (bucket, base, uuid) GROUP BY ALL),
unclear AS (
    SELECT DISTINCT w.job, w.bucket
    FROM (FROM writes ANTI JOIN mine USING (job, bucket, base)) w JOIN foreign_files o USING (bucket, base)
    WHERE o.modified_at >= w.started_at - {CLOCKS}
        AND (o.folder = w.path OR starts_with(o.folder, w.path || '/') OR w.path = '')),
known AS (
    SELECT w.*, wrote.rows, wrote.bytes, coalesce(there.files, 0) AS files_there, mine.uuid IS NOT NULL AS matched,
        CASE WHEN w.by THEN w.total_files ELSE wrote.splits END AS declared_files, wrote.splits AS all_splits,
        CASE WHEN retired THEN 'whole'
            WHEN l.job IS NULL OR (w.by AND matched AND there.folders = partitions) THEN 'no'
            WHEN NOT matched AND rewritten >= coalesce(partitions, 1) THEN 'whole' ELSE 'partly' END AS replaced
    FROM writes w JOIN wrote USING (job, bucket) LEFT JOIN mine USING (job, bucket, base)
    LEFT JOIN there USING (job, bucket) LEFT JOIN later l ON l.job = w.job AND l.bucket = w.bucket)
SELECT table_name, job AS commit_id, bucket, path, ended_at, declared_files AS files, k.rows, k.bytes, files_there,
    CASE WHEN NOT matched THEN 0 WHEN parted = 0 THEN coalesce(lacking.rows, 0) END AS rows_there,
    CASE WHEN matched THEN lacking.bytes ELSE 0 END AS bytes_there, replaced,
    CASE WHEN NOT matched AND u.job IS NOT NULL
        THEN 'its files cannot be identified among others below its path' END AS untold,
    CASE WHEN matched THEN printf('%d of its %d tasks lack files or bytes, %d of them all files',
        lacking.splits, all_splits, lacking.gone) ELSE 'no file of it is left' END AS detail
FROM known k LEFT JOIN lacking USING (job, bucket) LEFT JOIN unclear u ON u.job = k.job AND u.bucket = k.bucket
WHERE stays AND replaced <> 'whole' AND (NOT matched OR (k.by AND lacking.splits > 0))
"""
"""The missing files of a write without folders of partitions have names, once any of its files is left."""
