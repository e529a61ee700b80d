"""Marks expected gaps: evidence that the lake file expects to be unreadable does not make a run partial."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from lakeaudit.config import Expected, glob_to_regex


@dataclass(frozen=True)
class ExpectedReasons:
    """Coverage rows with expected gaps marked, the marked `reasons`, and `stale` entries that no longer apply."""

    rows: Sequence[dict[str, Any]]
    reasons: frozenset[str] = frozenset()
    stale: tuple[str, ...] = ()


def mark_expected(
    rows: Sequence[dict[str, Any]], expected: Sequence[Expected], tables: Collection[str], day: date
) -> ExpectedReasons:
    """Mark each partial row that is expected on this day; `tables` are the tables in scope."""
    in_force = [each for each in expected if each.holds_on(day)]
    applied: set[int] = set()
    marked, reasons = [], set()
    for row in rows:
        number = next((n for n, each in enumerate(in_force) if _is(row, each)), None)
        if number is None:
            marked.append(row)
            continue
        applied.add(number)
        reason = f"expected ({in_force[number].reason}): {row['reason']}"
        reasons.add(reason)
        marked.append(row | {"reason": reason})
    rest = [each for number, each in enumerate(in_force) if number not in applied]
    return ExpectedReasons(marked, frozenset(reasons), tuple(_stale(rest, tables)))


def _is(row: dict[str, Any], each: Expected) -> bool:
    is_in = any(re.fullmatch(glob_to_regex(pattern), row["table_name"]) for pattern in each.tables)
    return row["status"] == "partial" and is_in and _says(row["reason"] or "", each.refused)


def _says(reason: str, pattern: str) -> bool:
    """Whether the reason contains the pattern, in any case; a star matches any text."""
    words = ".*".join(re.escape(part) for part in pattern.strip("*").split("*"))
    return re.search(words, reason, re.IGNORECASE | re.DOTALL) is not None


def _stale(expected: Sequence[Expected], tables: Collection[str]) -> Iterator[str]:
    """Yield entries that no longer apply, for tables in scope."""
    for each in expected:
        if any(re.fullmatch(glob_to_regex(pattern), name) for pattern in each.tables for name in tables):
            yield f"expect ({each.reason}) no longer applies: no table of it is refused for {each.refused!r}"
