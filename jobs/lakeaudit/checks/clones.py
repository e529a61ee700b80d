"""Find shallow clones at risk: tables that list files below another table's root which that table no longer lists.

The source of a clone does not know its clones: its next VACUUM deletes removed files, even if a clone lists them.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from lakeaudit.kinds import KINDS
from lakeaudit.matching.verdicts import FindingPolicy, group_verdicts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLONE_FILE, CLONED

AT_RISK = "clone_at_risk"


def clone_files(con: Connection, claimed: Rows) -> Relation:
    """Return CLONE_FILE rows: live files below other tables' roots, from rows of `share.under_own_root`."""
    sql = """
        SELECT c.*, c.owner AS source, s.c_state AS x_state, s.c_certain AS x_certain, s.c_removed_at AS x_removed_at
        FROM (SELECT * EXCLUDE own FROM claimed WHERE NOT own AND c_state = 'live' AND owner <> table_name) c
        LEFT JOIN (SELECT bucket, key, table_name AS owner, c_state, c_certain, c_removed_at FROM claimed WHERE own) s
            USING (bucket, key, owner)
    """
    return duck.conform(con, duck.query(con, sql, claimed=claimed), CLONE_FILE)


def sum_clone_files(con: Connection, claimed: Rows, policy: FindingPolicy) -> Relation:
    """Return CLONED rows, from rows of `share.under_own_root`: files by clone, source and the rule that matched."""
    of_table = "SELECT * REPLACE (CAST(NULL AS VARCHAR) AS relative), table_name AS judged_table FROM input"
    # materialized: most lakes have no clones, and planning the rules takes longer than checking that
    files = duck.made_of(con, of_table, duck.hold(con, clone_files(con, claimed)))
    sql = """
        SELECT table_name, source, rule, outcome, severity, count(*) AS files, CAST(sum(c_records) AS BIGINT) AS rows,
            CAST(sum(c_size) AS BIGINT) AS bytes, min(x_removed_at) AS removed_at, min(key) AS sample
        FROM input GROUP BY ALL
    """
    judged = group_verdicts(con, files, "clones", policy)
    return duck.conform(con, duck.made_of(con, sql, judged), CLONED)


def clone_findings(con: Connection, rows: Rows) -> list[dict[str, Any]]:
    """Return one row for FINDINGS per clone and source, from all CLONED rows."""
    sql = """
        SELECT table_name, source, severity, CAST(sum(files) AS BIGINT) AS files, CAST(sum(rows) AS BIGINT) AS rows,
            CAST(sum(bytes) AS BIGINT) AS bytes, min(removed_at) AS removed_at, min(sample) AS sample,
            CAST(sum(files) FILTER (rule = 'hazard.source_forgot') AS BIGINT) AS unlisted
        FROM input WHERE outcome = 'finding' GROUP BY table_name, source, severity ORDER BY table_name, source
    """
    return [_finding(row) for row in duck.rows_of(duck.made_of(con, sql, rows))]


def clone_outcomes(con: Connection, rows: Rows) -> dict[str, Counter[str]]:
    """Count the files of each clone below other tables' roots by outcome, from all CLONED rows."""
    sql = "SELECT table_name, outcome, CAST(sum(files) AS BIGINT) AS files FROM input GROUP BY table_name, outcome"
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    for row in duck.rows_of(duck.made_of(con, sql, rows)):
        outcomes[row["table_name"]][row["outcome"]] += row["files"]
    return outcomes


def _finding(row: Mapping[str, Any]) -> dict[str, Any]:
    kind = KINDS[AT_RISK]
    return {
        "table_name": row["table_name"],
        "axis": kind.axis,
        "kind": kind.name,
        "severity": row["severity"],
        "subject_type": "table",
        "subject": f"{row['source']}#{kind.name}",
        "files": row["files"],
        "rows_at_stake": row["rows"],
        "bytes_at_stake": row["bytes"],
        "confirmation": "not_needed",
        "explanation": f"{_live_files(row['files'])} in the folder of "
        f"{row['source']}, "
        f"such as {row['sample']}; {_not_listed(row)}; the next clean-up of {row['source']} (VACUUM, removal of orphan "
        f"files) deletes {_them(row['files'])}",
    }


def _live_files(files: int) -> str:
    return "1 live file of this table is" if files == 1 else f"{files:,} live files of this table are"


def _them(files: int) -> str:
    return "it" if files == 1 else "them"


def _not_listed(row: Mapping[str, Any]) -> str:
    """Describe whether the log of the source removed the files or never listed them."""
    unlisted = row["unlisted"] or 0
    if unlisted == row["files"]:
        return f"the log of {row['source']} does not list {_them(row['files'])}"
    first = "" if row["files"] == 1 else ", the first"
    since = f"{first} at {row['removed_at']:%Y-%m-%dT%H:%M:%SZ}" if row["removed_at"] else ""
    rest = f" (the log does not list {unlisted})" if unlisted else ""
    return f"{row['source']} has removed {_them(row['files'])}{since}{rest}"
