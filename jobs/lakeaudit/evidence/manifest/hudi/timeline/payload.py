"""Parse the changes that instants made to files: commits, cleans, rollbacks, restores and savepoints, and plans. Pure.

Format: `HoodieCommitMetadata`, `HoodieWriteStat`, `HoodieCleanMetadata`, `HoodieCleanerPlan`, `HoodieRollbackMetadata`,
`HoodieRollbackPlan`, `HoodieRestoreMetadata` and `HoodieSavepointMetadata` of Apache Hudi, as JSON or Avro.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.errors import one_line
from lakeaudit.evidence.avro.blocks import MAGIC, Torn
from lakeaudit.evidence.avro.records import open_avro
from lakeaudit.evidence.manifest.hudi.timeline.names import file_named, in_order

Record = Mapping[str, Any]
_INSTANT = re.compile(r"[0-9]{14}|[0-9]{17}")
EMPTY = "it is empty"
MOST_ROWS = 1 << 62
"""Counts are hostile input: larger ones are invalid."""
LONGEST = 1 << 14
"""Most bytes of a path, including the table's own place."""


@dataclass(frozen=True)
class Act:
    """Describes a change to one file, or to a whole file group (`name` is None): see `rows.STEP`."""

    act: str
    folder: str
    name: str | None
    file_id: str
    kind: str
    slice: str
    size: int | None = None
    least_size: int | None = None
    records: int | None = None
    before: str | None = None
    grown: int | None = None


@dataclass(frozen=True)
class Reason:
    """Names the acting instant: `completed` is written as in names, and empty in layout 1, which does not record it."""

    begin: str
    completed: str


def record_of(content: bytes) -> Record:
    """Parse an instant's file.

    Raises:
        Torn: it cannot be understood.
    """
    if not content:
        raise Torn(EMPTY)
    if content.startswith(MAGIC):
        record = next(open_avro(content).records, None)
    else:
        try:
            record = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise Torn("it is incomplete or damaged") from error
    if not isinstance(record, dict):
        raise Torn("it is not a record")
    return record


def acts(action: str, planned: bool, record: Record, reason: Reason) -> Iterator[Act]:
    """Yield the changes that an instant made, or may make.

    Raises:
        Torn: it cannot be understood.
    """
    understand = (_PLANS if planned else ACTIONS)[action]
    try:
        yield from understand(record, reason)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Torn(f"it is not understood ({one_line(str(error), 100)})") from error


def rows_not_written(record: Record) -> int:
    """Return how many rows a write could not write, by its own record; 0 for other instants."""
    try:
        stats = [stat for each in (record.get("partitionToWriteStats") or {}).values() for stat in each]
        return sum(_count(stat.get("totalWriteErrors")) or 0 for stat in stats)
    except (TypeError, ValueError, AttributeError):
        return 0


def taken_back(action: str, planned: bool, record: Record) -> list[str]:
    """Return the instants that a rollback or restore takes back, or plans to."""
    if planned:
        named = [(record.get("instantToRollback") or {}).get("commitTime")] if action == "rollback" else []
    elif action == "rollback":
        named = list(record.get("commitsRollback") or [])
    elif action == "restore":
        named = [*(record.get("instantsToRollback") or []), *(record.get("hoodieRestoreMetadata") or {})]
    else:
        named = []
    return sorted({in_order(each) for each in named if isinstance(each, str) and _INSTANT.fullmatch(each)})


def _commit(record: Record, reason: Reason) -> Iterator[Act]:
    for stats in (record["partitionToWriteStats"] or {}).values():
        for stat in stats:
            if stat["path"]:
                yield _write_act(stat, reason)
            for path, size in (stat.get("cdcStats") or {}).items():
                folder, name = _place(path)
                yield _act("wrote", folder, name, reason, size=_count(size))
    for folder, ids in (record.get("partitionToReplaceFileIds") or {}).items():
        for file_id in ids:
            yield Act("replaced", _folder(folder), None, _text(file_id), "base", "")


def _write_act(stat: Record, reason: Reason) -> Act:
    folder, name = _place(stat["path"])
    size = _count(stat.get("fileSizeInBytes")) or None
    before = stat.get("prevCommit")
    before = None if before in (None, "", "null") else in_order(_text(before))
    records = None if stat.get("totalWriteErrors") else _count(stat.get("numWrites"))
    return _act(
        "wrote", folder, name, reason, size=size, records=records, before=before, grown=_row_growth(stat)
    )


def _row_growth(stat: Record) -> int | None:
    """Return how many more rows a file has than the one it was made from; None if its writer does not record it."""
    inserts, deletes = stat.get("numInserts"), stat.get("numDeletes") or 0
    if (
        type(inserts) is int
        and type(deletes) is int
        and 0 <= inserts < MOST_ROWS
        and 0 <= deletes < MOST_ROWS
    ):
        return inserts - deletes
    return None


def _act(
    act: str,
    folder: str,
    name: str,
    reason: Reason,
    *,
    size: int | None = None,
    records: int | None = None,
    before: str | None = None,
    grown: int | None = None,
) -> Act:
    """Return an act with the file group and the slice in the file's name. Layout 1 lets log files grow."""
    named = file_named(name)
    if named is None:
        return Act(act, folder, name, name, "base", reason.begin, size, None, records)
    if named.kind == "base":
        return Act(
            act, folder, name, named.file_id, "base", named.instant, size, None, records, before, grown
        )
    since = reason.completed or named.instant
    exact, least = (size, None) if reason.completed else (None, size)
    return Act(act, folder, name, named.file_id, named.kind, since, exact, least, records)


def _clean(record: Record, reason: Reason) -> Iterator[Act]:
    for each in (record["partitionMetadata"] or {}).values():
        folder = _folder(each["partitionPath"])
        for act, names in (("cleaned", each["successDeleteFiles"]), ("planned", each["failedDeleteFiles"])):
            for path in names:
                yield _act(act, folder, _name(path), reason)


def _clean_plan(record: Record, reason: Reason) -> Iterator[Act]:
    for folder, files in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
        for file in files:
            if not file.get("isBootstrapBaseFile"):
                yield _act("planned", _folder(folder), _name(file["filePath"]), reason)
    for folder, paths in (record.get("filesToBeDeletedPerPartition") or {}).items():
        for path in paths:
            yield _act("planned", _folder(folder), _name(path), reason)


def _rollback(record: Record, reason: Reason) -> Iterator[Act]:
    for each in (record["partitionMetadata"] or {}).values():
        folder = _folder(each["partitionPath"])
        for path in [*each["successDeleteFiles"], *each["failedDeleteFiles"]]:
            yield _act("undone", folder, _name(path), reason)
        for path in each.get("rollbackLogFiles") or {}:
            yield _act("wrote", folder, _name(path), reason)
        for failed in ("logFilesFromFailedCommit", "writtenLogFiles"):
            for path in each.get(failed) or {}:
                named = file_named(_name(path))
                if named is not None and named.kind != "base":  # rollbacks by listing name the table's folder
                    yield _act("failed", folder, _name(path), reason)


def _rollback_plan(record: Record, reason: Reason) -> Iterator[Act]:
    for each in record.get("RollbackRequests") or record.get("rollbackRequests") or []:
        for path in each["filesToBeDeleted"] or []:
            yield _act("planned", _folder(each["partitionPath"]), _name(path), reason)


def _restore(record: Record, reason: Reason) -> Iterator[Act]:
    for rollbacks in (record["hoodieRestoreMetadata"] or {}).values():
        for each in rollbacks:
            yield from _rollback(each, reason)


def _savepoint(record: Record, reason: Reason) -> Iterator[Act]:
    for each in (record["partitionMetadata"] or {}).values():
        for path in each["savepointDataFile"]:
            yield _act("saved", _folder(each["partitionPath"]), _name(path), reason)


ACTIONS: Mapping[str, Callable[[Record, Reason], Iterator[Act]]] = {
    "commit": _commit,
    "deltacommit": _commit,
    "replacecommit": _commit,
    "clean": _clean,
    "rollback": _rollback,
    "restore": _restore,
    "savepoint": _savepoint,
}
"""Parsers by action of completed instants; others (indexing, schemas) name no files."""
WRITES = frozenset(action for action, parse in ACTIONS.items() if parse is _commit)
"""Actions that write files."""
_PLANS = {"clean": _clean_plan, "rollback": _rollback_plan}


def _place(path: object) -> tuple[str, str]:
    """Return folder and name of a file, below the table's location."""
    folder, _, name = _text(path).rpartition("/")
    return _folder(folder), _name(name)


def _name(path: object) -> str:
    name = _text(path).rpartition("/")[2]
    if name in ("", ".", ".."):
        raise ValueError(f"no file's name: {_text(path)[:80]!r}")
    return name


def _folder(path: object) -> str:
    folder = _text(path)
    if (
        folder.startswith("/")
        or ":/" in folder
        or any(part in ("", ".", "..") for part in folder.split("/") if folder)
    ):
        raise ValueError(f"no folder of the table: {folder[:80]!r}")
    return folder


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {str(value)[:80]}")
    if len(value.encode()) > LONGEST:  # half a character of UTF-16 is a ValueError
        raise ValueError(f"a path of {len(value)} characters")
    return value


def _count(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value >= 1 << 63:
        raise ValueError(f"a count of {str(value)[:40]}")
    return value if value >= 0 else None
