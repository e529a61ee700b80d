"""Reads how the verified time of a table moved over the audits."""

from dataclasses import dataclass
from datetime import datetime

from lakeaudit.results.read import Results
from lakeaudit.results.sql import ask, text
from lakeaudit.results.summaries.lake_standing import PUBLISHED_RUNS

DRAWN = 200
"""Number of audits in the plot, the newest."""


@dataclass(frozen=True)
class Moved:
    """The watermark of a table after one audit; `through` is None if no commit was verified."""

    at: datetime
    through: datetime | None
    movement: str


def watermarks(results: Results, table: str) -> tuple[Moved, ...]:
    """Return the watermarks of a table after its newest audits, oldest first."""
    sql = f"""
        SELECT v.as_of, v.verified_through, v.movement FROM verified v JOIN runs r ON r.run_id = v.run_id
        WHERE v.table_name = {text(table)} AND r.{PUBLISHED_RUNS}
        ORDER BY v.as_of DESC, v.run_id DESC LIMIT {DRAWN}"""
    rows = reversed(ask(results, sql, "verified", "runs"))
    return tuple(Moved(row["as_of"], row["verified_through"], row["movement"]) for row in rows)
