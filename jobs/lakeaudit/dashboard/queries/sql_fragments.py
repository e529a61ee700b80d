"""Terms that the queries share."""

from datetime import datetime

from lakeaudit.kinds import SEVERITIES
from lakeaudit.report.summary import NO_TABLE
from lakeaudit.results.read import PUBLISHED
from lakeaudit.results.sql import moment, text, texts

STANDINGS = ("open", "accepted", "pending", "resolved")
"""How a discrepancy stands; accepted is what is open or pending and somebody has taken upon himself until later."""

RANK = f"array_position([{texts(SEVERITIES)}], severity)"
"""1 is the worst; null for what is no severity of ours, which comes last."""

WORST_FIRST = f"{RANK} ASC NULLS LAST, bytes_at_stake DESC NULLS LAST, subject, discrepancy_id"

UNKNOWN_PARTS = "files IS NULL, rows_at_stake IS NULL, bytes_at_stake IS NULL"
"""Grouped by, so that a sum of which a part is unknown is not taken for the whole."""

PUBLISHED_RUNS = f"status IN ({texts(PUBLISHED)})"


def standing(now: datetime) -> str:
    """How a row of the ledger stands at a time."""
    accepted = f"state <> 'resolved' AND ack_until > {moment(now)}"
    return f"CASE WHEN {accepted} THEN 'accepted' ELSE state END"


def of_table(label: str) -> str:
    """Rows of one table, as pages name it."""
    return "table_name IS NULL" if label == NO_TABLE else f"table_name = {text(label)}"
