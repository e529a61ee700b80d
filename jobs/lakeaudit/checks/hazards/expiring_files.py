"""Build EXPIRING rows of live files that lifecycle rules will delete or archive, and findings from their verdicts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.storage.lifecycle import ARCHIVES, Action
from lakeaudit.formatting import number, second
from lakeaudit.kinds import KINDS, WILL_EXPIRE
from lakeaudit.rules.file_rules import UNDECIDED
from lakeaudit.schemas import EXPIRING

PARTITIONS = 1000
"""Partitions of one table and rule with a row each; if there are more, the table has one row."""

Row = dict[str, Any]
Finding = dict[str, Any]


@dataclass(frozen=True)
class Hazards:
    """Rows of FINDINGS; files by table and outcome; and reasons of undecided files by table."""

    rows: tuple[Finding, ...] = ()
    outcomes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    reasons: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def all_reasons(self) -> tuple[str, ...]:
        """Return every reason once: rules that filter by tags, lifecycles that cannot be read."""
        return tuple(dict.fromkeys(why for each in self.reasons.values() for why in each))


_EMPTY: Row = dict.fromkeys((*EXPIRING.names, "relative"))


def unread_row(table: str, bucket: str, why: str, files: int) -> Row:
    """Return the row of a table in a bucket whose rules are not known."""
    return _EMPTY | {"judged_table": table, "bucket": bucket, "unread": why, "files": files}


def action_row(table: str, at: int, action: Action, archived_after: timedelta | None, files: int) -> Row:
    """Return the row of a table that a rule concerns; `at` is the number of the rule in this run."""
    return _EMPTY | {
        "judged_table": table,
        "bucket": action.below.bucket,
        "lifecycle_rule": action.rule,
        "does": action.does,
        "days": action.days,
        "tags": action.tags,
        "archived_after_days": archived_after.days if archived_after else None,
        "files": files,
        "number": at,
    }


def merge(sums: Sequence[Row]) -> Iterator[Row]:
    """Merge the sums of all shares by table, partition and rule; a table with too many partitions gets one row."""
    groups: dict[tuple[str, int], dict[str, Row]] = defaultdict(dict)
    for row in sums:
        partitions = groups[row["table_name"], row["number"]]
        _add(partitions, row["partition_path"] or "", row)
    for _, partitions in sorted(groups.items()):
        whole: dict[str, Row] = {}
        for row in partitions.values():
            _add(whole, "", row)
        yield from (dict(sorted(partitions.items())) if len(partitions) <= PARTITIONS else whole).values()


def _add(known: dict[str, Row], partition: str, row: Row) -> None:
    """Add a row to that of its partition."""
    before = known.get(partition, {"files": 0, "bytes": 0, "records": 0, "oldest": row["oldest"]})
    summed = {name: _sum(before[name], row[name]) for name in ("files", "bytes", "records")}
    oldest = min(before["oldest"], row["oldest"])
    known[partition] = row | summed | {"oldest": oldest, "partition_path": partition}


def _sum(one: int | None, other: int | None) -> int | None:
    """Add two numbers; None if one is not known."""
    return None if one is None or other is None else one + other


def hazards_of(
    judged: Iterable[Row], tables: Mapping[str, Table], actions: Sequence[Action], files: Mapping[str, int]
) -> Hazards:
    """Return the hazards of verdict rows of EXPIRING; `files` has the number of files that each table lists."""
    of_table: dict[str, list[Row]] = {name: [] for name in tables}
    for row in judged:
        of_table[row["judged_table"]].append(row)
    findings = [row for rows in of_table.values() for row in _in_order(rows) if row["outcome"] == "finding"]
    return Hazards(
        tuple(_finding(tables[row["judged_table"]], row, actions[row["number"]]) for row in findings),
        {name: _outcomes(rows, files.get(name, 0)) for name, rows in of_table.items()},
        {name: [_why(row) for row in rows if row["outcome"] == UNDECIDED] for name, rows in of_table.items()},
    )


def _in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["number"] or 0, row["partition_path"] or ""))


def _outcomes(rows: Sequence[Row], files: int) -> Mapping[str, int]:
    """Count files by outcome. For each partition only the rule that concerns most files counts."""
    finding, ignored, uncertain = _most([row for row in rows if not row["of_log"]])
    # log files are not among the files whose content is judged
    of_log, ignored_of_log, _ = _most([row for row in rows if row["of_log"]])
    rest = max(files - finding - ignored, 0)
    concerned = {"finding": finding + of_log, "ignored": ignored + ignored_of_log}
    return Counter({**concerned, UNDECIDED if uncertain else "consistent": rest})


def _most(rows: Sequence[Row]) -> tuple[int, int, bool]:
    """Return the number of files with findings, of ignored files, and whether any outcome is undecided."""
    most: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        of_partition = most[row["partition_path"] or ""]
        of_partition[row["outcome"]] = max(of_partition[row["outcome"]], row["files"])
    finding = sum(each["finding"] for each in most.values())
    ignored = sum(max(each["ignored"] - each["finding"], 0) for each in most.values())
    return finding, ignored, any(each[UNDECIDED] for each in most.values())


def _why(row: Row) -> str:
    if row["unread"]:
        return str(row["unread"])
    asks = f"rule {row['lifecycle_rule']} of s3://{row['bucket']} selects objects by tags"
    return f"{asks}: it is unknown which live files it affects"


def _finding(table: Table, row: Row, action: Action) -> Finding:
    partition = row["partition_path"] or ""
    of_log = "log" if row["of_log"] else ""
    subject = "#".join(filter(None, (partition, WILL_EXPIRE, action.rule, action.does, of_log)))
    return {
        "table_name": table.name,
        "axis": KINDS[WILL_EXPIRE].axis,
        "kind": WILL_EXPIRE,
        "severity": row["severity"],
        "subject_type": "partition" if partition else "table",
        "subject": subject,
        "bucket": action.below.bucket,
        "partition_path": partition or None,
        "files": row["files"],
        "rows_at_stake": row["records"],
        "bytes_at_stake": row["bytes"],
        "confirmation": "not_needed",
        "category": "log" if of_log else None,
        "explanation": _explanation(action, row, action.acts_at(row["oldest"])),
    }


def _explanation(action: Action, row: Row, first: datetime | None) -> str:
    does = "archives" if action.does == ARCHIVES else "deletes"
    files = number(row["files"], "live file")
    if row["of_log"]:
        files = f"{number(row['files'], 'file')} of the log that the newest version of the table needs"
    from_when = f", the first on or after {second(first)}" if first else ""
    return (
        f"lifecycle rule {action.rule} of s3://{action.below.bucket} {does} objects under"
        f" s3://{action.below.bucket}/{action.below.key} {action.when}: {files}{from_when}"
    )
