"""Groups bulk changes: one finding about a table or partition instead of a row for each of its files."""

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
"""Kinds for which only files with the same difference in size are one bulk change."""

PAD = 64
"""Client-side encryption makes an object larger by at most this number of bytes: padding, a tag, a nonce."""

ALIKE = {
    "archived": "are in an archive storage class and must be restored first: one cause, most likely a lifecycle rule",
    "hidden": "have no entry in the metadata store: one cause, most likely a store that was cleared, or never filled",
}
"""Kinds for which all files of a table or partition are one bulk change, with their explanation."""

GROUPED = {"archived": 10}
"""Kinds for which this number of files of a partition is one finding, whatever its size: one rule archived them."""

_DIFFERENCE = f"CASE WHEN kind IN ({duck.literals(SIZED)}) THEN storage_size - manifest_size END"


Partition = tuple[str, str]
"""A table's name and a partition path."""

Count = Callable[[Collection[Partition]], Mapping[Partition, int]]
"""Counts the files of partitions; a partition with an unknown number is left out."""


def _unknown(_: Collection[Partition]) -> Mapping[Partition, int]:
    return {}


def group_bulk_changes(
    con: Connection, findings: Relation, tallies: Tallies, stamp: RunStamp, count: Count = _unknown
) -> Relation:
    """Group the bulk changes of a table, or of a partition, into one row each of FINDINGS.

    A bulk change concerns more than half of all files of a table that an axis judges, and at least 100: rewritten at
    the same size, different by one constant size, archived, or hidden. `tallies` contain all files of the tables, with
    suspects. Sizes that are larger by a few bytes each (see PAD) have one cause, too. If the table has no bulk change,
    a partition may have one; `count` is called only for partitions with enough such files.
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
    """Return discrepancy_id of each file in a bulk change and spoken_by, the discrepancy_id of the bulk change.

    None if nothing was grouped.

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
    """Yield findings about tables; change the subject if a bulk change already has the table's name.

    Two findings of one run must not be one discrepancy.
    """
    bulk = "SELECT DISTINCT table_name, axis FROM input WHERE subject_type = 'table'"
    taken = {(row["table_name"], row["axis"]) for row in duck.rows_of(duck.made_of(con, bulk, about_files))}
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
    """Leave out changes of one difference whose files are already in a padded change."""
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
    """Return one row per partition with enough equal changes: a fixed number for GROUPED, else more than half."""
    of_partitions = (
        f"(SELECT * FROM input WHERE partition_path <> '' AND kind NOT IN ({duck.literals([*GROUPED])}))"
    )
    found = _single_cause(con, findings, _BY_PARTITION, of_partitions)
    files = count({_partition(change) for change in found}) if found else {}
    bulk = [change for change in found if _is_bulk(change, files.get(_partition(change)))]
    return [*_without_padded(bulk), *_grouped(con, findings)]


def _grouped(con: Connection, findings: Rows) -> list[dict[str, Any]]:
    """Return few rows: partitions with enough files of one kind, see GROUPED."""
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
    """Whether a change of the whole table includes it."""
    by = ("table_name", "kind", "severity")
    return any(all(change[name] == other[name] for name in by) for other in changes)


_BY = "table_name, axis, kind, severity"
_BY_PARTITION = f"{_BY}, partition_path"
_SUMS = """count(*) AS files,
    CAST(sum(bytes_at_stake) AS BIGINT) AS bytes_at_stake, CAST(sum(rows_at_stake) AS BIGINT) AS rows_at_stake,
    CASE WHEN count(manifest_time) = count(*) THEN min(manifest_time) END AS manifest_time,
    max(storage_time) AS storage_time, coalesce(bool_or(confirmation = 'live'), false) AS live,
    coalesce(bool_or(confirmation = 'error'), false) AS failed,
    mode(struct_pack(cause := cause, principal := cause_principal)) FILTER (cause IS NOT NULL) AS common,
    min(cause_at) AS first_cause_at"""


def _single_cause(con: Connection, findings: Rows, by: str, of: str = "input") -> list[dict[str, Any]]:
    """Return few rows: one per table or partition and difference that enough files share."""
    if duck.are_few(findings, ENOUGH):
        return []
    return [*_padded(con, findings, by, of), *_candidates(con, findings, by, of)]


def _padded(con: Connection, findings: Rows, by: str, of: str) -> list[dict[str, Any]]:
    """Return few rows: tables with 100 files or more that are larger by 1 to PAD bytes, by different numbers."""
    sql = f"""
        SELECT {by}, min({_DIFFERENCE}) AS least, max({_DIFFERENCE}) AS most, {_SUMS}
        FROM {of} WHERE kind = 'size_mismatch' AND ({_DIFFERENCE}) BETWEEN 1 AND {PAD}
        GROUP BY {by} HAVING count(*) >= {ENOUGH} AND least < most
    """
    return duck.rows_of(duck.query(con, sql, input=findings))


def _candidates(con: Connection, findings: Rows, by: str, of: str) -> list[dict[str, Any]]:
    """Return few rows: one per table, kind and difference that 100 files or more share."""
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
    """Whether the change concerns more than half of the files; None: their number is unknown."""
    return files is not None and change["files"] * 2 > files


_OWN = ("difference", "least", "most", "live", "failed", "common", "first_cause_at")


def _row(change: dict[str, Any]) -> dict[str, Any]:
    row = {name: value for name, value in change.items() if name not in _OWN} | most_common(change)
    confirmation = {"confirmation": "live" if change["live"] else "error" if change["failed"] else "none"}
    if _is_of_partition(change):
        subject = f"{change['partition_path']}#{change['kind']}"
        most = "" if change["kind"] in GROUPED else ", more than half of the partition,"
        words = f"{change['files']} files of the partition{most} {_explanation(change)}"
        return row | confirmation | {"subject_type": "partition", "subject": subject, "explanation": words}
    words = f"{change['files']} files, more than half of the table, {_explanation(change)}"
    return (
        row | confirmation | {"subject_type": "table", "subject": change["table_name"], "explanation": words}
    )


def _explanation(change: Mapping[str, Any]) -> str:
    if change["kind"] in ALIKE:
        return ALIKE[change["kind"]]
    if "least" in change:
        return (
            f"are larger than their writer recorded, each by {change['least']} to {change['most']} bytes: probably one "
            "cause: client-side encryption, which adds padding"
        )
    other_size = f"with a size that differs by {change['difference']:+d} bytes"
    apart = other_size if change["difference"] else "with the same size"
    what = "partition" if _is_of_partition(change) else "table"
    return f"were rewritten {apart}: probably one cause, a copy or a re-encoding of the whole {what}"
