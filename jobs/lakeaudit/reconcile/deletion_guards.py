"""Check the four deletion guards of an unused file. Each returns the reason why it forbids the deletion, or None. Pure.

1. The kind allows it.
2. The file is older than `leftover_age`.
3. No table lists it, and all tables that could were read completely (`manifest_precondition.UNLISTED`, which apply
   checks with the tables' newest states before and after it acts).
4. It was written after the first complete audit of its table: older files may have an owner that no audit knows.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.registry import state_kinds
from lakeaudit.evidence.storage.head import ObjectHead
from lakeaudit.formatting import duration
from lakeaudit.reconcile.manifest_precondition import UNLISTED, ManifestPrecondition

LEFTOVERS = ("uncommitted", "unvacuumed", "unreferenced", "temporary")
DUPLICATES = ("duplicate_attempt", "duplicate_content")
CATEGORIES = ("data", "deletes", "changes", "temporary")
"""Categories of files that a table's writers write; not logs, markers, and files of other owners."""


def kind_allows(row: Mapping[str, Any]) -> str | None:
    """Guard 1: the file is debris of a writer, or data that another file contains too (duplicates are always data)."""
    if row["kind"] not in (*LEFTOVERS, *DUPLICATES):
        return f"files of kind {row['kind']} are not removed"
    category = row["category"] or ("data" if row["kind"] in DUPLICATES else None)
    if category not in CATEGORIES:
        return f"files of category {category} are not removed"
    if row["kind"] in DUPLICATES and not row["related_key"]:
        return "the finding does not name the file that stays"
    if row["kind"] in DUPLICATES and row["manifest_time"] and row["manifest_kind"] in state_kinds():
        return "its table lists the file: remove it with a commit of the table"
    return None


def is_old_enough(table: Table, head: ObjectHead, now: datetime) -> str | None:
    """Guard 2, by the object's own time; for a multipart upload that is the time of its start."""
    may_last = table.settings.max_upload if head.multipart else timedelta(0)
    if head.modified_at + table.settings.leftover_age + may_last <= now:
        return None
    return f"it was written on {head.modified_at:%Y-%m-%d %H:%M}, so it is younger than leftover_age"


def is_old_enough_at_place(
    tables: Sequence[Table], table: Table, head: ObjectHead, now: datetime
) -> str | None:
    """Guard 2 for all tables at the location of a table: a writer of each may still commit the file."""
    sharing = [each for each in tables if each.location == table.location and each.name != table.name]
    return next(filter(None, (is_old_enough(each, head, now) for each in (table, *sharing))), None)


def may_be_in_commit(written: datetime, longest: timedelta | None, now: datetime) -> str | None:
    """Return why a file may belong to a running commit; None: it is older than the longest known commit."""
    if longest is None or written + longest <= now:
        return None
    return (
        f"the longest commit of its table took {duration(longest)}, and the file is younger: it may belong to a commit"
        " that has not finished"
    )


def is_unlisted() -> ManifestPrecondition:
    """Guard 3: no table of the lake lists it, nor may readers request it, and all tables were read completely."""
    return UNLISTED


def is_since_first_audit(head: ObjectHead, first_audit: datetime | None, *, allowed: bool) -> str | None:
    """Guard 4; `allowed`: the user has allowed older files as well."""
    return is_since(head.modified_at, first_audit, allowed=allowed)


def is_since(written: datetime, first_audit: datetime | None, *, allowed: bool) -> str | None:
    """Guard 4, by the time at which the object was written."""
    if allowed or (first_audit is not None and written > first_audit):
        return None
    since = "there was none" if first_audit is None else f"that was on {first_audit:%Y-%m-%d %H:%M}"
    return (
        f"it is older than the first complete audit of its table ({since}): `--allow older_than_onboarding`"
    )
