"""Print losses while a scan is running, table by table."""

from collections.abc import Mapping, Sequence
from typing import Any

from lakeaudit.audit.preview import Preview
from lakeaudit.formatting import number, size, visible
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.report import summary
from lakeaudit.results import recovery
from lakeaudit.runtime.connections.request_budget import RequestBudget
from lakeaudit.runtime.progress import StageLog

Row = Mapping[str, Any]

SHARE = 2
"""A preview ends when this part of the requests is sent: it reads logs that the scan reads again."""


def preview_of(budget: RequestBudget) -> Preview:
    """Return the preview of a scan, which leaves most requests to the scan itself."""
    return Preview(show_tables, lambda: budget.sent * SHARE < budget.most)


def show_tables(log: StageLog, totals: Sequence[Row]) -> None:
    """Report each table of some totals with its losses, the worst table first."""
    for table in summary.by_table(totals):
        name, worst = table.line.name, table.line.worst
        rows = [row for row in totals if row["table_name"] == name]
        text = _losses(rows)
        log.say(f"{worst} {visible(name)}: {text}", table=name, severity=worst, findings=text)


def _losses(rows: Sequence[Row]) -> str:
    """Return `2 files dropped, 20 rows, 4.9 KiB; recoverable: 1 of 2; s3://lake/orders/a.parquet`."""
    kinds = summary.by_kind(rows)
    stake = summary.Stake.of([row for row in rows if row["severity"] == kinds[0].worst])
    parts = [counted_kind(kind.name, kind.stake.findings, kind.stake.files.known) for kind in kinds]
    parts += [number(stake.rows.known, "row")] if stake.rows.known else []
    parts += [size(stake.bytes.known)] if stake.bytes.known else []
    first = next(row["subject"] for row in rows if row["kind"] == kinds[0].name)
    return "; ".join(filter(None, (", ".join(parts), recovery.losses(stake.recovery), visible(first))))
