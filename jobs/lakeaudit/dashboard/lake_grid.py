"""Every table of the lake as one dense grid: sorted, searched and scrolled in the browser."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.lake import Health
from lakeaudit.dashboard.session import Desk
from lakeaudit.formatting import count, second, visible
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import palette
from lakeaudit.report.open_by_day import OpenByDay

HEIGHT = 460
_ROW = 30


def show(desk: Desk, tables: Sequence[Health], days: OpenByDay) -> None:
    """The grid, below it what is said of no single row because it is normal."""
    widgets.section("Tables")
    st.caption(_normal(tables))
    owners = {table.name: table.owner or "" for table in desk.lake.tables}
    rows = [_row(health, owners, days) for health in tables]
    frame = pd.DataFrame(rows)
    if not any(owners.values()):
        frame = frame.drop(columns="owner", errors="ignore")
    st.dataframe(
        frame, hide_index=True, height=min(HEIGHT, _ROW * (len(rows) + 1) + 8), width="stretch",
        row_height=_ROW, placeholder="", column_config=_columns(), alt="Every table, the worst first",
    )  # fmt: skip


def _normal(tables: Sequence[Health]) -> str:
    quiet = sum(health.level == "fine" for health in tables)
    runs = Counter(health.looked.as_of for health in tables if health.looked)
    at = runs.most_common(1)[0][0] if runs else None
    looked = f" Last audited {second(at)}, where a row says nothing else." if at else ""
    return f"{count(len(tables))} tables, {count(quiet)} of them quiet; the worst first.{looked}"


def _row(health: Health, owners: Mapping[str, str], trend: OpenByDay) -> dict[str, object]:
    held, looked = health.held, health.looked
    by = held.by_severity("open")
    return {
        "state": f"{palette.shape(health.level)} {palette.called(health.level)}",
        "table": widgets.address_of("table", table=health.table),
        "owner": visible(owners.get(health.table, "")),
        "judged": _judged(health),
        "evidence up to": looked.judged.evidence_up_to if looked else None,
        "open": [by.get(severity, 0) for severity in SEVERITIES] if by else None,
        "rows at stake": held.rows.known if held.number("open") else None,
        "since": held.since,
        "30 days": [*trend.of_table(health.table)] if held.number("open") else None,
        "until": held.until,
        "why not all": visible(health.reason),
    }


def _judged(health: Health) -> float | None:
    """The smallest share of any axis that was decided."""
    if health.looked is None:
        return None
    shares = [cell.share for cell in health.looked.judged.cells.values() if cell.share is not None]
    return min(shares, default=None)


def _columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "state": column.TextColumn("state", width=84, pinned=True),
        "table": column.LinkColumn("table", display_text=r"table=(.*)$", width=130, pinned=True),
        "owner": column.TextColumn("owner", width=70),
        "open": column.BarChartColumn("open", width=54, help="critical, error, warning, info", y_min=0),
        "rows at stake": column.NumberColumn("rows at stake", width=76, format="localized"),
        "since": column.DatetimeColumn("since", width=78, format="distance", timezone="UTC"),
        "30 days": column.AreaChartColumn("30 days", width=76, y_min=0, help="open at the end of each day"),
        "judged": column.NumberColumn(
            "judged", width=56, format="percent", help="of the axis of which least was"
        ),
        "evidence up to": column.DatetimeColumn(
            "evidence up to", width=80, format="distance", timezone="UTC"
        ),
        "until": column.DatetimeColumn(
            "until",
            width=84,
            format="distance",
            timezone="UTC",
            help="when the first of it cannot come back any more",
        ),
        "why not all": column.TextColumn("why not all", width="medium"),
    }
