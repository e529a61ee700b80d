"""Remove the delete marker that hides a file, if the version beneath it is the file that the table lists.

The marker is removed by its version id: if there is a newer version, nothing changes for readers.
"""

from collections.abc import Iterator

from lakeaudit.config import Lake
from lakeaudit.grants import DELETE, DELETE_VERSION, Grant
from lakeaudit.reconcile.actions.files.restoring import Restoring
from lakeaudit.reconcile.canary import DELETE_IF_MATCH, changed_files
from lakeaudit.reconcile.execution.misplaced_versions import marker_over_another
from lakeaudit.reconcile.key_state import KeyState
from lakeaudit.reconcile.plans.matching import (
    absent_over,
    is_absent_over,
    is_there,
    matching_version,
)
from lakeaudit.reconcile.protocol import CannotActSafely, Case, Proposal, Target, Undo, WriteIdentity
from lakeaudit.reconcile.steps import COMPENSABLE, Step


class RemoveDeleteMarker(Restoring):
    """See the module."""

    name = "remove_delete_marker"
    reversibility = COMPENSABLE
    undo = "write a delete marker again, but only if the restored version is still the current one"
    risk = "none: no object is written or removed"

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`."""
        yield from changed_files("RemoveDeleteMarkers", lake, (DELETE, DELETE_VERSION))

    def propose(self, case: Case, state: KeyState) -> Proposal | str:
        """Propose if exactly one marker, with an id of its own, hides the version."""
        match = matching_version(case.restore_target, state)
        if isinstance(match, str):
            return match
        version, matched_by = match
        if archive := state.archived.get(version.version_id):
            return f"its version stays in {archive} and could be read for some days only: it has to be copied"
        if state.marker_id is None:
            return "its delete marker has no id of its own"
        if not state.history.is_beneath_marker(version):
            return "there is another version between its delete marker and the version"
        return absent_over(version, matched_by, state)

    def still_holds(self, step: Step, state: KeyState) -> bool:
        """Return whether the same marker hides the same version."""
        version = state.version(step.precondition["version_id"])
        return (
            is_absent_over(step.precondition, state)
            and version is not None
            and version.version_id not in state.archived
            and state.history.is_beneath_marker(version)
        )

    def act(self, step: Step, target: Target) -> str | None:
        """Delete the marker by its id."""
        marker = step.precondition["delete_marker"]
        target.s3.delete_object(Bucket=target.bucket, Key=target.key, VersionId=marker)
        return None

    def outcome(self, step: Step, state: KeyState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if the version is current."""
        current = state.current
        if current is None or current.version_id != step.precondition["version_id"]:
            return None
        return {"version_id": current.version_id, "etag": current.etag}

    def may_undo(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """Return whether the version is still current."""
        return self.outcome(step, state, None) == undo

    def take_back(self, undo: Undo, target: Target) -> str | None:
        """Write a new marker on the condition that the version is current."""
        if DELETE_IF_MATCH not in target.forms.honoured(target.bucket):
            raise CannotActSafely("the store does not honour If-Match of DeleteObject")
        etag = f'"{undo["etag"]}"'
        return target.s3.delete_object(Bucket=target.bucket, Key=target.key, IfMatch=etag).get("VersionId")

    def is_undone(self, step: Step, undo: Undo, state: KeyState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether a marker hides the version."""
        version = state.version(step.precondition["version_id"])
        return (
            version is not None
            and is_there(step.precondition, version)
            and state.history.is_beneath_marker(version)
        )

    def misplaced(self, step: Step, state: KeyState, identity: WriteIdentity) -> str | None:
        """Return the marker that the undo wrote if it hides another version than the file."""
        if not identity.undoing:
            return None
        return marker_over_another(state, step.precondition["version_id"], identity)
