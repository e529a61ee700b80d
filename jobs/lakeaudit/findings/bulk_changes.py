"""Bulk changes: one finding about a table or partition instead of a row for each of its files."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from lakeaudit.findings.causes import most_common
from lakeaudit.findings.coverage import Tallies
from lakeaudit.findings.finding_rows import RunStamp, from_plain
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
"""Kinds of which all files of a table or partition are one bulk change, with what is said of them."""

GROUPED = {"archived": 10}
"""Kinds of which so many files of a partition are one finding, however many others it has: one rule archived them."""

_DIFFERENCE = f"CASE WHEN kind IN ({duck.literals(SIZED)}) THEN storage_size - manifest_size END"


Partition = tuple[str, str]
"""A table's name and a partition path."""

Count = Callable[[Collection[Partition]], Mapping[Partition, int]]
"""How many files partitions have; one of which that is not known is not among the answers."""


def _unknown(_: Collection[Partition]) -> Mapping[Partition, int]:
    return {}


def group_bulk_changes(
    con: Connection, findings: Relation, tallies: Tallies, stamp: RunStamp, count: Count = _unknown
) -> Relation:
    """FINDINGS with the bulk changes of a table, or of a partition of it, folded into one row each.

    A bulk change is more than half of all files of a table that an axis judges, and at least 100: rewritten at the same
    size, off by one constant difference in size, archived, or hidden. `tallies` hold all files of the tables, suspects
    included. Sizes that are larger by a few bytes each (see PAD) are off by one cause, too. Where that is not so of the
    table it may be so of a partition; `count` is asked only of those that have so many such files.
    """
    changes = _single_cause(con, findings, _BY)
    changes = _without_padded([change for change in changes if _is_bulk(change, _files_of(change, tallies))])
    changes += [change for change in _in_partitions(con, findings, count) if not _of_table(change, changes)]
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
        single: FINDINGS about single files, before `group_bulk_changes`.
        about_files: the same after it.
    """
    sql = """
        SELECT gone.discrepancy_id, bulk.discrepancy_id AS spoken_by
        FROM (SELECT * FROM single ANTI JOIN about_files USING (discrepancy_id)) gone
        JOIN (SELECT * FROM about_files WHERE subject_type IN ('table', 'partition')) bulk
            USING (table_name, axis, kind, severity)
        WHERE bulk.subject_type = 'table' OR bulk.partition_path = gone.partition_path
    """
    if about_files is single:
        return None
    found = duck.hold(con, duck.query(con, sql, single=single, about_files=about_files))
    return found if duck.count_of(found) else None


def with_own_subjects(
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
    place = (
        f"partition_path = {duck.literal(change['partition_path'])}" if _is_of_partition(change) else "true"
    )
    if "least" in change:
        return f"{place} AND ({_DIFFERENCE}) BETWEEN {change['least']} AND {change['most']}"
    return f"{place} AND ({_DIFFERENCE}) IS NOT DISTINCT FROM {duck.literal(change['difference'])}"


def _is_of_partition(change: Mapping[str, Any]) -> bool:
    return "partition_path" in change


def _without_padded(changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those of one difference that are among the padded ones of the same files."""
    padded = [change for change in changes if "least" in change]
    return [*padded, *(change for change in changes if "least" not in change and not _among(change, padded))]


def _among(change: Mapping[str, Any], padded: Sequence[Mapping[str, Any]]) -> bool:
    by = ("table_name", "kind", "severity", "partition_path")
    return any(
        all(change.get(name) == other.get(name) for name in by)
        and change["difference"] is not None
        and other["least"] <= change["difference"] <= other["most"]
        for other in padded
    )


def _in_partitions(con: Connection, findings: Rows, count: Count) -> list[dict[str, Any]]:
    """One row per partition of which enough files are alike: of GROUPED so many, of the others more than half."""
    of_partitions = (
        f"(SELECT * FROM input WHERE partition_path <> '' AND kind NOT IN ({duck.literals([*GROUPED])}))"
    )
    found = _single_cause(con, findings, _BY_PARTITION, of_partitions)
    files = count({_partition(change) for change in found}) if found else {}
    bulk = [change for change in found if _is_bulk(change, files.get(_partition(change)))]
    return [*_without_padded(bulk), *_grouped(con, findings)]


def _grouped(con: Connection, findings: Rows) -> list[dict[str, Any]]:
    """Small: a row per partition of which so many files are of one kind, see GROUPED."""
    if duck.are_few(findings, min(GROUPED.values())):
        return []
    enough = " OR ".join(f"kind = {duck.literal(kind)} AND count(*) >= {n}" for kind, n in GROUPED.items())
    sql = f"""
        SELECT {_BY_PARTITION}, NULL AS difference, {_SUMS} FROM input WHERE partition_path <> ''
        GROUP BY {_BY_PARTITION} HAVING {enough}
    """
    return duck.rows_of(duck.query(con, sql, input=findings))


def _partition(change: Mapping[str, Any]) -> Partition:
    return change["table_name"], change["partition_path"]


def _of_table(change: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a change of the whole table speaks for it."""
    by = ("table_name", "kind", "severity")
    return any(all(change[name] == other[name] for name in by) for other in changes)


_BY = "table_name, axis, kind, severity"
_BY_PARTITION = f"{_BY}, partition_path"
_SUMS = """count(*) AS files,
    CAST(sum(bytes_at_stake) AS BIGINT) AS bytes_at_stake, CAST(sum(rows_at_stake) AS BIGINT) AS rows_at_stake,
    max(storage_time) AS storage_time, coalesce(bool_or(confirmation = 'live'), false) AS live,
    coalesce(bool_or(confirmation = 'error'), false) AS failed,
    mode(struct_pack(cause := cause, principal := cause_principal)) FILTER (cause IS NOT NULL) AS common,
    min(cause_at) AS first_cause_at"""


def _single_cause(con: Connection, findings: Rows, by: str, of: str = "input") -> list[dict[str, Any]]:
    """Small: a row per table, or partition, and difference of which enough files are alike."""
    if duck.are_few(findings, ENOUGH):
        return []
    return [*_padded(con, findings, by, of), *_candidates(con, findings, by, of)]


def _padded(con: Connection, findings: Rows, by: str, of: str) -> list[dict[str, Any]]:
    """Small: one row per table of which 100 files or more are larger by 1 to PAD bytes, not all by as many."""
    sql = f"""
        SELECT {by}, min({_DIFFERENCE}) AS least, max({_DIFFERENCE}) AS most, {_SUMS}
        FROM {of} WHERE kind = 'size_mismatch' AND ({_DIFFERENCE}) BETWEEN 1 AND {PAD}
        GROUP BY {by} HAVING count(*) >= {ENOUGH} AND least < most
    """
    return duck.rows_of(duck.query(con, sql, input=findings))


def _candidates(con: Connection, findings: Rows, by: str, of: str) -> list[dict[str, Any]]:
    """Small: one row per table, kind and difference that 100 files or more share."""
    sql = f"""
        SELECT {by}, {_DIFFERENCE} AS difference, {_SUMS}
        FROM {of} WHERE kind IN ({duck.literals([*SIZED, *ALIKE])})
        GROUP BY {by}, difference
        HAVING count(*) >= {ENOUGH} AND (difference IS NOT NULL OR kind IN ({duck.literals([*ALIKE])}))
    """
    return duck.rows_of(duck.query(con, sql, input=findings))


def _files_of(change: Mapping[str, Any], tallies: Tallies) -> int | None:
    tally = tallies.get((change["table_name"], change["axis"]))
    return None if tally is None else tally.files


def _is_bulk(change: Mapping[str, Any], files: int | None) -> bool:
    """Whether it is more than half of so many files; None: nobody knows how many there are."""
    return files is not None and change["files"] * 2 > files


_OWN = ("difference", "least", "most", "live", "failed", "common", "first_cause_at")


def _row(change: dict[str, Any]) -> dict[str, Any]:
    row = {name: value for name, value in change.items() if name not in _OWN} | most_common(change)
    told = {"confirmation": "live" if change["live"] else "error" if change["failed"] else "none"}
    if _is_of_partition(change):
        subject = f"{change['partition_path']}#{change['kind']}"
        most = "" if change["kind"] in GROUPED else ", more than half of it,"
        words = f"{change['files']} files of the partition{most} {_explanation(change)}"
        return row | told | {"subject_type": "partition", "subject": subject, "explanation": words}
    words = f"{change['files']} files, more than half of the table, {_explanation(change)}"
    return row | told | {"subject_type": "table", "subject": change["table_name"], "explanation": words}


def _explanation(change: Mapping[str, Any]) -> str:
    if change["kind"] in ALIKE:
        return ALIKE[change["kind"]]
    if "least" in change:
        return (
            f"are larger than their writer recorded, each by {change['least']} to {change['most']} bytes: one cause, "
            "most likely encryption on the client's side, which pads what it writes"
        )
    apart = "at the same size" if change["difference"] == 0 else f"each by {change['difference']:+d} bytes"
    what = "partition" if _is_of_partition(change) else "table"
    return f"were rewritten {apart}: one cause, most likely a copy or a re-encoding of the whole {what}"
