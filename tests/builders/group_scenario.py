"""Scenarios about subjects other than single files: a row for their table of rules, and an expert's verdict."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from lakeaudit.schemas import (
    ACCESS,
    ATTEMPT,
    CHECKSUM,
    CLONE_FILE,
    COMMIT,
    EXPIRING,
    FOLDER_PAIR,
    LINEAGE,
    LOG_ENTRY,
    PARTITION_FOLDER,
    PARTITION_POINTER,
    TABLE_POINTER,
    WATCHED_PREFIX,
    WRITE,
)
from tests.builders.scenario import WORDS, Row

SCHEMAS: dict[str, pa.Schema] = {
    "commit": COMMIT,
    "clones": CLONE_FILE,
    "folders": FOLDER_PAIR,
    "lifecycle": EXPIRING,
    "access": ACCESS,
    "checksums": CHECKSUM,
    "writes": WRITE,
    "attempts": ATTEMPT,
    "log_entries": LOG_ENTRY,
    "lost_entries": LOG_ENTRY,
    "partitions": PARTITION_POINTER,
    "partition_folders": PARTITION_FOLDER,
    "table_pointers": TABLE_POINTER,
    "watched": WATCHED_PREFIX,
    "lineage": LINEAGE,
}
"""The columns of each table of rules."""

NOON = datetime(2026, 11, 20, 12)  # noqa: DTZ001 - times inside an audit have no zone


@dataclass(frozen=True)
class GroupScenario:
    """A row, and the verdict that the rules named by `table` must give."""

    name: str
    table: str
    row: Row
    verdict: str


def group(table: str, name: str, verdict: str, row: Row) -> GroupScenario:
    """A scenario; what the row does not say is not known."""
    whole: Row = dict.fromkeys(SCHEMAS[table].names) | row
    assert whole.keys() == set(SCHEMAS[table].names)
    return GroupScenario(name, table, whole, WORDS.get(verdict, verdict))


def minutes(after: float) -> datetime:
    """So many minutes after noon."""
    return NOON + timedelta(minutes=after)


def claimed(claim: str, **given: Any) -> Row:
    """Return a witness's claim about a state of a table in the lake file."""
    healthy = {
        "proved": False,
        "built_on": 0,
        "recreated": False,
        "explained": False,
        "known": True,
    }
    return {"claim": claim} | healthy | given


def rewritten(
    lost: float, written: float, *, before: float | None = None, after: float | None = None, **given: Any
) -> Row:
    """A commit of whose file storage keeps another version. Times are minutes after noon, by which it should be there.

    `before` and `after` are those of the neighbouring commits' files.
    """
    times = {"lost_at": lost, "written_at": written, "before_at": before, "after_at": after}
    known = {name: None if at is None else minutes(at) for name, at in times.items()}
    return known | {"differs": True, "versions_asked": False, "versions_read": False} | given


def compared(files: int = 0, *, removals: int = 0, of_table: bool = False) -> Row:
    """Both versions were read: how many files only the lost one added, or removed, and whether it changed the table."""
    return {
        "versions_asked": True,
        "versions_read": True,
        "lost_files": files,
        "lost_removals": removals,
        "lost_of_table": of_table,
    }


UNREADABLE: Row = {"versions_asked": True, "versions_read": False}
"""One of the two versions cannot be read."""
BY_KMS: Row = {"differs": False}
"""Two ETags that are not MD5s do not show whether the contents differ."""
DOUBTED: Row = {"doubted": True, "proved": False}
"""Its file was written after the next commit's, and both as soon as they were made."""
PROVED: Row = {"doubted": True, "proved": True}
"""The checksum beside it is of another transaction."""


def repeats(live: int, older_live: int, files: int = 3) -> Row:
    """It added what looks like an older batch; so many files of both are in the newest state."""
    return {
        "alike": True,
        "batches_read": True,
        "files": files,
        "live": live,
        "older_files": files,
        "older_live": older_live,
    }


LOOKS_REPEATED: Row = {"alike": True, "batches_read": False}
"""It looks like an older batch, and nobody could read whether both are live."""


def clone(source: str | None, **given: Any) -> Row:
    """A live file of a clone, of which its source's log says `source`: live, history, gone, or nothing."""
    known = {"x_state": source, "x_certain": None if source is None else True}
    plain = {"c_state": "live", "c_certain": True, "s_presence": "present"}
    return known | plain | {"o_logged": True, "o_complete": True, "h_references": False} | given


def folders(files: int, *, unrepeated: bool = False, dated: bool = False) -> Row:
    """Two folders with so many files of the same names, sizes and contents.

    `unrepeated`: a name has a token that no two writers share; `dated`: folders differ only in numbers or values.
    """
    return {"files": files, "unrepeated": unrepeated, "dated": dated}


def rule(does: str = "deletes", days: int | None = 30, files: int = 5, **given: Any) -> Row:
    """A lifecycle rule that meets a table, and how many of its live files it concerns."""
    return {"lifecycle_rule": "old", "does": does, "days": days, "tags": False, "files": files} | given


Amount = tuple[int, int]
"""How many files, rows or bytes were committed, and how many exist."""


def declared(
    files: Amount | None = None,
    rows: Amount | None = None,
    bytes: Amount | None = None,  # noqa: A002
    *,
    ended: float = -3000,
) -> Row:
    """A write that ended so many minutes before or after the edge, which is noon; what is None nobody counted."""
    counted = {"files": files, "rows": rows, "bytes": bytes}
    known = {name: amount[0] for name, amount in counted.items() if amount}
    there = {f"{name}_there": amount[1] for name, amount in counted.items() if amount}
    at = {"ended_at": minutes(ended), "edge": NOON, "cut": NOON, "grace": timedelta(hours=1)}
    return known | there | at | {"replaced": "no", "holed": False, "logged": False}


_FLAGS = ("complete", "past", "temp_there", "logged", "differs", "prepared", "copied")


def entry(at: float | None = -3000, *, logged: bool = True, temp: bool = True, **given: Any) -> Row:
    """A commit that the log store let through so many minutes before or after its own picture, which is noon."""
    touched = {"touched_at": None if at is None else minutes(at), "edge": NOON, "grace": timedelta(hours=1)}
    known = {"entered": True, "complete": True, "logged": logged, "temp_there": temp}
    return dict.fromkeys(_FLAGS, False) | touched | known | given


def unentered(written: float = -300, **given: Any) -> Row:
    """A commit of the log that the log store does not know, written so many minutes before or after noon."""
    return entry(written, temp=False, entered=False, complete=False) | given


def access(deed: str, found: str, *, weak: bool = False) -> Row:
    """A pattern of access by one principal: what was done, and how the key was before; `weak`: its listings lag."""
    return {"deed": deed, "found": found, "weak": weak, "principal": "etl", "files": 3, "requests": 5}


COVERED: Row = {"edge": NOON, "cut": NOON, "grace": timedelta(hours=1), "storage_holed": False}
"""Storage's picture of the place is of noon."""
NOW_FILLED: Row = {"look": "live", "look_there": True}
NOW_EMPTY: Row = {"look": "live", "look_there": False}


def registered(visible: int = 0, at: float | None = -3000, **given: Any) -> Row:
    """A partition registered so many minutes before or after noon, and how many objects readers see at its place."""
    known = {"visible": visible, "registered_at": None if at is None else minutes(at)}
    return (
        COVERED | known | {"removed": 0, **dict.fromkeys(_UNCOUNTED, False), "with_content": visible} | given
    )


_UNCOUNTED = ("filled_said", "content_said", "table_said", "all_empty")


def folder(newest: float = -3000, oldest: float | None = None, **given: Any) -> Row:
    """A folder with files that no partition holds, written from and up to so many minutes before or after noon.

    The catalog was read at noon as well.
    """
    times = {"newest": minutes(newest), "oldest": minutes(newest if oldest is None else oldest)}
    waits = {"catalog_edge": NOON, "leftover_age": timedelta(days=3)}
    told = {"named": True, "alike": False, "registered": False, "registered_filled": False, "untold": False}
    return COVERED | times | waits | told | given


def pointed(objects: int = 0, at: float | None = -3000, format: str = "hive", **given: Any) -> Row:  # noqa: A002
    """A table that the catalog last changed so many minutes before or after noon, and how many objects lie there."""
    known = {"objects": objects, "changed_at": None if at is None else minutes(at), "format": format}
    return (
        COVERED
        | known
        | {"partitions_filled": 0, "filled_said": False, "removed": 0, "aim": "location"}
        | given
    )


def watched(files: int = 3, format: str | None = None, **given: Any) -> Row:  # noqa: A002
    """A prefix of a watched place with so many files older than leftover_age, and the table that it looks like."""
    return {
        "files": files,
        "format": format,
        "signed": format is not None,
        "named": False,
        "untold": False,
    } | given


def checksum(
    files: int | None, size: int | None, *, listed: tuple[int, int | None] = (3, 300), **given: Any
) -> Row:
    """Return a checksum file's counts of files and bytes, with the counts of the log."""
    told = {
        "files": files,
        "bytes": size,
        "files_listed": listed[0],
        "bytes_listed": listed[1],
        "holed": False,
    }
    return told | given
