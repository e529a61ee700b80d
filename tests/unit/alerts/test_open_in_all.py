"""What is open in the lake beside the contents of one message."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lakeaudit.alerts.lake_now import LakeNow
from lakeaudit.alerts.open_in_all import MOST_TABLES, critical_lines, open_in_all
from lakeaudit.alerts.posts import text_post
from lakeaudit.results.summaries.change_summary import Change, KindsOpen

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
LOST, STRAY, BLIND = ("dropped", "critical"), ("uncommitted", "warning"), ("coverage_lost", "error")


def now(opened: KindsOpen, criticals: tuple[Change, ...] = (), **given: Any) -> LakeNow:
    return LakeNow("shop", "lake.yaml", "words", opened, (), NOON, criticals=criticals, **given)


def row(table: str, kind: str, severity: str, number: int, transition: str = "opened") -> dict[str, Any]:
    change = {"transition": transition, "kind": kind, "severity": severity, "discrepancies": number}
    return {
        "receiver": "r", "kind": "discrepancies", "table_name": table, "over": transition == "resolved",
        "severity": severity, "discrepancies": number, "run_id": "r1", "fingerprint": "f", "transition": transition,
        "message": f"{severity.upper()}: {number} in {table}\n  more", "content": json.dumps({"changes": [change]}),
    }  # fmt: skip


ALL = {"a": {LOST: 4}, "b": {LOST: 2}, "c": {LOST: 1, STRAY: 1}, None: {STRAY: 1}}


@pytest.mark.parametrize(
    ("rows", "opened", "words"),
    [
        ([row("b", *LOST, 2)], ALL, "open in all: 7 critical in 3 tables"),
        ([row("c", *STRAY, 1, "open")], ALL, "open in all: 7 critical in 3 tables"),
        ([row("d", *LOST, 1, "resolved")], ALL, "open in all: 7 critical in 3 tables"),
        ([row("b", *LOST, 2), row("a", *LOST, 4), row("c", *LOST, 1)], ALL, ""),
        ([row("c", *STRAY, 1)], {"c": {STRAY: 1}, "d": {BLIND: 1}}, "open in all: 1 error in 1 table"),
        ([row("c", *STRAY, 1)], {"c": {STRAY: 1}, "d": {STRAY: 5}}, ""),
        ([row("c", *STRAY, 1, "resolved")], {}, ""),
    ],
)
def test_a_message_counts_the_rest_of_the_lake(
    rows: list[dict[str, Any]], opened: KindsOpen, words: str
) -> None:
    assert open_in_all(rows, now(opened)) == words


def test_a_reminder_of_a_warning_names_the_criticals_and_where_to_see_them() -> None:
    lost = Change("a", "open", "dropped", "critical", 4, files=4, rows=80, since=NOON)
    given = {"dashboard": "https://lake.example"}
    post = text_post([row("c", *STRAY, 1, "open")], now(ALL, (lost,), **given))
    assert post.title == "lakeaudit shop: WARNING: 1 in c; open in all: 7 critical in 3 tables"
    assert post.body.splitlines() == [
        "WARNING: 1 in c; open in all: 7 critical in 3 tables", "  more", "", "words",
        "  critical in a: 4 files dropped, 80 rows, since 2026-11-21 12:00:00Z",
        "The lake: https://lake.example/?lake=shop", "List all: lakeaudit discrepancies lake.yaml", "Audit r1",
    ]  # fmt: skip


def test_the_lines_of_tables_are_limited_and_the_others_counted() -> None:
    lost = [Change(f"t{n:02}", "open", "dropped", "critical", 20 - n) for n in range(MOST_TABLES + 2)]
    lines = critical_lines(lost)
    assert lines[0] == "  critical in t00: 20 files dropped"
    assert lines[-1] == "  and 2 more tables with critical discrepancies"
    assert len(lines) == MOST_TABLES + 1
