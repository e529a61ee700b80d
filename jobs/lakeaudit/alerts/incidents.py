"""Assigns notices to incidents, which PagerDuty and Opsgenie keep by a key: a storm is one incident. Pure.

A table has an incident of its own. If one run has notices about many tables for a receiver, these tables have one
incident together, until nothing in any of them is open for the receiver.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from lakeaudit.alerts.decide import BOOKKEEPING, OF_AUDIT, Notice
from lakeaudit.keys import digest
from lakeaudit.results.read import Row

STORM = 5
"""Number of tables in one message that are reported one by one; more are reported together."""

Subject = tuple[str, str | None]
"""A receiver and a table."""


def is_of_table(row: Row) -> bool:
    """Return whether a row of `notices` is about a table, or about evidence of no table."""
    return row["kind"] not in (*OF_AUDIT, *BOOKKEEPING)


def last_of_tables(notices: Iterable[Row]) -> dict[Subject, Row]:
    """Return the newest notice for each receiver and table; `notices` are the oldest first."""
    return {(row["receiver"], row["table_name"]): row for row in notices if is_of_table(row)}


def open_incidents(last: Mapping[Subject, Row]) -> set[str]:
    """Return the fingerprints of incidents in which a table has something open."""
    return {row["fingerprint"] for row in last.values() if not row["over"]}


def fingerprints(lake: str, run_id: str, notices: Sequence[Notice], earlier: Iterable[Row]) -> list[str]:
    """Return the incident of each notice: the open one of its table, the storm of this run, or a new one."""
    last = last_of_tables(earlier)
    still_open = open_incidents(last)
    keys = [_of_open_incident(notice, last, still_open) for notice in notices]
    new = Counter(
        notice.receiver
        for notice, key in zip(notices, keys, strict=True)
        if key is None and not notice.over and notice.kind not in OF_AUDIT and notice.table is not None
    )
    return [
        key
        or (
            digest(lake, notice.receiver, f"storm {run_id}")
            if new[notice.receiver] > STORM and notice.kind not in OF_AUDIT
            else notice.fingerprint(lake)
        )
        for notice, key in zip(notices, keys, strict=True)
    ]


def _of_open_incident(notice: Notice, last: Mapping[Subject, Row], still_open: set[str]) -> str | None:
    before = None if notice.kind in OF_AUDIT else last.get((notice.receiver, notice.table))
    key: str | None = before["fingerprint"] if before else None
    return key if key in still_open else None
