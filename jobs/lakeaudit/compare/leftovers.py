"""Multipart uploads that were begun long ago and never completed, as leftover verdicts."""

from collections.abc import Sequence

import pyarrow as pa

from lakeaudit.compare.match import partition_folder
from lakeaudit.compare.prefix_match import Places, attach_label
from lakeaudit.config import Table
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

_WAIT = pa.schema([("name", pa.string()), ("root_length", pa.int64()), ("wait", pa.duration("us"))])


def unfinished_uploads(
    con: Connection, uploads: Rows, cuts: pa.Table, tables: Sequence[Table], roots: Places
) -> Relation:
    """Uploads begun longer ago than leftover_age + max_upload: columns of a leftover verdict before its outcome."""
    waits = [
        (t.name, len(t.location.prefix), t.settings.leftover_age + t.settings.max_upload) for t in tables
    ]
    sql = f"""
        SELECT *, {partition_folder("relative")} AS partition_path FROM (
            SELECT judged_table, 'leftover' AS axis, 'leftover.unfinished_upload' AS rule, bucket, key,
                substring(key, CAST(root_length AS INTEGER) + 1) AS relative, 'temporary' AS category,
                CAST(NULL AS BIGINT) AS s_size, CAST(NULL AS VARCHAR) AS s_etag, upload_id AS s_version_id,
                initiated_at AS s_modified_at
            FROM uploads JOIN waits ON judged_table = name JOIN cuts ON cuts.source = uploads.source
            WHERE initiated_at + wait <= cuts.start - cuts.margin
        )
    """
    owned = attach_label(con, uploads, roots, "judged_table")
    return duck.query(con, sql, uploads=owned, waits=duck.small(_WAIT, waits), cuts=cuts)
