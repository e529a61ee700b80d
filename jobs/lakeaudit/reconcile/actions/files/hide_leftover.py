"""Hide an unused file with a delete marker, in a bucket that keeps versions; nothing is copied or lost.

The marker is written with If-Match, and removed at once if it hides another version than the one that was read.
`reconcile purge` removes the version.
"""

from collections.abc import Iterator

from lakeaudit.config import Lake
from lakeaudit.grants import DELETE, DELETE_VERSION, LIFECYCLE, Grant
from lakeaudit.reconcile.actions.files import leftovers
from lakeaudit.reconcile.actions.files.leftovers import LeftoverAction, LeftoverState
from lakeaudit.reconcile.canary import DELETE_IF_MATCH, changed_files
from lakeaudit.reconcile.execution.misplaced_versions import marker_over_another
from lakeaudit.reconcile.key_state import ENABLED
from lakeaudit.reconcile.protocol import CannotActSafely, Case, Proposal, Target, Undo, WriteIdentity
from lakeaudit.reconcile.steps import REVERSIBLE, Step


class HideLeftover(LeftoverAction):
    """See the module."""

    name = "hide_leftover"
    reversibility = REVERSIBLE
    undo = "remove the delete marker by its id, only while no newer version exists"
    risk = "low: the object stays as an older version until it is purged"

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`; with those of `reconcile purge`."""
        if lake.quarantine is not None:
            yield from changed_files("HideUnusedFiles", lake, (DELETE, DELETE_VERSION, LIFECYCLE))

    def propose(self, case: Case, state: LeftoverState) -> Proposal | str:
        """Propose if the bucket keeps versions."""
        why = leftovers.why_not_now(case, state)
        if why is not None or state.current is None:
            return why or ""
        if state.versioning != ENABLED:
            return f"versioning of its bucket is {state.versioning.lower() or 'off'}"
        known = leftovers.recorded(state.current.head) | leftovers.twin_of(case.row)
        return Proposal(known, leftovers.PROOF)

    def still_holds(self, step: Step, state: LeftoverState) -> bool:
        """Return whether the object is unchanged, and the bucket still keeps versions."""
        return state.versioning == ENABLED and leftovers.is_as_planned(step, state)

    def act(self, step: Step, target: Target) -> str | None:
        """Delete the object without a version id, which writes a marker."""
        if DELETE_IF_MATCH not in target.forms.honoured(target.bucket):
            raise CannotActSafely("the store does not honour If-Match of DeleteObject")
        leftovers.require_twin(step, target)
        etag = f'"{step.precondition["etag"]}"'
        return target.s3.delete_object(Bucket=target.bucket, Key=target.key, IfMatch=etag).get("VersionId")

    def outcome(self, step: Step, state: LeftoverState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if one marker hides the version."""
        versions = state.versions
        if versions is None or versions.marker_id is None:
            return None
        version = versions.version(step.precondition["version_id"])
        if version is None or not versions.history.is_beneath_marker(version):
            return None
        return {"delete_marker": versions.marker_id, "version_id": version.version_id}

    def may_undo(self, step: Step, undo: Undo, state: LeftoverState) -> bool:
        """Return whether the same marker hides the version."""
        return self.outcome(step, state, None) == undo

    def take_back(self, undo: Undo, target: Target) -> str | None:
        """Remove the marker."""
        marker = undo["delete_marker"]
        target.s3.delete_object(Bucket=target.bucket, Key=target.key, VersionId=marker)
        return None

    def is_undone(self, step: Step, undo: Undo, state: LeftoverState) -> bool:
        """Return whether the marker is gone, and readers get the version or a newer one."""
        if state.current is None or state.versions is None:
            return False
        version, versions = step.precondition["version_id"], state.versions.history
        marked = any(each.version_id == undo["delete_marker"] for each in versions.versions)
        return state.current.head.version_id == version or (versions.whole and not marked)

    def misplaced(self, step: Step, state: LeftoverState, identity: WriteIdentity) -> str | None:
        """Return the marker if it hides another version than the planned one."""
        if identity.undoing or state.versions is None:
            return None
        return marker_over_another(state.versions, step.precondition["version_id"], identity)
