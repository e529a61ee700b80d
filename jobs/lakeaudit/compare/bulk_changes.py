"""Bulk changes: one finding about a table instead of a row for each of its files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakeaudit.compare.coverage import Tallies
from lakeaudit.compare.findings import Stamp, from_plain
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

ENOUGH = 100
"""Below this many files every file keeps its own row."""

SIZED = ("overwritten", "size_mismatch")
"""Kinds of which only files with the same difference in size are one bulk change."""

PAD = 64
"""Encryption on the client's side makes an object larger, by up to so many bytes: padding, a tag, a nonce."""

ALIKE = {
    "archived": "are in a storage class that must be restored before reading: one cause, most likely a lifecycle rule",
    "hidden": "have no entry in the metadata store: one cause, most likely a store that was cleared, or never filled",
}
"""Kinds of which all files of a table are one bulk change, with what is said of them."""

GROUPED = {"archived": 10}
"""Kinds of which so many files of a partition are one finding, however many others it has: one rule archived them."""

_DIFFERENCE = f"CASE WHEN kind IN ({duck.literals(SIZED)}) THEN storage_size - manifest_size END"


def folded(con: Connection, findings: Relation, tallies: Tallies, stamp: Stamp) -> Relation:
    """FINDINGS with the bulk changes of a table folded into one row each.

    A bulk change is more than half of all files of a table that an axis judges, and at least 100: rewritten at the same
    size, off by one constant difference in size, archived, or hidden. `tallies` hold all files of the tables, suspects
    included. Sizes that are larger by a few bytes each (see PAD) are off by one cause, too.
    """
    padded = [change for change in _padded(con, findings) if _is_bulk(change, tallies)]
    constant = [change for change in _candidates(con, findings) if _is_bulk(change, tallies)]
    changes = [*padded, *(change for change in constant if not _among(change, padded))]
    changes += [change for change in _in_partitions(con, findings) if not _of_table(change, changes)]
    if not changes:
        return findings
    kept = duck.query(
        con, f"SELECT * FROM input WHERE NOT coalesce({_members(changes)}, false)", input=findings
    )
    return duck.union(con, [kept, from_plain(con, [_row(change) for change in changes], stamp)])


def members(con: Connection, single: Rows, about_files: Rows) -> Relation | None:
    """Of the files in bulk changes: their discrepancy_id and spoken_by, that of the finding that speaks for them.

    None where nothing was folded.

    Args:
        con: holds the answer.
        single: FINDINGS about single files, before `folded`.
        about_files: the same after it.
    """
    sql = """
        SELECT gone.discrepancy_id, bulk.discrepancy_id AS spoken_by
        FROM (SELECT * FROM single ANTI JOIN about_files USING (discrepancy_id)) gone
        JOIN (SELECT * FROM about_files WHERE subject_type IN ('table', 'partition')) bulk
            USING (table_name, axis, kind, severity)
        WHERE bulk.subject_type = 'table' OR bulk.partition_path = gone.partition_path
    """
    found = duck.hold(con, duck.query(con, sql, single=single, about_files=about_files))
    return found if duck.count_of(found) else None


def apart(
    con: Connection, about_tables: Sequence[Mapping[str, Any]], about_files: Rows
) -> Iterator[Mapping[str, Any]]:
    """Rows for FINDINGS about tables, under a subject of their own where a bulk change has the table's name.

    Two findings of one run are never one discrepancy.
    """
    bulk = "SELECT DISTINCT table_name, axis FROM input WHERE subject_type = 'table'"
    taken = {
        (row["table_name"], row["axis"]) for row in duck.rows_of(duck.query(con, bulk, input=about_files))
    }
    for row in about_tables:
        clashes = row["subject_type"] == "table" and (row.get("table_name"), row["axis"]) in taken
        yield {**row, "subject": f"{row['subject']}#{row['kind']}"} if clashes else row


def _members(changes: Sequence[Mapping[str, Any]]) -> str:
    each = [
        f"(table_name = {duck.literal(c['table_name'])} AND kind = {duck.literal(c['kind'])}"
        f" AND severity = {duck.literal(c['severity'])}"
        f" AND {_same_difference(c)})"
        for c in changes
    ]
    return f"({' OR '.join(each)})"


def _same_difference(change: Mapping[str, Any]) -> str:
    if "partition_path" in change:
        return f"partition_path = {duck.literal(change['partition_path'])}"
    if "least" in change:
        return f"({_DIFFERENCE}) BETWEEN {change['least']} AND {change['most']}"
    return f"({_DIFFERENCE}) IS NOT DISTINCT FROM {duck.literal(change['difference'])}"


def _among(change: Mapping[str, Any], padded: Sequence[Mapping[str, Any]]) -> bool:
    by = ("table_name", "kind", "severity")
    return any(
        all(change[name] == other[name] for name in by)
        and change["difference"] is not None
        and other["least"] <= change["difference"] <= other["most"]
        for other in padded
    )


def _in_partitions(con: Connection, findings: Rows) -> list[dict[str, Any]]:
    """One row per partition of which enough files are alike, see GROUPED."""
    enough = " OR ".join(f"kind = {duck.literal(kind)} AND count(*) >= {n}" for kind, n in GROUPED.items())
    sql = f"""
        SELECT {_BY}, partition_path, {_SUMS} FROM input WHERE partition_path <> ''
        GROUP BY {_BY}, partition_path HAVING {enough}
    """
    return duck.rows_of(duck.query(con, sql, input=findings))


def _of_table(change: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> bool:
    by = ("table_name", "kind", "severity")
    return any(
        all(change[name] == other[name] for name in by) for other in changes if "partition_path" not in other
    )


def _padded(con: Connection, findings: Rows) -> list[dict[str, Any]]:
    """Small: one row per table of which 100 files or more are larger by 1 to PAD bytes, not all by as many."""
    sql = f"""
        SELECT {_BY}, min({_DIFFERENCE}) AS least, max({_DIFFERENCE}) AS most, {_SUMS}
        FROM input WHERE kind = 'size_mismatch' AND ({_DIFFERENCE}) BETWEEN 1 AND {PAD}
        GROUP BY {_BY} HAVING count(*) >= {ENOUGH} AND least < most
    """
    return duck.rows_of(duck.query(con, sql, input=findings))


_BY = "table_name, axis, kind, severity"
_SUMS = """count(*) AS files,
    CAST(sum(bytes_at_stake) AS BIGINT) AS bytes_at_stake, CAST(sum(rows_at_stake) AS BIGINT) AS rows_at_stake,
    max(storage_time) AS storage_time, coalesce(bool_or(confirmation = 'live'), false) AS live"""


def _candidates(con: Connection, findings: Rows) -> list[dict[str, Any]]:
    """Small: one row per table, kind and difference that 100 files or more share."""
    sql = f"""
        SELECT {_BY}, {_DIFFERENCE} AS difference, {_SUMS}
        FROM input WHERE kind IN ({duck.literals([*SIZED, *ALIKE])})
        GROUP BY {_BY}, difference
        HAVING count(*) >= {ENOUGH} AND (difference IS NOT NULL OR kind IN ({duck.literals([*ALIKE])}))
    """
    return duck.rows_of(duck.query(con, sql, input=findings))


def _is_bulk(change: Mapping[str, Any], tallies: Tallies) -> bool:
    tally = tallies.get((change["table_name"], change["axis"]))
    return tally is not None and change["files"] * 2 > tally.files


def _row(change: dict[str, Any]) -> dict[str, Any]:
    row = {
        name: value for name, value in change.items() if name not in ("difference", "least", "most", "live")
    }
    told = {"confirmation": "live" if change["live"] else "none"}
    if "partition_path" in change:
        subject = f"{change['partition_path']}#{change['kind']}"
        words = f"{change['files']} files of the partition {_words(change)}"
        return row | told | {"subject_type": "partition", "subject": subject, "explanation": words}
    words = f"{change['files']} files, more than half of the table, {_words(change)}"
    return row | told | {"subject_type": "table", "subject": change["table_name"], "explanation": words}


def _words(change: Mapping[str, Any]) -> str:
    if change["kind"] in ALIKE:
        return ALIKE[change["kind"]]
    if "least" in change:
        return (
            f"are larger than their writer recorded, each by {change['least']} to {change['most']} bytes: one cause, "
            "most likely encryption on the client's side, which pads what it writes"
        )
    apart = "at the same size" if change["difference"] == 0 else f"each by {change['difference']:+d} bytes"
    return f"were rewritten {apart}: one cause, most likely a copy or a re-encoding of the whole table"
