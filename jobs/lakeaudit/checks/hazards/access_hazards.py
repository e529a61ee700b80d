"""Hazards of access: what patterns found in recorded requests mean for the tables, as rows of FINDINGS."""

from collections.abc import Mapping, Sequence
from typing import Any

from lakeaudit.checks.hazards.access_patterns import PATTERNS, Watched, access_rows, together
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


def watched(lake: Lake, scope: Sequence[Table]) -> Watched | None:
    """What patterns are looked for in; None: the lake file asks for none of them."""
    tables = [table for table in scope if any(_is_on(table, kind) for kind in PATTERNS)]
    buckets = {table.location.bucket for table in tables}
    weak = tuple(sorted(bucket for bucket in buckets if lake.is_weak(bucket)))
    return Watched(roots(tables), weak) if tables else None


def _is_on(table: Table, kind: str) -> bool:
    return table.severities.get(kind) != "off"


def access_hazards(
    con: Connection, patterns: Sequence[Mapping[str, Any]], tables: Sequence[Table], words: FindingPolicy
) -> tuple[Finding, ...]:
    """Rows of FINDINGS, one per table, pattern and principal, of ACCESS rows of all shares."""
    if not patterns:
        return ()
    judged = duck.rows_of(group_verdicts(con, access_rows(together(patterns)), AXIS, words))
    order = {table.name: at for at, table in enumerate(tables)}
    found = [row for row in judged if row["outcome"] == "finding"]
    found.sort(key=lambda row: (order[row["judged_table"]], PATTERNS.index(row["kind"]), row["principal"]))
    return tuple(map(_finding, found))


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
        "explanation": _words(row),
    }


_DID = {
    "overwrite_in_place": "wrote over {} in place",
    "reused_name": "used the names of {} again after they were removed",
    "probe_before_put": "asked for {} before it was first written, and was told that it is not there",
    "list_after_put": "listed {} within a minute after a file was written there",
    "stale_read": "read {} within a minute after it was replaced or removed",
}


def _words(row: Mapping[str, Any]) -> str:
    what = "folder" if row["kind"] == "list_after_put" else "file"
    samples = ", ".join(uri_of(row["bucket"], key) for key in row["samples"])
    times = f"{second(row['first_at'])} to {second(row['last_at'])}"
    did = _DID[row["kind"]].format(number(row["files"], what))
    return f"{row['principal']} {did}, {number(row['requests'], 'time')} from {times}, such as {samples}"
