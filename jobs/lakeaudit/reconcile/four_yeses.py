"""The four yeses without which no leftover is touched. Each says why it is a no, or None. Pure.

The kind allows it; it is older than `leftover_age`; no table lists it, and all that could were read whole
(`need.UNLISTED`, which apply asks of the tables' newest states before and after it acts); and it was written after the
lake's first complete audit of its table, so that nothing that was there before anybody watched is taken for debris.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.storage.head import ObjectHead
from lakeaudit.reconcile.need import UNLISTED, Need

LEFTOVERS = ("uncommitted", "unvacuumed", "unreferenced", "temporary")
DOUBLES = ("duplicate_attempt", "duplicate_content")
CATEGORIES = ("data", "deletes", "changes", "temporary")
"""What tables' own writers write; not logs, markers, and what others keep in a table's folder."""


def kind_allows(row: Mapping[str, Any]) -> str | None:
    """The first: debris of writers, and data that another file holds as well (doubles are always data)."""
    if row["kind"] not in (*LEFTOVERS, *DOUBLES):
        return f"files of kind {row['kind']} are not removed"
    category = row["category"] or ("data" if row["kind"] in DOUBLES else None)
    if category not in CATEGORIES:
        return f"files of category {category} are not removed"
    if row["kind"] in DOUBLES and not row["related_key"]:
        return "the file that stays is not named"
    return None


def is_old_enough(table: Table, head: ObjectHead, now: datetime) -> str | None:
    """The second, by the object's own time: of an upload in parts that is when it was begun."""
    may_last = table.settings.max_upload if head.multipart else timedelta(0)
    if head.modified_at + table.settings.leftover_age + may_last <= now:
        return None
    return f"it was written on {head.modified_at:%Y-%m-%d %H:%M}, its table's leftover_age is not over"


def may_be_in_commit(written: datetime, longest: timedelta | None, now: datetime) -> str | None:
    """Why a file may belong to a commit that is still at work; None: it is older than the longest commit seen."""
    if longest is None or written + longest <= now:
        return None
    took = timedelta(seconds=round(longest.total_seconds()))
    return f"a commit of its table took {took} from its first file on, and the file is younger than that"


def is_unlisted() -> Need:
    """The third: no table of the lake lists it, nor promises it to readers, and all of them were read whole."""
    return UNLISTED


def is_since_first_audit(head: ObjectHead, first_audit: datetime | None, *, allowed: bool) -> str | None:
    """The fourth; `allowed` is the user's word that older ones are meant as well."""
    return is_since(head.modified_at, first_audit, allowed=allowed)


def is_since(written: datetime, first_audit: datetime | None, *, allowed: bool) -> str | None:
    """The same by the time at which the object was written."""
    if allowed or (first_audit is not None and written > first_audit):
        return None
    since = "there was none" if first_audit is None else f"that was on {first_audit:%Y-%m-%d %H:%M}"
    return (
        f"it is older than the first complete audit of its table ({since}): `--allow older_than_onboarding`"
    )
