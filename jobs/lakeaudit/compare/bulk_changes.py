"""Bulk changes: one table-level finding instead of a row for every file of a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from lakeaudit.compare.coverage import Tallies
from lakeaudit.compare.findings import Stamp, from_plain, union
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

ENOUGH = 100
"""Below this many files every file keeps its own row."""

BULK_KINDS = ("overwritten", "size_mismatch")

_DIFFERENCE = "storage_size - manifest_size"


def folded(con: Connection, findings: Rows, tallies: Tallies, stamp: Stamp) -> Relation:
    """FINDINGS with the bulk changes of a table folded into one row each.

    A bulk change is more than half of all files of a table, and at least 100, rewritten at the same size, or off by one
    constant difference in size. `tallies` hold all files of the tables, suspects included.
    """
    held = duck.hold(con, findings)
    changes = [change for change in _candidates(con, held) if _is_bulk(change, tallies)]
    if not changes:
        return held
    kept = duck.query(con, f"SELECT * FROM input WHERE NOT coalesce({_members(changes)}, false)", input=held)
    return union(con, [kept, from_plain(con, [_row(change) for change in changes], stamp)])


def _members(changes: Sequence[Mapping[str, Any]]) -> str:
    each = [
        f"(table_name = {duck.literal(c['table_name'])} AND kind = {duck.literal(c['kind'])}"
        f" AND {_DIFFERENCE} = {c['difference']})"
        for c in changes
    ]
    return f"({' OR '.join(each)})"


def _candidates(con: Connection, findings: Rows) -> list[dict[str, Any]]:
    """Small: one row per table, kind and difference that 100 files or more share."""
    by = "table_name, axis, kind, severity"
    sql = f"""
        SELECT {by}, {_DIFFERENCE} AS difference, count(*) AS files,
            CAST(sum(bytes_at_stake) AS BIGINT) AS bytes_at_stake, CAST(sum(rows_at_stake) AS BIGINT) AS rows_at_stake,
            max(storage_time) AS storage_time, coalesce(bool_or(confirmation = 'live'), false) AS live
        FROM input WHERE kind IN ({duck.literals(BULK_KINDS)}) AND {_DIFFERENCE} IS NOT NULL
        GROUP BY {by}, difference HAVING count(*) >= {ENOUGH}
    """
    return duck.rows_of(duck.query(con, sql, input=findings))


def _is_bulk(change: Mapping[str, Any], tallies: Tallies) -> bool:
    tally = tallies.get((change["table_name"], "content"))
    return tally is not None and change["files"] * 2 > tally.files


def _row(change: dict[str, Any]) -> dict[str, Any]:
    apart = "at the same size" if change["difference"] == 0 else f"each by {change['difference']:+d} bytes"
    row = {name: value for name, value in change.items() if name not in ("difference", "live")}
    return row | {
        "subject_type": "table",
        "subject": change["table_name"],
        "confirmation": "live" if change["live"] else "none",
        "explanation": f"{change['files']} files, more than half of the table, were rewritten {apart}: "
        "one cause, most likely a copy or a re-encoding of the whole table",
    }
