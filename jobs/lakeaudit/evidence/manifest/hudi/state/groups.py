"""Compute the state of a file group's files from all instants: its newest slice, older ones, and removed files.

The newest base file is live, and so are the log files since: readers merge them. A file group that was replaced has
no live file. A file is gone if a clean removed it, or a rollback, unless the instant was done again.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from lakeaudit.evidence.manifest.hudi.state.lost_updates import rival_notes
from lakeaudit.evidence.manifest.hudi.state.replaced_groups import replaced_notes
from lakeaudit.evidence.manifest.hudi.state.rows import FILE, FILES, STEP, STEPS
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import NOTE

COMPLETED = pa.schema(
    [("table_name", pa.string()), ("instants", pa.list_(pa.string())), ("first_instant", pa.string())]
)
"""By table the names that readers use which list folders, see `protocol.CommittedNames`."""
COUNTS = "coalesce(list_contains(instants, slice) OR slice < first_instant, false)"
_GROUP = "table_name, reading, file_group"
_FILE = f"{_GROUP}, bucket, key"


def states(
    source: str, completed: pa.Table, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    """Yield FILE rows of STEP rows, and NOTE rows: file groups of unknown origin, rival writes, and replaced groups.

    `completed` has COMPLETED rows.
    """
    steps = duck.hold(con, rows.get(STEPS, STEP.empty_table()))
    several = duck.hold(con, duck.query(con, _SEVERAL, steps=steps))
    yield FILES, duck.conform(con, duck.query(con, _WRITTEN_ONCE, steps=steps, several=several), FILE)
    others = duck.query(con, _OTHERS, steps=steps, several=several)
    yield FILES, duck.conform(con, duck.query(con, _FILES, steps=others, completed=completed), FILE)
    yield "notes", _unknown_beginnings(source, con, steps)
    yield "notes", rival_notes(source, con, steps)
    yield from (("notes", rows) for rows in replaced_notes(source, con, steps))


_SEVERAL = "SELECT hash(file_group) AS hashed FROM steps GROUP BY hashed HAVING count(*) > 1"
"""The hashes of file groups with several steps. One step with the same hash as another only takes the longer way."""
_OTHERS = "FROM steps WHERE act <> 'wrote' OR hash(file_group) IN (FROM several)"
_WRITTEN_ONCE = """
SELECT table_name, reading, bucket, key, 'live' AS state, false AS explained,
    CASE kind WHEN 'changes' THEN 'changes' ELSE 'data' END AS category, folder, "at", NULL AS replaced_at,
    size, least_size, records, commit_id, file_group, slice, false AS hidden
FROM steps WHERE act = 'wrote' AND hash(file_group) NOT IN (FROM several)
"""
"""The files of file groups with one step: they are live, as `_FILES` also finds."""
_FILES = f"""
WITH files AS (
    SELECT {_FILE}, any_value(folder) AS folder, min(kind) AS kind, max(slice) AS slice,
        bool_or(act = 'wrote') AS wrote, bool_or(act = 'cleaned') AS cleaned, bool_or(act = 'undone') AS undone,
        bool_or(act = 'planned') AS planned, bool_or(act IN ('wrote', 'saved')) AS needed,
        bool_or(act = 'saved') AS saved,
        min("at") FILTER (act IN ('wrote', 'failed', 'saved')) AS first_at,
        max("at") FILTER (act = 'wrote') AS last_at,
        max("at") FILTER (act IN ('cleaned', 'undone')) AS gone_at,
        max(size) FILTER (act = 'wrote') AS size, max(least_size) AS least_size,
        arg_max(records, "at") FILTER (act = 'wrote' AND records IS NOT NULL) AS records,
        min(commit_id) FILTER (act = 'wrote') AS commit_id
    FROM steps WHERE key IS NOT NULL GROUP BY {_FILE}
),
groups AS (
    SELECT {_GROUP}, max("at") AS replaced_at, bool_or(NOT archived) AS hidden
    FROM steps WHERE act = 'replaced' GROUP BY {_GROUP}
),
marked AS (
    SELECT *, cleaned OR (undone AND NOT needed) AS gone,
        max(slice) FILTER (kind = 'base' AND wrote AND NOT planned) OVER (PARTITION BY {_GROUP}) AS newest
    FROM files LEFT JOIN groups USING ({_GROUP})
),
judged AS (
    SELECT *, CASE WHEN gone THEN 'gone'
        WHEN wrote AND NOT planned AND replaced_at IS NULL AND slice >= coalesce(newest, '') THEN 'live'
        ELSE 'history' END AS state
    FROM marked
),
listed AS (
    SELECT judged.* REPLACE (CASE
            WHEN kind = 'base' AND state <> 'live' AND NOT planned AND NOT saved AND NOT coalesce(hidden, false)
                AND slice >= coalesce(live_slice, '') AND {COUNTS} THEN 'stray'
            ELSE state END AS state)
    FROM (SELECT *, max(slice) FILTER (kind = 'base' AND state = 'live') OVER (PARTITION BY {_GROUP}) AS live_slice
        FROM judged) judged LEFT JOIN completed USING (table_name)
)
SELECT table_name, reading, bucket, key, state, NOT gone AND (planned OR NOT needed) AS explained,
    CASE kind WHEN 'changes' THEN 'changes' ELSE 'data' END AS category, folder,
    CASE WHEN gone THEN gone_at WHEN kind = 'base' THEN first_at ELSE coalesce(last_at, first_at) END AS "at",
    replaced_at, size, least_size, records, commit_id, file_group, slice, coalesce(hidden, false) AS hidden
FROM listed
"""
"""One row per file. A store that lets files grow may write to a log file more than once."""


def _unknown_beginnings(source: str, con: Connection, steps: Relation) -> Relation:
    """Note base files that were made from another one whose writer is unknown."""
    sql = f"""WITH known AS (SELECT DISTINCT {_GROUP}, slice FROM steps WHERE kind = 'base' AND act = 'wrote'),
        unknown AS (SELECT * FROM steps ANTI JOIN known
            ON steps.table_name = known.table_name AND steps.reading = known.reading
                AND steps.file_group = known.file_group AND steps.before = known.slice
            WHERE before IS NOT NULL)
        SELECT {duck.literal(source)} AS source, table_name AS subject, NULL AS reason,
            count(DISTINCT file_group) AS count, json_object('reading', reading, 'before', max(before)) AS data
        FROM unknown GROUP BY table_name, reading"""
    return duck.conform(con, duck.query(con, sql, steps=steps), NOTE)
