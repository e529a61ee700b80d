"""Builds the addresses of the dashboard's pages about a task, without lakeaudit. Pure.

`jobs/lakeaudit/dashboard/addresses.py` builds the same addresses for messages; a test compares both.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from lake_files import LakeFile
from lake_outcomes import APPLY, AUDIT, PLAN, Step

PAGE, TABLE = "Dashboard", "Table"
"""Names of the links of a task."""


def address(lake: LakeFile, page: str = "", **parameters: str) -> str:
    """Return the address of a page about a lake with `dashboard_url`; without one an empty text."""
    if lake.dashboard is None:
        return ""
    base = urlsplit(lake.dashboard.strip())._replace(query="", fragment="").geturl().rstrip("/")
    query = urlencode({"lake": lake.lake} | parameters, quote_via=quote, safe="", errors="replace")
    return f"{base}/{page}?{query}"


def pages_of(
    lake: LakeFile, step: Step, params: Mapping[str, Any], outcome: Mapping[str, Any] | None
) -> dict[str, str]:
    """Return the links of a task by name: to the run or the plan that it made, else to the lake.

    Args:
        lake: the lake file.
        step: the command of the task.
        params: the parameters of the DAG run; an audit of one table also has a link to this table.
        outcome: the outcome of the task; None before its end.
    """
    if lake.dashboard is None:
        return {}
    made = outcome or {}
    pages = {PAGE: address(lake)}
    if step is AUDIT and made.get("run_id"):
        pages[PAGE] = address(lake, "runs", run=made["run_id"])
    if step in (PLAN, APPLY) and made.get("plan_id"):
        pages[PAGE] = address(lake, "plans", plan=made["plan_id"])
    tables = params.get("tables") or []
    if step is AUDIT and len(tables) == 1:
        pages[TABLE] = address(lake, "table", table=tables[0])
    return pages
