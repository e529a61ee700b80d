"""Select the older version of a key that is the file that the table lists. Pure.

It is the version with the id in the manifest, or one with the recorded size and ETag, or the only version of the
recorded size that was current when the table added the file. Weaker evidence needs a person.
"""

from collections.abc import Mapping
from typing import Any

from lakeaudit.advice.next_steps import EXPIRED
from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.reconcile.key_state import ENABLED, KeyState
from lakeaudit.reconcile.manifest_precondition import LISTED, NO_PRECONDITION, PROMISED, ManifestPrecondition
from lakeaudit.reconcile.protocol import METADATA, RESTORE, Case, Proposal, RestoreTarget
from lakeaudit.reconcile.steps import Step

_ONLY_ONE_THEN = (
    "this is the only version of the object that can have been current when the table added the file, and it has the "
    "size that the table records"
)
SEVERAL = "several versions may be the one that the table lists, and no ETag was recorded"


def on_purpose(case: Case) -> str | None:
    """Return why a removed file may not be restored: it may have been removed on purpose, and `--allow` is missing."""
    cause = case.row["cause"]
    if RESTORE in case.allow or (cause is not None and cause.startswith(EXPIRED)):
        return None
    who = "it is not known who removed it" if cause is None else f"somebody removed it ({cause})"
    return f"{who}, perhaps on purpose: `--allow {RESTORE}` plans it anyway"


def listed_for(step: Step) -> ManifestPrecondition:
    """Require for a lost file that its table lists it now, or for a lost older state, that readers may request it.

    A lost metadata file has no condition: without it the table's manifest cannot be read.
    """
    if step.kind == METADATA:
        return NO_PRECONDITION
    return PROMISED if step.kind == "dropped_history" else LISTED


def matching_version(expected: RestoreTarget, state: KeyState) -> tuple[ObjectVersion, str] | str:
    """Return the version with its proof, or a text with the reason why there is none."""
    if state.current is not None:
        return state.unreadable(state.current.version_id) or expected.why_not_absent
    return _readable(_among_versions(expected, state), state)


def version_to_replace_with(expected: RestoreTarget, state: KeyState) -> tuple[ObjectVersion, str] | str:
    """Return the older version that the table lists instead of the current one, with its proof; or a reason."""
    current = state.current
    if current is None:
        return "storage has no object there"
    if _may_be_right(expected, state, current):
        return "no recorded attribute distinguishes the object from the file that its table lists"
    return _readable(_among_versions(expected, state), state)


def _may_be_right(expected: RestoreTarget, state: KeyState, current: ObjectVersion) -> bool:
    """Return whether the object has all recorded attributes, and no other version was current when it was listed."""
    if expected.version_id is not None and current.version_id == expected.version_id:
        return True
    if not expected.claimed.fits(current.size) or expected.claimed.etag not in (None, current.etag):
        return False
    then = state.history.at_claim(expected.claimed)
    is_another = len(then) == 1 and state.history.whole and then[0].etag != current.etag
    return not (expected.content_differs and expected.claimed.etag is None and is_another)


def probable_version(expected: RestoreTarget, state: KeyState) -> ObjectVersion | str:
    """Return the newest version that may be the file by size and time alone, or a text with the reason.

    The text is empty if a version matches by better evidence: the actions before give the reason.
    """
    certain = matching_version(expected, state)
    probable = state.history.match(expected.claimed)
    if certain != SEVERAL or probable is None:
        return certain if isinstance(certain, str) else ""
    return state.unreadable(probable.version_id) or probable


def _readable(match: tuple[ObjectVersion, str] | str, state: KeyState) -> tuple[ObjectVersion, str] | str:
    """Return the match, or a text if it has to be restored from an archive first."""
    return match if isinstance(match, str) else state.unreadable(match[0].version_id) or match


def _among_versions(expected: RestoreTarget, state: KeyState) -> tuple[ObjectVersion, str] | str:
    if state.versioning != ENABLED:
        return (
            "its bucket keeps no versions"
            if not state.versioning
            else "versioning of its bucket is suspended"
        )
    by_id = state.version(expected.version_id) if expected.version_id else None
    if by_id is not None and expected.claimed.fits(by_id.size):
        return by_id, "the version id that was recorded"
    if expected.once and (only := _only_version(expected, state)) is not None:
        return only, "the only version of a file that is written once"
    match = state.history.match(expected.claimed)
    if match is None:
        return "no version of it matches the record"
    if expected.claimed.etag is not None:
        return match, "size and ETag"
    then = state.history.at_claim(expected.claimed)
    if len(then) == 1 and state.history.whole:
        return match, _ONLY_ONE_THEN
    return SEVERAL


def _only_version(expected: RestoreTarget, state: KeyState) -> ObjectVersion | None:
    """Return the only version of a file that is written once; None: there may be several, or the size differs."""
    objects = [each for each in state.history.versions if not each.is_marker]
    if len(objects) != 1 or not state.history.whole or not expected.claimed.fits(objects[0].size):
        return None
    return objects[0]


def absent_over(version: ObjectVersion, matched_by: str, state: KeyState) -> Proposal:
    """Return the proposal for a key that a delete marker hides, with the version to restore."""
    return Proposal(
        {
            "state": "absent",
            "delete_marker": state.history.marker_id,
            "version_id": version.version_id,
            "size": version.size,
            "etag": version.etag,
        },
        matched_by,
    )


def is_absent_over(precondition: Mapping[str, Any], state: KeyState) -> bool:
    """Return whether the state of `absent_over` still holds."""
    return (
        state.versioning == ENABLED
        and state.current is None
        and state.history.marker_id == precondition["delete_marker"]
        and is_there(precondition, state.version(precondition["version_id"]))
    )


def is_there(recorded: Mapping[str, Any], version: ObjectVersion | None) -> bool:
    """Return whether a version has the recorded size and ETag."""
    return version is not None and (version.size, version.etag) == (recorded["size"], recorded["etag"])
