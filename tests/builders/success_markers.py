"""A check of its own: partitions without a `_SUCCESS` marker, in tables whose other partitions have one."""

import pyarrow as pa

from lakeaudit.checks.protocol import Check, CheckInput, CheckResult
from lakeaudit.evidence.protocol import Batches
from lakeaudit.kinds import KINDS
from lakeaudit.matching.share import Share
from lakeaudit.runtime import duck

KIND = KINDS["incomplete_commit"]
_FOLDERS = pa.schema(
    [("table", pa.string()), ("folder", pa.string()), ("files", pa.int64()), ("markers", pa.int64())]
)


def select(share: Share) -> Batches:
    """Yield how many data files and markers each partition has in this share."""
    sql = """
        SELECT coalesce(table_name, owner) AS "table", regexp_extract(relative, '^(.*=.*)/[^/]*$', 1) AS folder,
            count(*) FILTER (NOT ends_with(key, '/_SUCCESS')) AS files,
            count(*) FILTER (ends_with(key, '/_SUCCESS')) AS markers
        FROM input WHERE s_presence = 'present' GROUP BY ALL HAVING folder <> ''
    """
    yield "success_markers", duck.query(share.con, sql, input=share.every_pair)


def judge(given: CheckInput) -> CheckResult:
    """Report partitions whose write did not end."""
    con, scope = given.evidence.con, {table.name: table for table in given.evidence.scope}
    sql = f"""
        SELECT "table", folder, CAST(sum(files) AS BIGINT) AS files
        FROM input WHERE "table" IN ({duck.literals([*scope])}) GROUP BY "table", folder
        QUALIFY sum(markers) = 0 AND sum(sum(markers)) OVER (PARTITION BY "table") > 0
    """
    partitions = duck.rows_of(duck.query(con, sql, input=given.matched.rows("success_markers", _FOLDERS)))
    return CheckResult(
        rows=tuple(
            {
                "table_name": each["table"],
                "axis": KIND.axis,
                "kind": KIND.name,
                "severity": scope[each["table"]].severity_of(KIND.name, "error"),
                "subject_type": "partition",
                "subject": f"{each['table']}/{each['folder']}#_SUCCESS",
                "partition_path": each["folder"],
                "files": each["files"],
                "confirmation": "not_needed",
                "explanation": f"{each['folder']} has {each['files']} files and no _SUCCESS marker",
            }
            for each in partitions
        )
    )


CHECK = Check("success_markers", judge, select, every_key=True)
