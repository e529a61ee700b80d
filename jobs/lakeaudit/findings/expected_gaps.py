"""Known inability: what a lake file expects to be unreadable stands in coverage and makes no run partial."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from lakeaudit.config import Expected, glob_to_regex


@dataclass(frozen=True)
class ExpectedReasons:
    """Coverage rows in which what was expected says so; `reasons` are those; `stale`: what no longer applies."""

    rows: Sequence[dict[str, Any]]
    reasons: frozenset[str] = frozenset()
    stale: tuple[str, ...] = ()


def mark_expected(
    rows: Sequence[dict[str, Any]], expected: Sequence[Expected], tables: Collection[str], day: date
) -> ExpectedReasons:
    """Say in each partial row that is expected on this day why it is; `tables` are those that were asked for."""
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
    asked = any(re.fullmatch(glob_to_regex(pattern), row["table_name"]) for pattern in each.tables)
    return row["status"] == "partial" and asked and _says(row["reason"] or "", each.refused)


def _says(reason: str, pattern: str) -> bool:
    """Anywhere in the reason, in any case; a star is any text."""
    words = ".*".join(re.escape(part) for part in pattern.strip("*").split("*"))
    return re.search(words, reason, re.IGNORECASE | re.DOTALL) is not None


def _stale(expected: Sequence[Expected], tables: Collection[str]) -> Iterator[str]:
    """Only of what was asked for something can be said."""
    for each in expected:
        if any(re.fullmatch(glob_to_regex(pattern), name) for pattern in each.tables for name in tables):
            yield f"expect ({each.reason}) no longer applies: no table of it is refused for {each.refused!r}"
