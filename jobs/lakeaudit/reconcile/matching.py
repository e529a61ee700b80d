"""Which older version of a key is the file that the table lists. Pure.

The version that the manifest recorded by its id; one of the recorded size and ETag; or the only one that was current
when the table listed the file, of the recorded size. Anything less is for a person.
"""

from collections.abc import Mapping
from typing import Any

from lakeaudit.advice.next_steps import EXPIRED
from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.reconcile.key_state import ENABLED, KeyState
from lakeaudit.reconcile.need import LISTED, NO_NEED, PROMISED, Need
from lakeaudit.reconcile.protocol import METADATA, RESTORE, Case, Proposal, Wanted
from lakeaudit.reconcile.steps import Step

SEVERAL = "several versions may be the one that the table listed, and no ETag was recorded"


def on_purpose(case: Case) -> str | None:
    """Why what was removed may not come back: perhaps it was erased on purpose, and nobody allows it."""
    cause = case.row["cause"]
    if RESTORE in case.allow or (cause is not None and cause.startswith(EXPIRED)):
        return None
    who = "nobody knows who removed it" if cause is None else f"somebody did it ({cause})"
    return f"{who}, perhaps on purpose: `--allow {RESTORE}` plans it all the same"


def listed_for(step: Step) -> Need:
    """Of a file that was lost: that its table lists it now, or for a lost older state, that readers may ask for it.

    Of its own metadata a table says nothing that could be read without it.
    """
    if step.kind == METADATA:
        return NO_NEED
    return PROMISED if step.kind == "dropped_history" else LISTED


def matching_version(wanted: Wanted, state: KeyState) -> tuple[ObjectVersion, str] | str:
    """The version, and what proves it; a text says why there is none."""
    if state.current is not None:
        return state.unreadable(state.current.version_id) or wanted.there
    return _readable(_among_versions(wanted, state), state)


def version_to_replace_with(wanted: Wanted, state: KeyState) -> tuple[ObjectVersion, str] | str:
    """The older version that the table lists where another one is current, and what proves it; a text says why not."""
    current = state.current
    if current is None:
        return "storage has no object there"
    if _may_be_right(wanted, state, current):
        return "nothing that was recorded tells the object from what its table lists"
    return _readable(_among_versions(wanted, state), state)


def _may_be_right(wanted: Wanted, state: KeyState, current: ObjectVersion) -> bool:
    """Whether the object has all that was recorded, unless it is not the only one that was there when it was listed."""
    if wanted.version_id is not None and current.version_id == wanted.version_id:
        return True
    if not wanted.claimed.fits(current.size) or wanted.claimed.etag not in (None, current.etag):
        return False
    then = state.history.at_claim(wanted.claimed)
    is_another = len(then) == 1 and state.history.whole and then[0].etag != current.etag
    return not (wanted.told_apart and wanted.claimed.etag is None and is_another)


def probable_version(wanted: Wanted, state: KeyState) -> ObjectVersion | str:
    """The newest version that may be the file by its size and time alone; a text says why none may."""
    certain = matching_version(wanted, state)
    found = state.history.match(wanted.claimed)
    if certain != SEVERAL or found is None:
        return certain if isinstance(certain, str) else "a version matches for certain"
    return state.unreadable(found.version_id) or found


def _readable(found: tuple[ObjectVersion, str] | str, state: KeyState) -> tuple[ObjectVersion, str] | str:
    """What was found; a text where it has to be restored from an archive first."""
    return found if isinstance(found, str) else state.unreadable(found[0].version_id) or found


def _among_versions(wanted: Wanted, state: KeyState) -> tuple[ObjectVersion, str] | str:
    if state.versioning != ENABLED:
        return (
            "its bucket keeps no versions"
            if not state.versioning
            else "versioning of its bucket is suspended"
        )
    by_id = state.version(wanted.version_id) if wanted.version_id else None
    if by_id is not None and wanted.claimed.fits(by_id.size):
        return by_id, "the version id that was recorded"
    if wanted.once and (only := _only_version(wanted, state)) is not None:
        return only, "the only version that there was of a file that is written once"
    found = state.history.match(wanted.claimed)
    if found is None:
        return "no version of it has what was recorded"
    if wanted.claimed.etag is not None:
        return found, "size and ETag"
    then = state.history.at_claim(wanted.claimed)
    if len(then) == 1 and state.history.whole:
        return found, "the only version that was current when the table listed it, and its size"
    return SEVERAL


def _only_version(wanted: Wanted, state: KeyState) -> ObjectVersion | None:
    """Of a file that nobody writes over; None where storage has several, or perhaps has, or of another size."""
    objects = [each for each in state.history.versions if not each.is_marker]
    size = wanted.claimed.size
    if len(objects) != 1 or not state.history.whole or size not in (None, objects[0].size):
        return None
    return objects[0]


def absent_over(version: ObjectVersion, matched_by: str, state: KeyState) -> Proposal:
    """The state of a key that a delete marker hides, over the version that is wanted."""
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
    """Whether that state still holds."""
    return (
        state.versioning == ENABLED
        and state.current is None
        and state.history.marker_id == precondition["delete_marker"]
        and is_there(precondition, state.version(precondition["version_id"]))
    )


def is_there(recorded: Mapping[str, Any], version: ObjectVersion | None) -> bool:
    """Whether a version has the recorded size and ETag."""
    return version is not None and (version.size, version.etag) == (recorded["size"], recorded["etag"])
