"""Match the splits of Spark's writes with files: pure, rows in and rows out, in DuckDB.

An event log records the rows and bytes of each split of a write, and not the name of its file. All files of one write
have one UUID in their names, `part-<split>-<uuid>[-.]c<number><suffix>`, and every write draws a new one
(`HadoopMapReduceCommitProtocol`). So a write's UUID is the one whose files were stored while it ran and have the bytes
that its splits wrote. If one file of a write is left, all of its names are known.

Rows that meet here have one `base`: the output folder without the folders of partition values at its end.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from lakeaudit.evidence.manifest.file_list.fold import ACTS, EVENTS
from lakeaudit.evidence.manifest.spark_event_log import attempts, totals
from lakeaudit.evidence.manifest.spark_event_log.stored_parts import PARTS
from lakeaudit.evidence.manifest.spark_event_log.totals import CLOCKS
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

WRITES = pa.schema(
    [
        ("table_name", pa.string()),
        ("bucket", pa.string()),
        ("base", pa.string()),
        ("job", pa.string()),  # application/execution
        ("path", pa.string()),  # the output path's key
        (
            "emptied",
            pa.string(),
        ),  # key of the place that a write empties, or found empty; null if there is none
        ("emptied_at", pa.timestamp("us")),  # and when
        ("by", pa.bool_()),  # a folder for each value of partition columns
        ("dynamic", pa.bool_()),  # an overwrite empties the partitions that it writes
        ("outcome", pa.string()),
        ("started_at", pa.timestamp("us")),
        ("ended_at", pa.timestamp("us")),  # null: unfinished
        ("partitions", pa.int64()),  # folders that the committed job counted
        ("total_files", pa.int64()),  # files that it counted
        ("stays", pa.bool_()),  # it is too young to be removed
    ]
)
"""A row is a write of one table; rows of kind `writes`."""

SPLITS = pa.schema(
    [
        ("bucket", pa.string()),
        ("base", pa.string()),
        ("job", pa.string()),
        ("split", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("retried", pa.bool_()),  # several attempts were made
    ]
)
"""A row holds the committed totals of one task of a write; rows of kind `splits`."""

SECOND = "INTERVAL 1 SECOND"
"""Precision of the times of stores."""


def resolved(source: str, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """Yield the claims of writes from all rows of some bases: `events` (fold.EVENTS), `acts` (fold.ACTS), and reports.

    Rows of kind `short` are DECLARED rows: writes that lack files without a name, or whose files cannot be identified.
    Rows of kind `attempts` are SAME_SPLIT rows.
    """
    writes, splits, stored = (
        duck.hold(con, rows.get(name, schema.empty_table()))
        for name, schema in (("writes", WRITES), ("splits", SPLITS), ("parts", PARTS))
    )
    stored = duck.hold(con, duck.query(con, _ONCE, parts=stored))
    named = duck.query(con, "FROM parts WHERE uuid IS NOT NULL", parts=stored)
    later = duck.hold(con, duck.query(con, _LATER, writes=writes))
    mine = duck.hold(con, duck.query(con, _MATCHED, writes=writes, splits=splits, parts=named, later=later))
    files = duck.hold(con, duck.query(con, _FILES, mine=mine, parts=named))
    per_split = duck.hold(con, duck.query(con, _PER_SPLIT, mine=mine, files=files, splits=splits))
    claims = duck.query(con, _CLAIMS, writes=writes, files=files, per_split=per_split)
    numbered = {"source": duck.literal(source), "list_no": "0"}
    absent = dict.fromkeys(("scope_bucket", "scope_key", "etag", "version_id", "checksum", "fault"), "NULL")
    constants = {"line": "1", "own_root": "true", "unread": "false", "action": "'add'"}
    yield "events", duck.conform(con, claims, EVENTS, numbered | absent | constants)
    acts = duck.query(con, _ACTS, writes=writes, files=files)
    yield "acts", duck.conform(con, acts, ACTS, numbered | {"line": "0"})
    given = {"writes": writes, "mine": mine, "splits": splits, "parts": stored, "later": later}
    runs = duck.hold(con, attempts.runs(con, writes, splits, named, mine))
    known = {**given, "files": files, "per_split": per_split, "runs": runs}
    yield "attempts", attempts.same_splits(con, known)
    yield "short", totals.short(con, known)


_ONCE = """
SELECT DISTINCT ON (bucket, base, key) * FROM parts ORDER BY bucket, base, key, modified_at DESC NULLS LAST
"""
"""Two sources of storage may name one object, and a listing may do so twice: an object in any of them exists."""

_LATER = """
SELECT w.job, w.bucket, bool_or(covers AND NOT o.dynamic) AS retired,
    CAST(sum(CASE WHEN covers AND o.dynamic THEN o.partitions END) AS BIGINT) AS rewritten
FROM writes w JOIN (SELECT * FROM writes WHERE emptied IS NOT NULL) o USING (bucket, base),
    LATERAL (SELECT w.path = o.emptied OR o.emptied = '' OR starts_with(w.path, o.emptied || '/') AS covers)
WHERE o.job <> w.job AND o.emptied_at > w.ended_at
    AND CASE WHEN w.by THEN covers OR w.path = '' OR starts_with(o.emptied, w.path || '/')
        ELSE covers AND NOT (o.dynamic AND o.emptied = w.path) END
GROUP BY ALL
"""
"""Writes whose output later overwrites have emptied, or may have, and whether it was all of it.

`rewritten` counts folders that dynamic overwrites have emptied. These spare files outside of partition folders.
"""

_MATCHED = f"""
WITH per_split AS (
    SELECT bucket, base, uuid, split, sum(size) AS size FROM parts GROUP BY ALL),
stored AS (
    SELECT bucket, base, uuid, median(modified_at) AS stored_at, count(DISTINCT split) AS splits,
        mode(joint) AS joint, mode(suffix) AS suffix, min(folder) AS folder
    FROM parts GROUP BY ALL),
candidates AS (
    SELECT w.job, w.bucket, w.base, g.uuid, g.joint, g.suffix,
        count(*) FILTER (s.bytes = p.size) AS equal, count(*) AS met, g.splits,
        any_value(g.stored_at BETWEEN w.started_at - {SECOND} AND w.ended_at + {SECOND}) AS inside,
        any_value(g.stored_at <= w.ended_at + {CLOCKS}) AS about, coalesce(any_value(retired), false) AS retired
    FROM writes w JOIN stored g USING (bucket, base) LEFT JOIN later USING (job, bucket)
    JOIN per_split p USING (bucket, base, uuid)
    JOIN splits s ON s.bucket = w.bucket AND s.base = w.base AND s.job = w.job AND s.split = p.split
    WHERE w.outcome = 'succeeded' AND g.stored_at >= w.started_at - {CLOCKS}
        AND (g.folder = w.path OR starts_with(g.folder, w.path || '/') OR w.path = '')
    GROUP BY ALL),
ranked AS (
    SELECT *, rank() OVER (PARTITION BY job ORDER BY inside DESC, met - equal, equal DESC) AS of_job,
        rank() OVER (PARTITION BY bucket, base, uuid ORDER BY retired, inside DESC, met - equal, equal DESC) AS of_uuid
    FROM candidates WHERE met = splits AND (about OR (equal = met AND met > 1)))
SELECT job, bucket, base, any_value(uuid) AS uuid, any_value(joint) AS joint, any_value(suffix) AS suffix
FROM ranked WHERE of_job = 1 AND of_uuid = 1
GROUP BY job, bucket, base HAVING count(*) = 1
    AND any_value(uuid) NOT IN (
        SELECT uuid FROM ranked WHERE of_job = 1 AND of_uuid = 1 GROUP BY bucket, base, uuid HAVING count(*) > 1)
"""
"""The one UUID for each write that fits it best, and that fits no other write as well.

Most of its files were stored while the write ran; or, if they were restored since, all have their tasks' bytes.
"""

_FILES = "SELECT job, parts.* FROM parts JOIN mine USING (bucket, base, uuid)"

_PER_SPLIT = """
SELECT job, s.bucket, s.base, split, s.records, s.bytes, s.retried, uuid, joint, suffix,
    coalesce(f.files, 0) AS files, coalesce(f.stored, 0) AS stored, f.next
FROM splits s JOIN mine USING (job, bucket, base)
LEFT JOIN (
    SELECT job, split, count(*) AS files, sum(size) AS stored,
        list_min(list_filter(range(0, max(number) + 2), lambda n: NOT list_contains(list(number), n))) AS next
    FROM files GROUP BY job, split) f USING (job, split)
"""

_CLAIMS = """
WITH there AS (
    SELECT f.job, f.bucket, f.key, f.folder,
        CASE WHEN p.files = 1 AND NOT w.by THEN p.bytes ELSE f.size END AS size,
        CASE WHEN p.files = 1 AND p.stored = p.bytes THEN p.records END AS records
    FROM files f JOIN per_split p USING (job, split) JOIN writes w ON w.job = f.job AND w.bucket = f.bucket),
lost AS (
    SELECT p.job, p.bucket, w.path AS folder,
        printf('part-%05d-%s%s%03d%s', split, uuid, joint, coalesce(next, 0), suffix) AS name,
        nullif(greatest(bytes - stored, 0), 0) AS size, CASE WHEN files = 0 THEN records END AS records
    FROM per_split p JOIN writes w USING (job, bucket)
    WHERE w.stays AND NOT w.by AND ((files = 0 AND records > 0) OR (files > 1 AND stored < bytes))),
claimed AS (
    FROM there UNION ALL BY NAME SELECT job, bucket, folder || '/' || name AS key, folder, size, records FROM lost)
SELECT w.table_name, w.ended_at AS at, c.bucket, c.key, c.size, c.records, w.job AS commit_id,
    nullif(regexp_extract(c.folder, '(?:^|/)([^/=]+=[^/]*(?:/[^/=]+=[^/]*)*)$', 1), '') AS partition_path
FROM claimed c JOIN writes w USING (job, bucket)
"""

_ACTS = """
WITH folders AS (SELECT DISTINCT job, bucket, folder FROM files),
counted AS (SELECT job, bucket, count(*) AS folders FROM folders GROUP BY ALL),
dynamic AS (
    SELECT w.*, coalesce(c.folders, 0) = w.partitions AS known
    FROM writes w LEFT JOIN counted c USING (job, bucket)
    WHERE emptied IS NOT NULL AND dynamic AND outcome = 'succeeded')
SELECT table_name, emptied_at AS at, bucket AS scope_bucket, emptied AS scope_key
FROM writes WHERE emptied IS NOT NULL AND NOT dynamic AND outcome = 'succeeded'
UNION ALL BY NAME
SELECT table_name, ended_at AS at, bucket AS scope_bucket, folder AS scope_key
FROM dynamic JOIN folders USING (job, bucket) WHERE known
UNION ALL BY NAME
SELECT table_name, ended_at AS at, NULL AS scope_bucket, NULL AS scope_key FROM dynamic WHERE known IS NOT TRUE
UNION ALL BY NAME
SELECT table_name, emptied_at AS at, NULL AS scope_bucket, NULL AS scope_key
FROM writes WHERE emptied IS NOT NULL AND outcome <> 'succeeded'
"""
"""Places that overwrites empty. After a failed one, or with unknown partitions, everything before it is uncertain."""
