"""`lakeaudit demo`: a whole lake in one process, broken on purpose, audited, and the audit held to account."""

from pathlib import Path

MOST_FAULTS = 100
"""Enough for every act of the breaker."""
USUAL_FAULTS = (12, 40)


MARK = ".lakeaudit-demo"
"""A file in every folder that a demo left."""


def ended(lake_file: Path, endpoint: str | None) -> bool:
    """Whether the file is of a demo's lake whose server is not there any more."""
    from lakeaudit.runtime.reach import listens

    return endpoint is not None and (lake_file.parent / MARK).is_file() and not listens(endpoint)
