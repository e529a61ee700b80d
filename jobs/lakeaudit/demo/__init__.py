"""`lakeaudit demo` builds a lake in one process, breaks it, audits it, and checks the findings."""

from pathlib import Path

MOST_FAULTS = 100
"""Highest number of faults, enough for every act of the breaker."""
USUAL_FAULTS = (12, 40)


MARK = ".lakeaudit-demo"
"""A file in every folder that a demo created."""


def server_has_ended(lake_file: Path, endpoint: str | None) -> bool:
    """Return whether the file is a demo's lake file and the demo's server has ended."""
    from lakeaudit.runtime.connections.reach import listens

    return endpoint is not None and (lake_file.parent / MARK).is_file() and not listens(endpoint)
