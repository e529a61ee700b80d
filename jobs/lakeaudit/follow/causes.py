"""Name the request that caused a loss, from the events about the object. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.references import Key
from lakeaudit.findings.causes import CHANGED, GONE
from lakeaudit.follow.events import ObjectEvent
from lakeaudit.follow.order import by_key
from lakeaudit.runtime import duck
from lakeaudit.schemas import CAUSE

_REMOVALS = {"removed": "delete", "marked_deleted": "delete", "expired": "expire", "expired_marked": "expire"}
"""By change the action of the request, as in REQUEST."""


def cause_rows(events: Iterable[ObjectEvent]) -> pa.Table:
    """Return CAUSE rows: of each object the last event that removed it, and the last that wrote it.

    Where the order of its events is not known, an object with several has no cause.
    """
    rows: list[tuple[Any, ...]] = []
    for key, known in by_key(events).items():
        removals = [each for each in known.events if each.change in _REMOVALS]
        writes = [each for each in known.events if each.change == "created"]
        for effect, of_effect in ((GONE, removals), (CHANGED, writes)):
            if of_effect and (known.is_ordered or len(of_effect) == 1):
                rows.append(_row(key, effect, of_effect))
    return duck.small(CAUSE, rows)


def _row(key: Key, effect: str, events: Sequence[ObjectEvent]) -> tuple[Any, ...]:
    last = events[-1]
    action = _REMOVALS.get(last.change) or ("copy" if last.name.endswith(":Copy") else "put")
    return (*key, effect, action, last.name, last.at, last.principal, last.request_id, None)
