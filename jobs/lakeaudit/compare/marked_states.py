"""Files of tables' states that a delete marker hides, that are newer than what was read, or that were written again."""

from lakeaudit.keys import END
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import MARKED_STATE, REPLACED_VERSION

NEWEST = 20
"""States of one table that are named; how many there are is not bounded, since clean-up leaves markers too."""

NEWEST_OF_OTHERS = 2
"""States that are named of a log which no manifest of the lake file reads."""

OWN_FOLDER = r"(_delta_log|metadata|\.hoodie|\.hoodie/timeline)/$"
"""The folder of a table that holds the files of its states, at the end of its name."""

FORMATS = {
    "delta": rf"^((?:.*/)?_delta_log/)([0-9]{{20}})\.json{END}",
    "iceberg": rf"^((?:.*/)?metadata/)v?([0-9]{{1,18}})(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?{END}",
    "hudi": rf"^((?:.*/)?\.hoodie/(?:timeline/)?)([0-9]{{14,17}})(?:_[0-9]{{14,17}})?\.[a-z]*commit{END}",
}
"""By format how the key of a state's own file looks: its folder, and its number."""
_LIKELY = "contains(key, '_delta_log/0') OR contains(key, '.metadata.json') OR contains(key, '.hoodie/')"


def marked_states(con: Connection, versions: Rows, read: Rows) -> Relation:
    """MARKED_STATE rows from VERSION rows, by folder the newest states above the one that was read.

    Args:
        con: where they are selected.
        versions: VERSION rows.
        read: READ_STATE rows.
    """
    likely = duck.query(con, f"SELECT * FROM input WHERE {_LIKELY}", input=versions)
    formats = (
        each for name in FORMATS for each in (_of_format(con, likely, name), _listed(con, likely, name, read))
    )
    return duck.union(con, [*formats])


def _named(name: str) -> str:
    """VERSION rows of `input` whose keys are states of a format, with the folder and the number of the state."""
    regex = duck.pattern(FORMATS[name])
    number = _number(name, f"regexp_extract(key, {regex}, 2)")
    columns = f"regexp_extract(key, {regex}, 1) AS folder, TRY_CAST({number} AS BIGINT) AS number"
    return f"SELECT *, {columns} FROM input WHERE regexp_matches(key, {regex})"


def _of_format(con: Connection, versions: Relation, name: str) -> Relation:
    sql = f"""
        WITH named AS ({_named(name)}),
        hidden AS (
            SELECT source, bucket, folder, number, key, max(modified_at) FILTER (is_latest) AS marked_at,
                arg_max(version_id, modified_at) FILTER (NOT is_delete_marker) AS version_id,
                arg_max(size, modified_at) FILTER (NOT is_delete_marker) AS size,
                CAST(NULL AS TIMESTAMP) AS modified_at
            FROM named GROUP BY ALL HAVING bool_or(coalesce(is_latest, true) AND coalesce(is_delete_marker, false)))
        SELECT *, {duck.literal(name)} AS format FROM hidden
        QUALIFY row_number() OVER (PARTITION BY source, bucket, folder ORDER BY number DESC, key) <= {NEWEST}
    """
    return duck.conform(con, duck.query(con, sql, input=versions), MARKED_STATE)


def _listed(con: Connection, versions: Relation, name: str, read: Rows) -> Relation:
    """States that storage lists as current, and that are newer than the state that was read at their root.

    Where no manifest reads the format, the newest ones are kept, for the reading of what else lists files there.
    """
    sql = f"""
        WITH named AS ({_named(name)}),
        current AS (
            SELECT source, bucket, folder, number, key, size, modified_at,
                regexp_replace(folder, '{OWN_FOLDER}', '') AS prefix
            FROM named WHERE coalesce(is_latest, true) AND NOT coalesce(is_delete_marker, false))
        SELECT current.*, CAST(NULL AS VARCHAR) AS version_id, CAST(NULL AS TIMESTAMP) AS marked_at,
            {duck.literal(name)} AS format
        FROM current JOIN read ON read.format = {duck.literal(name)} AND read.bucket = current.bucket
            AND read.prefix = current.prefix AND (read.number IS NULL OR current.number > read.number)
        QUALIFY row_number() OVER (PARTITION BY source, current.bucket, folder ORDER BY current.number DESC, key)
            <= CASE WHEN read.number IS NULL THEN {NEWEST_OF_OTHERS} ELSE {NEWEST} END
    """
    return duck.conform(con, duck.query(con, sql, input=versions, read=read), MARKED_STATE)


REWRITTEN = ("iceberg", "hudi")
"""Formats of whose states older versions are compared here; commits of Delta are compared by `commits`."""


def replaced_versions(con: Connection, versions: Rows) -> Relation:
    """REPLACED_VERSION rows from VERSION rows: by folder the newest states whose file was written again.

    A version below a delete marker was removed on purpose, or its table was.
    """
    likely = duck.query(con, f"SELECT * FROM input WHERE {_LIKELY}", input=versions)
    return duck.union(con, [_rewritten(con, likely, name) for name in REWRITTEN])


def _rewritten(con: Connection, versions: Relation, name: str) -> Relation:
    key = "source, bucket, folder, number, key"
    sql = f"""
        WITH named AS ({_named(name)}),
        dated AS (
            SELECT *, max(modified_at) FILTER (is_delete_marker) OVER (PARTITION BY {key}) AS deleted_at FROM named),
        kept AS (
            SELECT {key}, is_latest, version_id, size, etag, modified_at FROM dated
            WHERE NOT is_delete_marker AND (deleted_at IS NULL OR modified_at > deleted_at)),
        replaced AS (
            SELECT older.source, older.bucket, older.folder, older.number, older.key,
                arg_max(older.version_id, older.modified_at) AS version_id
            FROM kept older JOIN kept newest USING (source, bucket, folder, number, key)
            WHERE newest.is_latest AND NOT older.is_latest AND older.version_id IS NOT NULL
                AND (older.size <> newest.size OR older.etag <> newest.etag)
            GROUP BY ALL)
        SELECT *, {duck.literal(name)} AS format FROM replaced
        QUALIFY row_number() OVER (PARTITION BY source, bucket, folder ORDER BY number DESC, key) <= {NEWEST}
    """
    return duck.conform(con, duck.query(con, sql, input=versions), REPLACED_VERSION)


def _number(name: str, text: str) -> str:
    """The number as the format's reader gives it: old instants of Hudi have no milliseconds."""
    return f"CASE length({text}) WHEN 14 THEN {text} || '999' ELSE {text} END" if name == "hudi" else text
