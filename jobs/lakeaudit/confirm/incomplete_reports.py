"""Reports that storage contradicts: they lack files that storage has, and had before the report's cutoff.

A report whose filter cuts through a table lacks files of both sorts: listed ones, which a live look finds, and unlisted
ones, which nobody can find by it. So what the report should show of unlisted and of equal files is not known.
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
"""Files from which on a report counts as incomplete in a bucket that keeps versions, where one deletion may have been
undone: the object is then as old as before. Without versions one file proves it."""


def incomplete_reports(evidence: Evidence, marked: Rows, answers: pa.Table) -> Mapping[str, str]:
    """By table why the storage source that decides there is not complete.

    Args:
        evidence: what the run knows.
        marked: verdict rows as the snapshots alone show them.
        answers: LIVE rows, what storage says now.
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
    """By table and source how many files the source lacks that storage had before the source's cutoff.

    An object that was uploaded in parts bears the time at which the upload began, so its longest duration counts too.
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
