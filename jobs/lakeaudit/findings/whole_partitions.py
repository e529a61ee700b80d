"""Finds partitions that are lost as a whole: every file that the newest state lists there is dropped. Pure.

Each file keeps its finding; the explanation of each names the partition and the number of its files.
"""

import pyarrow as pa

from lakeaudit.findings.bulk_changes import ENOUGH, Count, Partition
from lakeaudit.findings.coverage import Tallies
from lakeaudit.kinds import WHOLE_PARTITION
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

SMALL = 20_000
"""Up to this number of files, claims are counted for any lost file; in larger tables only for ENOUGH lost files."""

_WHOLE = pa.schema([("table_name", pa.string()), ("partition_path", pa.string()), ("lost", pa.int64())])


def with_whole_partitions(con: Connection, findings: Relation, tallies: Tallies, count: Count) -> Relation:
    """Name the partition in the explanation of a dropped file if the partition is lost as a whole.

    Args:
        con: the connection of the rows.
        findings: FINDINGS about single files.
        tallies: tallies of the tables; empty if only parts of tables are audited.
        count: counts the files that the newest states list in partitions.
    """
    lost = {
        partition: files
        for partition, files in _lost_files(con, findings).items()
        if _is_counted(partition, files, tallies)
    }
    listed = count(lost) if lost else {}
    whole = [
        (*partition, files) for partition, files in sorted(lost.items()) if listed.get(partition) == files
    ]
    if not whole:
        return findings
    sql = f"""
        SELECT findings.* REPLACE (CASE WHEN kind = 'dropped' AND lost IS NOT NULL
            THEN {duck.literal(WHOLE_PARTITION)} || partition_path || ', files: ' || lost || '; ' ELSE '' END
                || explanation AS explanation)
        FROM findings LEFT JOIN whole USING (table_name, partition_path)
    """
    return duck.query(con, sql, findings=findings, whole=duck.small(_WHOLE, whole))


def _lost_files(con: Connection, findings: Rows) -> dict[Partition, int]:
    """Return the number of dropped files by partition."""
    if duck.is_empty(findings):
        return {}
    sql = """
        SELECT table_name, partition_path, count(*) AS files FROM input
        WHERE kind = 'dropped' AND partition_path <> '' AND table_name IS NOT NULL GROUP BY ALL
    """
    rows = duck.rows_of(duck.query(con, sql, input=findings))
    return {(row["table_name"], row["partition_path"]): row["files"] for row in rows}


def _is_counted(partition: Partition, files: int, tallies: Tallies) -> bool:
    """Whether the claims of the partition are counted; this reads the claims of the table once more."""
    tally = tallies.get((partition[0], "content"))
    return tally is not None and (tally.files <= SMALL or files >= ENOUGH)
