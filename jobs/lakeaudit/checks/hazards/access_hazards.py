"""Build FINDINGS rows from patterns of access in recorded requests."""

from collections.abc import Mapping, Sequence
from typing import Any

from lakeaudit.checks.hazards.access_patterns import PATTERNS, WatchedTables, access_rows, merge_patterns
from lakeaudit.config import Lake, Table
from lakeaudit.formatting import number, second
from lakeaudit.keys import uri_of
from lakeaudit.kinds import KINDS
from lakeaudit.matching.table_facts import roots
from lakeaudit.matching.verdicts import FindingPolicy, group_verdicts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection

AXIS = "access"
Finding = dict[str, Any]


def watched_tables(lake: Lake, scope: Sequence[Table]) -> WatchedTables | None:
    """Return the tables in which patterns are searched; None: the lake file switches all patterns off."""
    tables = [table for table in scope if any(_is_on(table, kind) for kind in PATTERNS)]
    buckets = {table.location.bucket for table in tables}
    weak = tuple(sorted(bucket for bucket in buckets if lake.is_weak(bucket)))
    return WatchedTables(roots(tables), weak) if tables else None


def _is_on(table: Table, kind: str) -> bool:
    return table.severities.get(kind) != "off"


def access_hazards(
    con: Connection, patterns: Sequence[Mapping[str, Any]], tables: Sequence[Table], policy: FindingPolicy
) -> tuple[Finding, ...]:
    """Return rows of FINDINGS, one per table, pattern and principal, from the ACCESS rows of all shares."""
    if not patterns:
        return ()
    judged = duck.rows_of(group_verdicts(con, access_rows(merge_patterns(patterns)), AXIS, policy))
    order = {table.name: at for at, table in enumerate(tables)}
    rows = [row for row in judged if row["outcome"] == "finding"]
    rows.sort(key=lambda row: (order[row["judged_table"]], PATTERNS.index(row["kind"]), row["principal"]))
    return tuple(map(_finding, rows))


def _finding(row: Mapping[str, Any]) -> Finding:
    return {
        "table_name": row["judged_table"],
        "axis": KINDS[row["kind"]].axis,
        "kind": row["kind"],
        "severity": row["severity"],
        "subject_type": "table",
        "subject": f"{row['kind']}#{row['principal']}",
        "bucket": row["bucket"],
        "partition_path": None,
        "files": row["files"],
        "confirmation": "not_needed",
        "cause_principal": row["principal"],
        "explanation": _explanation(row),
    }


_ACTIONS = {
    "overwrite_in_place": "overwrote {} in place",
    "reused_name": "used the names of {} again after a removal",
    "probe_before_put": "requested {} before the first write, and the store answered 404",
    "list_after_put": "listed {} within a minute after a write there",
    "stale_read": "read {} within a minute after a replacement or removal",
}


def _explanation(row: Mapping[str, Any]) -> str:
    subject = "folder" if row["kind"] == "list_after_put" else "file"
    samples = ", ".join(uri_of(row["bucket"], key) for key in row["samples"])
    times = f"{second(row['first_at'])} to {second(row['last_at'])}"
    action = _ACTIONS[row["kind"]].format(number(row["files"], subject))
    return f"{row['principal']} {action}, {number(row['requests'], 'time')} from {times}, such as {samples}"
