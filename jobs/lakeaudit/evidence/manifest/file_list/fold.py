"""Fold event manifests: from the files that were written, removed and replaced, in order, to the current files.

Pure: rows in, rows out, in DuckDB. An event is ordered by its time, then its list, then its line.

* An `add` claims its path; a later write of the path retires the earlier claim.
* A `remove` retires its path.
* A `replace` retires every earlier claim under its scope (a path boundary) and claims its own path, if it has one.
  The replace rows of one list with one time and one scope are one act: they do not retire each other.
* A row that could not be understood (`fault`) makes everything before it uncertain: its own path if that is known,
  else the whole table, since it may have removed, replaced or rewritten any file.

A share of the keys folds on its own: it has all rows of its paths (`events`), and the acts and the table-wide doubts
of all lists (`acts`), which are few.
"""

from collections.abc import Mapping

import pyarrow as pa

from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM

KIND = "file_list"

EVENT: Mapping[str, pa.DataType] = {
    "table_name": pa.string(),
    "list_no": pa.int64(),  # order of the list among all lists, by name
    "line": pa.int64(),
    "at": pa.timestamp("us"),  # committed_at, else the list's own time; never null
    "action": pa.string(),  # add | remove | replace; null with a fault
    "bucket": pa.string(),
    "key": pa.string(),  # null: the row claims no path
    "scope_bucket": pa.string(),  # the place that a replace row empties
    "scope_key": pa.string(),
    "partition_path": pa.string(),
    "own_root": pa.bool_(),
    "size": pa.int64(),
    "etag": pa.string(),
    "version_id": pa.string(),
    "checksum": pa.string(),
    "records": pa.int64(),
    "commit_id": pa.string(),
    "fault": pa.string(),  # why the row cannot be understood
    "unread": pa.bool_(),  # the list as a whole has the fault
}
"""One row of a list."""

EVENTS = pa.schema([("source", pa.string()), *EVENT.items()])
"""Rows of kind `events`: those with a key."""

ACTS = pa.schema(
    [
        ("source", pa.string()),
        ("table_name", pa.string()),
        ("list_no", pa.int64()),
        ("line", pa.int64()),
        ("at", pa.timestamp("us")),
        ("scope_bucket", pa.string()),
        ("scope_key", pa.string()),  # null: a row without a sound meaning, about any file of its table
    ]
)
"""Rows of kind `acts`: the first line of a replace act, and the last line that makes its whole table uncertain."""

CHANGED = pa.schema([(name, pa.string()) for name in ("table_name", "bucket", "key", "state")])
"""A row for each path whose state in a manifest changed: `protocol.Changes.rows`."""

FOLDER = "CASE key WHEN '/' THEN '' ELSE parse_dirpath(key, 'forward_slash') END"
"""The part of a key before its last slash, in SQL; DuckDB treats a lone slash as a folder."""


def claims(
    con: Connection,
    rows: Mapping[str, Rows],
    *,
    source: str,
    left_out: tuple[str, ...] = (),
    kind: str = KIND,
    alone: bool = False,
) -> Relation:
    """Return the newest state of every path that EVENTS rows of a source name, in the columns of schemas.CLAIM.

    Live paths are `live`, retired ones `gone` at the time of the event that retired them. Acts of all event manifests
    of the table count, or only the source's own (`alone`). `left_out` are tables that are not folded.
    """
    own = f"source = {duck.literal(source)}" if alone else "true"
    acts = duck.query(con, f"FROM acts WHERE {own}", acts=rows.get("acts", ACTS.empty_table()))
    named = {
        "events": rows.get("events", EVENTS.empty_table()),
        "acts": duck.table(acts),  # few, and used twice
    }
    query = _SQL.format(folder=FOLDER, left_out=duck.literals(left_out), source=duck.literal(source))
    constants = {"source": duck.literal(source), "manifest_kind": duck.literal(kind), "least_size": "NULL"}
    return duck.conform(con, duck.query(con, query, **named), CLAIM, constants)


_SQL = """
WITH ordered AS (
    SELECT *, {{'at': "at", 'list_no': list_no, 'line': line}} AS ord,
        fault IS NULL AND action IN ('add', 'replace') AS written,
        fault IS NULL AND action = 'remove' AS removed
    FROM events
    WHERE key IS NOT NULL AND source = {source} AND NOT coalesce(table_name IN ({left_out}), false)
),
-- for each path its last write with its values, its removals and its last doubt
paths AS MATERIALIZED (
    SELECT table_name, bucket, key,
        max(ord) FILTER (written) AS added,
        arg_max(written_as, ord) FILTER (written) AS last_write,
        list(ord) FILTER (removed) AS removals,
        arg_min(written_as, ord) FILTER (removed) AS first_removal,
        max(ord) FILTER (fault IS NOT NULL) AS doubt
    FROM (
        SELECT *, {{
            'partition_path': partition_path, 'own_root': own_root, 'size': size, 'etag': etag,
            'version_id': version_id, 'checksum': checksum, 'records': records, 'commit_id': commit_id
        }} AS written_as
        FROM ordered
    )
    GROUP BY ALL
),
replacements AS MATERIALIZED (
    SELECT table_name, scope_bucket AS bucket, scope_key AS scope,
        {{'at': "at", 'list_no': list_no, 'line': min(line)}} AS ord,
        CASE scope_key WHEN '' THEN 0 ELSE len(string_split(scope_key, '/')) END AS depth
    FROM acts WHERE scope_key IS NOT NULL
    GROUP BY table_name, list_no, "at", scope_bucket, scope_key
),
written_paths AS MATERIALIZED (
    SELECT table_name, bucket, key, added, {folder} AS folder
    FROM paths WHERE added IS NOT NULL AND (table_name, bucket) IN (SELECT (table_name, bucket) FROM replacements)
),
folders AS MATERIALIZED (
    SELECT table_name, bucket, folder, string_split(folder, '/') AS parts,
        CASE folder WHEN '' THEN 0 ELSE len(string_split(folder, '/')) END AS depth
    FROM (SELECT DISTINCT table_name, bucket, folder FROM written_paths)
),
depths AS (SELECT DISTINCT table_name, bucket, depth FROM replacements),
-- for each folder the scopes that hold it, including itself
scopes AS (
    SELECT f.table_name, f.bucket, f.folder,
        CASE d.depth WHEN 0 THEN '' ELSE array_to_string(f.parts[1:d.depth], '/') END AS scope
    FROM folders AS f
    JOIN depths AS d ON f.table_name = d.table_name AND f.bucket = d.bucket AND f.depth >= d.depth
),
-- for each path the first replacement after its last write
replaced AS (
    SELECT w.table_name, w.bucket, w.key, min(r.ord) AS ord
    FROM (SELECT * FROM written_paths JOIN scopes USING (table_name, bucket, folder)) AS w
    ASOF JOIN replacements AS r
        ON w.table_name = r.table_name AND w.bucket = r.bucket AND w.scope = r.scope AND w.added < r.ord
    GROUP BY ALL
),
table_doubts AS (
    SELECT table_name, max({{'at': "at", 'list_no': list_no, 'line': line}}) AS table_doubt
    FROM acts WHERE scope_key IS NULL GROUP BY table_name
),
settled AS (
    SELECT p.table_name, p.bucket, p.key, p.added, coalesce(last_write, first_removal) AS row,
        least(list_min(list_filter(removals, lambda each: added IS NULL OR each > added)), r.ord) AS removed,
        greatest(doubt, table_doubt) AS doubt
    FROM paths AS p
    LEFT JOIN replaced AS r USING (table_name, bucket, key)
    LEFT JOIN table_doubts USING (table_name)
)
SELECT table_name, bucket, key, row.*,
    CASE WHEN removed IS NULL THEN 'live' ELSE 'gone' END AS state,
    coalesce(doubt < coalesce(removed, added), true) AS certain,
    'data' AS category, added."at" AS claimed_at, removed."at" AS removed_at, false AS explained,
    CASE WHEN removed IS NULL THEN 1 ELSE 0 END AS listed, NULL AS table_version
FROM settled WHERE added IS NOT NULL OR removed IS NOT NULL
"""
