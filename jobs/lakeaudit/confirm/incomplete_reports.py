"""Finds incomplete reports: they lack files that storage had before the report's cutoff.

A report whose filter divides a table lacks listed files, which a live check finds, and unlisted ones, which it cannot
find. So unlisted and equal files are not all known.
"""

from collections import defaultdict
from collections.abc import Mapping

import pyarrow as pa

from lakeaudit.collect.evidence import Evidence
from lakeaudit.formatting import number
from lakeaudit.rules.file_facts import CLOCK_STEP
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

FEWEST_WITH_VERSIONS = 2
"""From this number of files on, a report counts as incomplete in a versioned bucket, where one deletion may have been
undone with the old time. Without versions one file proves it."""


def incomplete_reports(evidence: Evidence, marked: Rows, answers: pa.Table) -> Mapping[str, str]:
    """Return by table why its deciding storage source is incomplete.

    Args:
        evidence: the evidence of the run.
        marked: verdict rows from the snapshots alone.
        answers: LIVE rows of storage.
    """
    labels = {info.id: f"{info.kind} {info.location}" for info in evidence.observed.infos}
    found: dict[str, list[str]] = defaultdict(list)
    for row in duck.rows_of(lacking(evidence.con, marked, answers)):
        files = number(row["files"], "file")
        found[row["judged_table"]].append(
            f"{labels[row['source']]} lacks {files} of the table that storage has and that were written before the"
            f" report's cutoff, such as {row['sample']}: it is not complete, unless their deletion was undone since"
        )
    return {table: "; ".join(words) for table, words in found.items()}


def lacking(con: Connection, marked: Rows, answers: Rows) -> Rows:
    """Count by table and source the files that the source lacks and storage had before the source's cutoff.

    The time of a multipart object is the start of its upload, so the longest duration is added.
    """
    upload = "CASE WHEN l_multipart IS DISTINCT FROM false THEN o_max_upload ELSE INTERVAL 0 SECOND END"
    sql = f"""
        SELECT judged_table, s_source AS source, count(DISTINCT (bucket, key)) AS files, min(key) AS sample
        FROM input JOIN answers USING (bucket, key)
        WHERE axis = 'content' AND s_presence = 'absent' AND NOT coalesce(s_delete_marker, false)
            AND answers.l_confirmation = 'live' AND l_presence = 'present'
            AND l_modified_at + {upload} + {duck.literal(CLOCK_STEP)} <= s_from - s_margin
        GROUP BY judged_table, s_source
        HAVING files >= {FEWEST_WITH_VERSIONS} OR bool_or(coalesce(l_version_id, 'null') = 'null')
        ORDER BY judged_table, source
    """
    return duck.made_of(con, sql, marked, answers=answers)
