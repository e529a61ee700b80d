"""Shows every table of the lake in one dense grid that the browser sorts, searches and scrolls."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import floor
from typing import Any

import pandas as pd
import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.lake import NOT_FULLY_JUDGED, Health, levels
from lakeaudit.dashboard.queries.owners import owner_text
from lakeaudit.dashboard.session import PageSession
from lakeaudit.formatting import age, count, first_names, visible
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import palette
from lakeaudit.results.summaries.open_by_day import OpenByDay

HEIGHT = 460
_ROW = 30
_NAMED = 5
"""Tables without a manifest that are named."""


def show(
    session: PageSession,
    address: widgets.Address,
    tables: Sequence[Health],
    days: OpenByDay,
    owners: Mapping[str, str],
) -> None:
    """Show the tables that are not quiet, or all, without nearly empty columns; above it the normal state."""
    widgets.section("Tables")
    normal = _normal_evidence(tables)
    st.caption(_normal(session, tables, normal))
    shown = _visible_tables(address, tables)
    rows = [_row(health, owners, days, normal) for health in shown]
    st.dataframe(
        pd.DataFrame(rows, columns=widgets.used_columns(rows)), hide_index=True, placeholder="", row_height=_ROW,
        height=min(HEIGHT, _ROW * (len(rows) + 1) + 8), width="stretch", column_config=_columns(shown, days),
        alt="Tables, worst first",
    )  # fmt: skip


def _visible_tables(address: widgets.Address, tables: Sequence[Health]) -> Sequence[Health]:
    """Return the tables that are not quiet; all of them if the reader requested that, or if all are alike."""
    loud = [health for health in tables if health.level != "fine"]
    if not loud or len(loud) == len(tables):
        return tables
    return (
        tables if address.flag("tables", "all", f"Show all {count(levels(tables).total())} tables") else loud
    )


def _normal_evidence(tables: Sequence[Health]) -> datetime | None:
    """Return the time up to which the evidence of most tables reaches."""
    ends = Counter(health.last_audit.judged.evidence_up_to for health in tables if health.last_audit)
    return ends.most_common(1)[0][0] if ends else None


def _normal(session: PageSession, tables: Sequence[Health], evidence: datetime | None) -> str:
    by = levels(tables)
    groups = {"unjudged": NOT_FULLY_JUDGED, SEVERITIES[-1]: f"with {SEVERITIES[-1]} only", "fine": "quiet"}
    wrong = by.total() - sum(by[level] for level in groups)
    parts = [(wrong, "with something wrong"), *((by[level], words) for level, words in groups.items())]
    every = ", ".join(f"{count(number)} {words}" for number, words in parts if number)
    summary = f"{widgets.number(by.total(), 'table')}: {every}{_order(tables)}."
    how = f", with evidence {age(evidence, session.now)} old" if evidence else ""
    usual = f"Unless a row says otherwise, every requested check was completed{how}."
    verified = any(health.watermark for health in tables)
    empty = "If “verified” is empty, no commit of the table is verified." if verified else ""
    return " ".join(filter(None, (summary, usual, _without_manifest(tables), empty)))


def _without_manifest(tables: Sequence[Health]) -> str:
    """Return the tables whose lost files only a metadata store can show; empty if there are none."""
    names = [
        visible(health.table)
        for health in tables
        if health.last_audit is not None and not health.last_audit.judged.has_manifest
    ]
    if not names:
        return ""
    of = f"{widgets.number(len(names), 'table')} ({first_names(names, _NAMED)})"
    return f"Without a manifest, a lost file of {of} is only noticed if a metadata store lists it."


def _order(tables: Sequence[Health]) -> str:
    return "; worst first" if any(health.level != "fine" for health in tables) else ""


def _row(
    health: Health, owners: Mapping[str, str], trend: OpenByDay, normal: datetime | None
) -> dict[str, object]:
    ledger, last_audit = health.ledger, health.last_audit
    return {
        "state": _state(health),
        "table": widgets.address_of("table", table=health.table),
        "open": _chips(ledger.by_severity("open")),  # a phone shows the first columns only
        "restorable": ledger.worst_recovery.amount if ledger.worst_recovery.losses else None,
        "until": ledger.recovery.end,
        "since": ledger.since,
        "rows at stake": ledger.rows.known if ledger.number("open") else None,
        "30 days": [*trend.serious(health.table)] if ledger.number("open") else None,
        "owner": owner_text(owners, health.table),
        "judged": _judged(health),
        "verified": health.watermark["verified_through"] if health.watermark else None,
        "evidence up to": last_audit.judged.evidence_up_to
        if last_audit and last_audit.judged.evidence_up_to != normal
        else None,
        "why not all": visible(health.reason),
    }


def _state(health: Health) -> str:
    """Return the worst open severity, with a mark if something could not be judged."""
    doubt = f" {palette.shape('unjudged')}" if health.doubt and health.level != "unjudged" else ""
    return f"{palette.shape(health.level)} {palette.display_name(health.level)}{doubt}"


def _chips(numbers: Mapping[str, int]) -> list[str]:
    return [_chip(*each) for each in numbers.items()]


def _chip(severity: str, number: int) -> str:
    return f"{palette.shape(severity) or visible(severity)} {count(number)}"


def _judged(health: Health) -> float | None:
    """Return the percentage of the least judged axis; None if all was judged."""
    if health.last_audit is None:
        return 0.0 if health.doubt else None  # findings without a table have no coverage
    shares = [cell.share for cell in health.last_audit.judged.cells.values() if cell.share is not None]
    least = min(shares, default=None if health.last_audit.judged.standing == "whole" else 0.0)
    return None if least is None or least == 1 else floor(least * 1000) / 10


def _columns(tables: Sequence[Health], days: OpenByDay) -> dict[str, Any]:
    column = st.column_config
    most = max((max(days.serious(health.table), default=0) for health in tables), default=0)
    inks = {
        _chip(*each): _ink(each[0]) for health in tables for each in health.ledger.by_severity("open").items()
    }
    return {
        "state": column.TextColumn("state", width=84, pinned=True),
        "table": column.LinkColumn("table", display_text=r"table=(.*)$", width=118, pinned=True),
        "open": column.MultiselectColumn(
            "open", width=126, options=[*inks], color=[*inks.values()], help="critical, error, warning, info",
        ),
        "restorable": column.TextColumn(
            "restorable", width=76, help="lost or changed files of the worst severity that can be restored",
        ),
        "until": column.DatetimeColumn(
            "until", width=118, format="YYYY-MM-DD HH:mm", timezone="UTC",
            help="when the first lost file or overwritten commit expires",
        ),
        "rows at stake": column.NumberColumn(_rows_head(tables), width=64, format="localized", help="at stake"),
        "since": column.DatetimeColumn("since", width=96, format="distance", timezone="UTC"),
        "30 days": column.AreaChartColumn(
            f"{days.days[0]:%m-%d} to {days.days[-1]:%m-%d}, 0 to {count(most)}",
            width=104, y_min=0, y_max=max(most, 1),
            help="open discrepancies of severity warning or higher at the end of each day, with the same scale for "
            "every table"
        ),
        "owner": column.TextColumn("owner", width=80),
        "judged": column.NumberColumn("judged", width=60, format="%.1f %%", help="in the check that judged the "
        "smallest part"),
        "evidence up to": column.DatetimeColumn("evidence", width=104, format="distance", timezone="UTC",
                                                help="the time of the oldest storage snapshot that the audit used"),
        "verified": column.DatetimeColumn("verified", width=104, format="distance", timezone="UTC",
                                          help="the time up to which all commits are verified; empty: no commit is"),
        "why not all": column.TextColumn("why not all", width=250),
    }  # fmt: skip


def _rows_head(tables: Sequence[Health]) -> str:
    """Return the column's head, with `≥` if the rows of any table are partly unknown."""
    least = any(health.ledger.number("open") and not health.ledger.rows.whole for health in tables)
    return "rows \u2265" if least else "rows"


def _ink(severity: str) -> str:
    """Return a colour that is dark enough for a chip's white text."""
    return palette.INKS.get(severity, palette.INKS["critical"])[0]
