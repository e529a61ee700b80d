"""Every table of the lake as one dense grid: sorted, searched and scrolled in the browser."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import floor, sqrt
from typing import Any

import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.lake import UNSURE, Health, levels
from lakeaudit.dashboard.session import Desk
from lakeaudit.formatting import age, count, visible
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import palette
from lakeaudit.results.open_by_day import OpenByDay

HEIGHT = 460
_ROW = 30


def show(desk: Desk, tables: Sequence[Health], days: OpenByDay) -> None:
    """The grid, above it what is said of no single row because it is normal; a column that says nothing is left out."""
    widgets.section("Tables")
    normal = _normal_evidence(tables)
    st.caption(_normal(desk, tables, normal))
    owners = {table.name: table.owner or "" for table in desk.lake.tables}
    rows = [_row(health, owners, days, normal) for health in tables]
    st.dataframe(
        pd.DataFrame(rows, columns=widgets.columns_said(rows)), hide_index=True, placeholder="", row_height=_ROW,
        height=min(HEIGHT, _ROW * (len(rows) + 1) + 8), width="stretch", column_config=_columns(tables),
        alt="Every table, the worst first",
    )  # fmt: skip


def _normal_evidence(tables: Sequence[Health]) -> datetime | None:
    """Up to when the evidence goes of most tables."""
    ends = Counter(health.looked.judged.evidence_up_to for health in tables if health.looked)
    return ends.most_common(1)[0][0] if ends else None


def _normal(desk: Desk, tables: Sequence[Health], evidence: datetime | None) -> str:
    by = levels(tables)
    apart = {"unjudged": UNSURE, SEVERITIES[-1]: f"with {SEVERITIES[-1]} alone", "fine": "quiet"}
    wrong = by.total() - sum(by[level] for level in apart)
    parts = [(wrong, "with something wrong"), *((by[level], words) for level, words in apart.items())]
    every = ", ".join(f"{count(number)} {words}" for number, words in parts if number)
    told = f"{widgets.number(by.total(), 'table')}: {every}{_order(tables)}."
    how = f" by evidence {age(evidence, desk.now)} old" if evidence else ""
    return f"{told} All that was asked of them was judged{how}, where a row says nothing else."


def _order(tables: Sequence[Health]) -> str:
    return "; the worst first" if any(health.level != "fine" for health in tables) else ""


def _row(
    health: Health, owners: Mapping[str, str], trend: OpenByDay, normal: datetime | None
) -> dict[str, object]:
    held, looked = health.held, health.looked
    return {
        "state": _state(health),
        "table": widgets.address_of("table", table=health.table),
        "open": _chips(held.by_severity("open")),
        "until": held.recovery.until,
        "rows at stake": held.rows.known if held.number("open") else None,
        "since": held.since,
        "30 days": [*map(sqrt, trend.serious(health.table))] if held.number("open") else None,
        "owner": visible(owners.get(health.table, "")),
        "judged": _judged(health),
        "why not all": visible(health.reason),
        "evidence up to": looked.judged.evidence_up_to
        if looked and looked.judged.evidence_up_to != normal
        else None,
    }


def _state(health: Health) -> str:
    """The worst that is open, and whether something could not be judged beside it."""
    doubt = f" {palette.shape('unjudged')}" if health.doubt and health.level != "unjudged" else ""
    return f"{palette.shape(health.level)} {palette.display_name(health.level)}{doubt}"


def _chips(numbers: Mapping[str, int]) -> list[str]:
    return [_chip(*each) for each in numbers.items()]


def _chip(severity: str, number: int) -> str:
    return f"{palette.shape(severity) or visible(severity)} {count(number)}"


def _judged(health: Health) -> float | None:
    """The smallest share of any axis that was decided, where that is not all."""
    if health.looked is None:
        return 0.0 if health.doubt else None  # what belongs to no table is asked nothing
    shares = [cell.share for cell in health.looked.judged.cells.values() if cell.share is not None]
    least = min(shares, default=None if health.looked.judged.standing == "whole" else 0.0)
    return None if least is None or least == 1 else floor(least * 1000) / 10


def _columns(tables: Sequence[Health]) -> dict[str, Any]:
    column = st.column_config
    inks = {
        _chip(*each): _ink(each[0]) for health in tables for each in health.held.by_severity("open").items()
    }
    return {
        "state": column.TextColumn("state", width=88, pinned=True),
        "table": column.LinkColumn("table", display_text=r"table=(.*)$", width=126, pinned=True),
        "open": column.MultiselectColumn(
            "open", width=168, options=[*inks], color=[*inks.values()], help="critical, error, warning, info",
        ),
        "until": column.DatetimeColumn(
            "until", width=82, format="distance", timezone="UTC",
            help="when the first file is no longer recoverable",
        ),
        "rows at stake": column.NumberColumn(_rows_head(tables), width=68, format="localized", help="at stake"),
        "since": column.DatetimeColumn("since", width=104, format="distance", timezone="UTC"),
        "30 days": column.AreaChartColumn(
            "30 days", width=64, y_min=0,
            help="open above info at the end of each day; twice as high is four times as many"
        ),
        "owner": column.TextColumn("owner", width=90),
        "judged": column.NumberColumn("judged", width=60, format="%.1f %%", help="of the axis of which least was"),
        "evidence up to": column.DatetimeColumn("evidence", width=104, format="distance", timezone="UTC",
                                                help="up to when it goes"),
        "why not all": column.TextColumn("why not all", width=150),
    }  # fmt: skip


def _rows_head(tables: Sequence[Health]) -> str:
    """Where of any table some are unknown, all numbers are read as the least that it may be."""
    least = any(health.held.number("open") and not health.held.rows.whole for health in tables)
    return "rows \u2265" if least else "rows"


def _ink(severity: str) -> str:
    """Dark enough for a chip's white words."""
    return palette.INKS.get(severity, palette.INKS["critical"])[0]
