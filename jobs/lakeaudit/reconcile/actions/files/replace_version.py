"""Overwrite a wrong object with the older version that the table lists, while the wrong object is current.

The wrong object stays as an older version, so that nothing is lost and the undo can delete the written version.
"""

from lakeaudit.reconcile.actions.files.restoring import WritingVersion, is_as_written, written_object
from lakeaudit.reconcile.conditional_copies import Source, write_over
from lakeaudit.reconcile.copying import cannot_be_copied
from lakeaudit.reconcile.execution.misplaced_versions import lies_over, object_over_another
from lakeaudit.reconcile.key_state import ENABLED, KeyState
from lakeaudit.reconcile.plans.matching import is_there, version_to_replace_with
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo, WriteIdentity
from lakeaudit.reconcile.steps import REVERSIBLE, Step


class ReplaceVersion(WritingVersion):
    """See the module."""

    name = "replace_version"
    reversibility = REVERSIBLE
    undo = "delete the written version by its id, only while the replaced version exists"
    risk = "low: a new version is written; the wrong one stays as an older version"

    def propose(self, case: Case, state: KeyState) -> Proposal | str:
        """Propose if another version matches the record, and the object does not."""
        match = version_to_replace_with(case.restore_target, state)
        if isinstance(match, str) or state.current is None:
            return str(match)
        version, matched_by = match
        if why := cannot_be_copied(version.size, version.etag):
            return why
        wrong = state.current
        replaced = {"version_id": wrong.version_id, "size": wrong.size, "etag": wrong.etag}
        right = {"version_id": version.version_id, "size": version.size, "etag": version.etag}
        return Proposal({"state": "another version", "replaced": replaced, **right}, matched_by)

    def still_holds(self, step: Step, state: KeyState) -> bool:
        """Return whether the wrong version is current, and the right one can be read."""
        return self._is_unchanged(step, state) and not state.unreadable(step.precondition["version_id"])

    def _is_unchanged(self, step: Step, state: KeyState) -> bool:
        seen = step.precondition
        return (
            state.versioning == ENABLED
            and state.current is not None
            and state.current.version_id == seen["replaced"]["version_id"]
            and is_there(seen["replaced"], state.current)
            and is_there(seen, state.version(seen["version_id"]))
        )

    def act(self, step: Step, target: Target) -> str | None:
        """Write a new version on the condition that the object has the wrong one's ETag."""
        right = step.precondition
        source = Source(target.bucket, target.key, right["size"], right["etag"], right["version_id"])
        return write_over(target, source, right["replaced"]["etag"])

    def outcome(self, step: Step, state: KeyState, written: str | None) -> Undo | None:
        """Return the undo if the version after the wrong one is the written one, or has its size and ETag."""
        current, seen = state.current, step.precondition
        if current is None or current.version_id in (seen["version_id"], seen["replaced"]["version_id"]):
            return None
        if not lies_over(state, seen["replaced"]["version_id"]):
            return None
        return written_object(step, current, written)

    def may_undo(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """Return whether the written version is current, and both its source and the replaced version exist."""
        seen = step.precondition
        return (
            is_as_written(undo, state)
            and is_there(seen, state.version(seen["version_id"]))
            and is_there(seen["replaced"], state.version(seen["replaced"]["version_id"]))
        )

    def is_undone(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """Return whether the replaced version is current again, and the written one is gone."""
        return self._is_unchanged(step, state) and state.version(undo["version_id"]) is None

    def misplaced(self, step: Step, state: KeyState, identity: WriteIdentity) -> str | None:
        """Return the written version if the version beneath it is not the wrong one."""
        seen = step.precondition
        if identity.undoing:
            return None
        return object_over_another(
            state, seen["replaced"]["version_id"], seen["size"], seen["etag"], identity
        )
