"""Finds unfinished uploads in a table's folder, and tables that the lake file does not name."""

from collections.abc import Sequence

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.config import Table
from lakeaudit.evidence.registry import roots
from lakeaudit.matching.pairs import partition_folder
from lakeaudit.matching.prefix_match import Places, attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

_WAIT = pa.schema([("name", pa.string()), ("root_length", pa.int64()), ("wait", pa.duration("us"))])


def nested_roots(con: Connection, pairs: Rows) -> Relation:
    """Find roots of tables (bucket, key, format) in the folders of tables, including their own, from PAIR rows.

    Metadata of a format shows a root. Objects below `.hoodie` belong to the Hudi table around it.
    """
    known = roots()
    # the expression is expensive, and hardly any key can match it
    likely = " OR ".join(f"contains(path, {duck.literal(f'/{each.folder}/')})" for each in known.values())
    shown = rf"^(.*?)/(?:{'|'.join(f'({each.below})' for each in known.values())}){keys.END}"
    names = duck.literals(["root", *(f"root_{at}" for at, _ in enumerate(known))])
    formats = " ".join(
        f"WHEN found.root_{at} <> '' THEN {duck.literal(name)}" for at, name in enumerate(known)
    )
    sql = f"""
        SELECT DISTINCT bucket, rtrim(left(key, length(key) - length(relative)) || ltrim(found.root, '/'), '/') AS key,
            CASE {formats} END AS format
        FROM (
            SELECT *, CASE WHEN {likely} THEN regexp_extract(path, {duck.pattern(shown)}, [{names}]) END AS found
            FROM (SELECT *, '/' || relative AS path FROM input
                WHERE owner IS NOT NULL AND s_presence = 'present' AND first))
        WHERE format IS NOT NULL
    """
    return duck.made_of(con, sql, pairs)


LOG_OF_KEY = """CASE WHEN contains(key, '/_delta_log/') THEN regexp_extract(key, '^(.*)/_delta_log/', 1)
    WHEN starts_with(key, '_delta_log/') THEN '' END"""
"""SQL for the folder of the table whose Delta log contains a key; empty at a bucket's root, null for other keys."""


def folders_of_logs(con: Connection, objects: Rows) -> Relation:
    """Return the folders (bucket, key) of the tables whose Delta log has a file among these rows (bucket, key)."""
    found = duck.made_of(con, f"SELECT bucket, {LOG_OF_KEY} AS log FROM input", objects)
    return duck.made_of(con, "SELECT DISTINCT bucket, log AS key FROM input WHERE log IS NOT NULL", found)


def unfinished_uploads(
    con: Connection, uploads: Rows, cuts: pa.Table, tables: Sequence[Table], roots: Places
) -> Relation:
    """Return uploads older than leftover_age + max_upload, with the columns of a verdict without its outcome."""
    waits = [
        (t.name, len(t.location.prefix), t.settings.leftover_age + t.settings.max_upload) for t in tables
    ]
    sql = f"""
        SELECT *, {partition_folder("relative")} AS partition_path FROM (
            SELECT judged_table, 'leftover' AS axis, 'leftover.unfinished_upload' AS rule, bucket, key,
                substring(key, CAST(root_length AS INTEGER) + 1) AS relative, 'temporary' AS category,
                CAST(NULL AS BIGINT) AS s_size, NULL AS c_records, CAST(NULL AS VARCHAR) AS s_etag,
                false AS o_logged, false AS o_by_folder,
                upload_id AS s_version_id, initiated_at AS s_modified_at
            FROM input uploads JOIN waits ON judged_table = name JOIN cuts ON cuts.source = uploads.source
            WHERE initiated_at + wait <= cuts.start - cuts.margin
        )
    """
    owned = attach_label(con, uploads, roots, "judged_table")
    return duck.made_of(con, sql, owned, waits=duck.small(_WAIT, waits), cuts=cuts)
