"""Find versions that an act wrote over an unexpected version: two versions of equal bytes have the same ETag. Pure.

The response to the act names the version that it wrote. If a run was killed before the response, a version that was
written within an hour of the act counts as its own. A marker of another writer in that hour is then removed too: a file
that returns costs storage, but one that stays hidden costs its rows.
"""

from datetime import timedelta

from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.keys import NULL_VERSION
from lakeaudit.reconcile.key_state import KeyState
from lakeaudit.reconcile.protocol import WriteIdentity
from lakeaudit.schemas import plain_time

NEAR = timedelta(hours=1)
"""Covers the difference between two clocks, and repetitions of a request by the client."""


def marker_over_another(state: KeyState, version_id: str, identity: WriteIdentity) -> str | None:
    """Return the id of the act's delete marker if the version beneath it is not the one that the act read."""
    if not state.history.is_marked:
        return None
    newest, *beneath = state.history.versions
    hides_nothing = newest.version_id == NULL_VERSION or not beneath or beneath[0].is_marker
    version = state.version(version_id)
    if hides_nothing or (version is not None and state.history.is_beneath_marker(version)):
        return None
    return newest.version_id if _is_of(identity, newest) else None


def object_over_another(
    state: KeyState, version_id: str, size: int, etag: str, identity: WriteIdentity
) -> str | None:
    """Return the id of the object that an act wrote if the version beneath it is not the one that the act read."""
    newest = state.current
    if newest is None or lies_over(state, version_id):
        return None
    is_named = identity.written == newest.version_id
    is_equal = (newest.size, newest.etag) == (size, etag) and _is_of(identity, newest)
    return newest.version_id if is_named or is_equal else None


def lies_over(state: KeyState, version_id: str) -> bool:
    """Return whether the version beneath the newest one has that id."""
    beneath = state.history.versions[1:2]
    return bool(beneath) and beneath[0].version_id == version_id


def _is_of(identity: WriteIdentity, version: ObjectVersion) -> bool:
    if identity.written not in (None, version.etag):
        return identity.written == version.version_id
    at = plain_time(identity.at)
    return at is not None and abs(version.modified_at - at) <= NEAR
