"""Words what is open in the lake beside the contents of one message. Pure."""

from collections.abc import Iterable, Sequence

from lakeaudit.alerts import webhook
from lakeaudit.alerts.decide import OF_AUDIT
from lakeaudit.alerts.lake_now import LakeNow
from lakeaudit.alerts.message_text import tame_name
from lakeaudit.formatting import count, number, second
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import SERIOUS
from lakeaudit.results.read import Row
from lakeaudit.results.summaries.change_summary import Change

MOST_TABLES = 10
"""Number of tables with critical discrepancies that the end of a message names; the others are counted."""
OF_SOURCES = "(sources)"


def open_in_all(rows: Iterable[Row], now: LakeNow) -> str:
    """Return `open in all: 7 critical in 3 tables`; empty if the message reports all of the worst severity.

    Only the severities critical and error count. `rows` are the notices of the message.
    """
    if not now.is_open_known:
        return ""
    totals = {name: sum(by.get(name, 0) for by in now.by_severity.values()) for name in SERIOUS}
    worst = next((name for name in SERIOUS if totals[name]), None)
    if worst is None or _in_message(rows, worst) >= totals[worst]:
        return ""
    tables = sum(bool(by.get(worst)) for table, by in now.by_severity.items() if table is not None)
    where = f" in {number(tables, 'table')}" if tables else ""
    return f"open in all: {count(totals[worst])} {worst}{where}"


def _in_message(rows: Iterable[Row], severity: str) -> int:
    """Return how many open discrepancies of a severity the newest notice of each table in a message reports."""
    newest = {row["table_name"]: row for row in rows if row["kind"] not in OF_AUDIT}
    contents = filter(None, (webhook.stored_content(row) for row in newest.values()))
    return sum(
        change["discrepancies"]
        for content in contents
        for change in content["changes"]
        if change["transition"] != "resolved" and change["severity"] == severity
    )


def critical_lines(criticals: Sequence[Change]) -> list[str]:
    """Return a line for each table with critical discrepancies, the most first: their number, rows, and since when."""
    by_table: dict[str | None, list[Change]] = {}
    for change in criticals:
        by_table.setdefault(change.table, []).append(change)
    worst = sorted(by_table.items(), key=lambda each: (-sum(c.number for c in each[1]), each[0] or ""))
    lines = [f"  {_line(table, changes)}" for table, changes in worst[:MOST_TABLES]]
    left = len(worst) - MOST_TABLES
    return [
        *lines,
        *([f"  and {number(left, 'more table')} with critical discrepancies"] if left > 0 else []),
    ]


def _line(table: str | None, changes: Sequence[Change]) -> str:
    what = ", ".join(counted_kind(each.kind, each.number, each.files) for each in changes)
    rows = [each.rows for each in changes if each.rows is not None]
    sinces = [each.since for each in changes if each.since is not None]
    parts = [
        what,
        *([number(sum(rows), "row")] if rows else []),
        *([f"since {second(min(sinces))}"] if sinces else []),
    ]
    return f"critical in {tame_name(table) if table else OF_SOURCES}: {', '.join(parts)}"
