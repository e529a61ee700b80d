"""Shows tables with something wrong, two lines and a link each."""

from collections.abc import Mapping, Sequence

import streamlit as st

from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries.lake import NOT_FULLY_JUDGED, Health, LedgerSums, levels
from lakeaudit.dashboard.queries.owners import owner_text
from lakeaudit.dashboard.session import PageSession
from lakeaudit.formatting import age, count
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report.summary import AT_STAKE
from lakeaudit.results.recovery import brief, undated, without_repair

OPEN_FOR = (
    "Times since a fault is open count from the fault, if its time is known; otherwise from the first audit or storage "
    "snapshot that showed it: then the fault may be older."
)


def wrong(tables: Sequence[Health]) -> Sequence[Health]:
    """Return the tables with open discrepancies above info, and those that could not be fully judged."""
    return [health for health in tables if health.level not in ("fine", SEVERITIES[-1])]


def how_many(tables: Sequence[Health], more: str = "") -> str:
    """Return how many tables have something wrong or were not fully judged; empty: none. `more`: the word `more`."""
    by = levels(wrong(tables))
    unsure, broken = by["unjudged"], by.total() - by["unjudged"]
    of_them = f", {count(by['critical'])} of them critical" if by["critical"] else ""
    parts = [f"{widgets.number(broken, f'{more}table')} with something wrong{of_them}"] if broken else []
    parts += [f"{count(unsure)} {'' if broken else more}{NOT_FULLY_JUDGED}"] if unsure else []
    return "; ".join(parts)


def show(session: PageSession, tables: Sequence[Health], owners: Mapping[str, str] | None = None) -> None:
    """Show two lines for each table: its level and a link; below, its worst discrepancies, and its owner if named."""
    with st.container(gap="small"):
        for health in tables:
            owner = owner_text(owners or {}, health.table)
            _line(session, health, owner and f"owner {owner}")
    if any(health.ledger.since for health in tables):
        st.caption(OPEN_FOR)


def _line(session: PageSession, health: Health, owner: str) -> None:
    with widgets.item(" \u00b7 ".join(filter(None, (_summary(session, health), owner)))):
        alone = health.level == "unjudged"  # then only the doubt is shown
        st.markdown(widgets.marks(health.level, health.doubt if alone else ""), width="content")
        widgets.link("table", f"**{widgets.prose(widgets.shortened(health.table))}**", table=health.table)


def _summary(session: PageSession, health: Health) -> str:
    """Return the findings of the worst severity by kind, and the number of the others."""
    ledger = health.ledger
    worst, *others = [*ledger.by_severity("open").items()] or [("", 0)]
    kinds = [
        counted_kind(kind, number, ledger.worst_files.get(kind))
        for kind, number in ledger.worst_kinds.items()
    ]
    what = ", ".join(kinds) or f"{count(worst[1])} {worst[0]}"
    parts = [f"{what}{widgets.reopened(ledger.again, worst[1])}"] if worst[1] else []
    parts += [_rows(ledger)] if worst[1] else []
    parts += [_recovery(session, ledger)] if worst[1] else []
    oldest = "open for up to" if ledger.number("open") > 1 else "open for"
    parts += [f"{oldest} {age(ledger.since, session.now)}"] if ledger.since else []
    parts += [f"also {count(sum(number for _, number in others))} less severe"] if others else []
    brief = health.doubt and health.reason.startswith(health.doubt)  # the table's page has the rest
    parts += [health.doubt if brief else health.reason] if health.level != "unjudged" or not brief else []
    return " · ".join(filter(None, parts))


def _rows(ledger: LedgerSums) -> str:
    """Return the rows at stake, and that they are not known if files are lost; else empty."""
    if ledger.rows.known:
        return f"{widgets.amount(ledger.rows)} rows at stake"
    return "rows at stake not known" if ledger.worst_recovery.losses else ""


def _recovery(session: PageSession, ledger: LedgerSums) -> str:
    """Return how much of the worst open severity is recoverable; empty if that is info and nothing is lost."""
    serious = any(ledger.by_severity("open").get(severity) for severity in AT_STAKE)
    recovery = ledger.worst_recovery
    text = brief(recovery, session.now) if serious or recovery.losses else ""
    if not text or not recovery.losses:
        return text
    return "; ".join(filter(None, (f"recoverable: {text}", undated(recovery), without_repair(recovery))))
