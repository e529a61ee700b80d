"""Finds discrepancies of the whole lake: the worst, or those whose subject contains a text."""

from datetime import datetime

from lakeaudit.dashboard.queries.table import LISTED, WORST_FIRST, Listed
from lakeaudit.results.read import Results
from lakeaudit.results.sql import ask, text
from lakeaudit.results.summaries.lake_standing import standing

MOST = 10
"""Number of discrepancies that are listed."""


def worst_discrepancies(results: Results, now: datetime, like: str = "") -> Listed:
    """Return the worst open discrepancies, or the worst of any state whose subject contains `like`; open ones first."""
    where = f"strpos(subject, {text(like)}) > 0" if like else f"{standing(now)} = 'open'"
    open_first = f"state = 'resolved', {standing(now)} <> 'open', " if like else ""
    sql = f"""SELECT {LISTED}, {standing(now)} AS standing FROM discrepancies WHERE {where}
        ORDER BY {open_first}{WORST_FIRST} LIMIT {MOST}"""
    rows = ask(results, sql, "discrepancies")
    counted = ask(results, f"SELECT count(*) AS total FROM discrepancies WHERE {where}", "discrepancies")
    return Listed(rows, sum(row["total"] for row in counted))
