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
    sql = f"""SELECT {LISTED}, {standing(now)} AS standing, count(*) OVER () AS total FROM discrepancies WHERE {where}
        ORDER BY state = 'resolved', {standing(now)} <> 'open', {WORST_FIRST} LIMIT {MOST}"""
    rows = ask(results, sql, "discrepancies")
    return Listed(rows, rows[0]["total"] if rows else 0)
