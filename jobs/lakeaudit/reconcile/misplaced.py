"""What an act wrote over another version of a key than it looked at: two versions of equal bytes have one ETag. Pure.

The response to the act names what it wrote. Where a run was killed before it had the response, the time tells: what
was written within an hour of the act counts as its own. A marker that somebody else wrote in that hour is removed then,
too: a file that comes back costs storage, and one that stays hidden costs its rows.
"""

from datetime import timedelta

from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.keys import NULL_VERSION
from lakeaudit.reconcile.key_state import KeyState
from lakeaudit.reconcile.protocol import Trace
from lakeaudit.schemas import plain_time

NEAR = timedelta(hours=1)
"""Covers the difference between two clocks, and a request that the client sends again and again."""


def marker_over_another(state: KeyState, version_id: str, trace: Trace) -> str | None:
    """The id of the delete marker of an act, where the version beneath it is not the one that the act looked at."""
    if not state.history.is_marked:
        return None
    newest, *beneath = state.history.versions
    hides_nothing = newest.version_id == NULL_VERSION or not beneath or beneath[0].is_marker
    version = state.version(version_id)
    if hides_nothing or (version is not None and state.history.is_beneath_marker(version)):
        return None
    return newest.version_id if _is_of(trace, newest) else None


def object_over_another(state: KeyState, version_id: str, size: int, etag: str, trace: Trace) -> str | None:
    """The id of the object that an act wrote, where it does not lie over the version that the act looked at."""
    newest = state.current
    if newest is None or lies_over(state, version_id):
        return None
    is_named = trace.written == newest.version_id
    alike = (newest.size, newest.etag) == (size, etag) and _is_of(trace, newest)
    return newest.version_id if is_named or alike else None


def lies_over(state: KeyState, version_id: str) -> bool:
    """Whether the version right beneath the newest one is the one of that id."""
    beneath = state.history.versions[1:2]
    return bool(beneath) and beneath[0].version_id == version_id


def _is_of(trace: Trace, version: ObjectVersion) -> bool:
    if trace.written not in (None, version.etag):
        return trace.written == version.version_id
    at = plain_time(trace.at)
    return at is not None and abs(version.modified_at - at) <= NEAR
