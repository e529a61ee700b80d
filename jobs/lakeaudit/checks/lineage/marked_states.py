"""Select files of states that a delete marker hides, that are newer than the state read, or that were overwritten."""

from lakeaudit.evidence import registry
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import MARKED_STATE, REPLACED_VERSION

NEWEST = 20
"""States of one table that are selected; their number has no bound, because clean-ups leave markers, too."""

NEWEST_OF_OTHERS = 2
"""States that are selected of a log which no manifest of the lake file reads."""

OWN_FOLDER = r"(_delta_log|metadata|\.hoodie|\.hoodie/timeline)/$"
"""Pattern of the folder of a table that has the files of its states."""


def state_files(con: Connection, versions: Rows) -> Relation:
    """Return the few VERSION rows of files of states of tables, with format, folder and number."""
    kinds = registry.state_files()
    parts = " ".join(
        f"WHEN {kind.likely} THEN regexp_extract(key, {duck.pattern(kind.pattern)}, ['folder', 'number'])"
        for kind in kinds.values()
    )
    formats = " ".join(f"WHEN {kind.likely} THEN {duck.literal(name)}" for name, kind in kinds.items())
    numbers = " ".join(f"WHEN {duck.literal(name)} THEN {kind.number}" for name, kind in kinds.items())
    number = f"CASE format {numbers} END"
    likely = " OR ".join(kind.likely for kind in kinds.values())
    sql = f"""
        SELECT * EXCLUDE (found), found.folder AS folder, TRY_CAST({number} AS BIGINT) AS number
        FROM (SELECT *, CASE {parts} END AS found, CASE {formats} END AS format FROM input
            WHERE {likely})
        WHERE found.folder <> ''
    """
    return duck.hold(con, duck.made_of(con, sql, versions))


def with_older_versions(con: Connection, states: Rows) -> Relation:
    """Return rows of `state_files` whose file has an older version or a delete marker; most lakes have none."""
    sql = """
        SELECT * FROM input SEMI JOIN (
            SELECT source, bucket, key FROM input WHERE is_latest IS DISTINCT FROM true OR is_delete_marker)
            USING (source, bucket, key)
    """
    return duck.hold(con, duck.made_of(con, sql, states))


def marked_states(con: Connection, states: Rows, older: Rows, read: Rows) -> Relation:
    """Return MARKED_STATE rows: by folder the newest states above the one that was read.

    Args:
        con: where the query runs.
        states: rows of `state_files`.
        older: rows of `with_older_versions`.
        read: READ_STATE rows.
    """
    return duck.union(con, [_hidden_states(con, older), _listed_states(con, states, read)])


def _hidden_states(con: Connection, older: Rows) -> Relation:
    sql = f"""
        SELECT source, bucket, folder, format, number, key, max(modified_at) FILTER (is_latest) AS marked_at,
            arg_max(version_id, modified_at) FILTER (NOT is_delete_marker) AS version_id,
            arg_max(size, modified_at) FILTER (NOT is_delete_marker) AS size,
            max(modified_at) FILTER (NOT is_delete_marker) AS modified_at
        FROM input GROUP BY source, bucket, folder, format, number, key
        HAVING bool_or(coalesce(is_latest, true) AND coalesce(is_delete_marker, false))
        QUALIFY row_number() OVER (PARTITION BY source, bucket, folder, format ORDER BY number DESC, key) <= {NEWEST}
    """
    return duck.conform(con, duck.made_of(con, sql, older), MARKED_STATE)


def _listed_states(con: Connection, states: Rows, read: Rows) -> Relation:
    """Return states that storage lists as current and that are newer than the state that was read at their root.

    If no manifest reads the format, the newest states are returned, for the check of other tables at that root.
    """
    sql = f"""
        WITH current AS (
            SELECT source, bucket, folder, format, number, key, size, modified_at,
                regexp_replace(folder, '{OWN_FOLDER}', '') AS prefix
            FROM input WHERE coalesce(is_latest, true) AND NOT coalesce(is_delete_marker, false))
        SELECT current.*, CAST(NULL AS VARCHAR) AS version_id, CAST(NULL AS TIMESTAMP) AS marked_at
        FROM current JOIN read ON read.format = current.format AND read.bucket = current.bucket
            AND read.prefix = current.prefix AND (read.number IS NULL OR current.number > read.number)
        QUALIFY row_number() OVER (
            PARTITION BY source, current.bucket, folder, current.format ORDER BY current.number DESC, key)
            <= CASE WHEN read.number IS NULL THEN {NEWEST_OF_OTHERS} ELSE {NEWEST} END
    """
    return duck.conform(con, duck.made_of(con, sql, states, read=read), MARKED_STATE)


def replaced_versions(con: Connection, older: Rows) -> Relation:
    """Return REPLACED_VERSION rows from rows of `with_older_versions`: by folder the newest overwritten states.

    State files that are commits are left to `checks.commits`. A version below a delete marker, or its table, was
    removed on purpose.
    """
    key = "source, bucket, folder, format, number, key"
    sql = f"""
        WITH dated AS (
            SELECT *, max(modified_at) FILTER (is_delete_marker) OVER (PARTITION BY {key}) AS deleted_at
            FROM input WHERE format NOT IN ({duck.literals(registry.commit_formats())})),
        kept AS (
            SELECT {key}, is_latest, version_id, size, etag, modified_at FROM dated
            WHERE NOT is_delete_marker AND (deleted_at IS NULL OR modified_at > deleted_at)),
        replaced AS (
            SELECT older.source, older.bucket, older.folder, older.format, older.number, older.key,
                arg_max(older.version_id, older.modified_at) AS version_id
            FROM kept older JOIN kept newest USING ({key})
            WHERE newest.is_latest AND NOT older.is_latest AND older.version_id IS NOT NULL
                AND (older.size <> newest.size OR older.etag <> newest.etag)
            GROUP BY ALL)
        SELECT * FROM replaced
        QUALIFY row_number() OVER (PARTITION BY source, bucket, folder, format ORDER BY number DESC, key) <= {NEWEST}
    """
    return duck.conform(con, duck.made_of(con, sql, older), REPLACED_VERSION)
