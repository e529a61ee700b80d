"""Reads from the explanation of lost coverage when the evidence ended: from then on the table is blind.

An audit notices lost coverage only when a report is older than its `max_age`, which can be days later.
"""

import re
from datetime import UTC, datetime

from lakeaudit.kinds import COVERAGE_LOST

EVIDENCE_OF = "from storage as of "
"""Words before the time of the storage snapshot in the explanation of lost coverage."""
PATTERN = rf"{EVIDENCE_OF}(\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d)Z"
_TEXT = f"split_part(split_part(explanation, '{EVIDENCE_OF}', 2), 'Z', 1)"
SQL = f"""CASE WHEN kind = '{COVERAGE_LOST}'
    THEN arrow_cast(try_cast({_TEXT} AS TIMESTAMP), 'Timestamp(Microsecond, Some("UTC"))') END"""
"""SQL for the end of the evidence of a row of the ledger; null if it is not known."""


def blind_since(explanation: str | None) -> datetime | None:
    """Return the time of the last storage snapshot by which the table was judged; None: not known."""
    found = re.search(PATTERN, explanation or "")
    if found is None:
        return None
    try:
        return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
