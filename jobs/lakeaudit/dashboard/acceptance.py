"""Holds the two changes that a visitor may make: accept a discrepancy, and end an acceptance.

`lakeaudit dashboard` passes a function for them to a server that requires a token from every visitor. Other servers
have none, so their pages cannot change anything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime

from lakeaudit.config import Lake
from lakeaudit.results.read import Results


@dataclass(frozen=True)
class Request:
    """Accept a discrepancy up to and including a day; `until` None: end its acceptance."""

    discrepancy_id: str
    by: str = ""
    reason: str = ""
    until: date | None = None


Change = Callable[[Lake, Results, Request, datetime], str]
"""Makes the requested change, and returns its outcome in a sentence. Raises AuditError."""

_installed: dict[str, Change] = {}


def install(change: Change | None) -> None:
    """Let the pages of this process make changes, or no changes."""
    _installed.clear()
    if change is not None:
        _installed["change"] = change


def installed() -> Change | None:
    """Return the function that makes changes; None: visitors may change nothing."""
    return _installed.get("change")
