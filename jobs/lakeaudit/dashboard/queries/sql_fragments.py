"""Terms that the queries share."""

from lakeaudit.kinds import SEVERITIES
from lakeaudit.report.summary import NO_TABLE
from lakeaudit.results.sql import text, texts

STANDINGS = ("open", "accepted", "pending", "resolved")
"""How a discrepancy stands; accepted is what is open or pending and somebody has taken upon himself until later."""

RANK = f"array_position([{texts(SEVERITIES)}], severity)"
"""1 is the worst; null for what is no severity of ours, which comes last."""

WORST_FIRST = f"{RANK} ASC NULLS LAST, bytes_at_stake DESC NULLS LAST, subject, discrepancy_id"


def of_table(label: str) -> str:
    """Rows of one table, as pages name it."""
    return "table_name IS NULL" if label == NO_TABLE else f"table_name = {text(label)}"
