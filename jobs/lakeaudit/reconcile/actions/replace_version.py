"""Write the older version that the table lists over the wrong object, only while that one is current.

The wrong object stays as an older version, so that nothing is lost and the undo is to delete what was written.
"""

from lakeaudit.reconcile.conditional_copies import Source, write_over
from lakeaudit.reconcile.copying import cannot_be_copied
from lakeaudit.reconcile.key_state import ENABLED, KeyState
from lakeaudit.reconcile.matching import is_there, version_to_replace_with
from lakeaudit.reconcile.misplaced import lies_over, object_over_another
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Trace, Undo
from lakeaudit.reconcile.restoring import WritingVersion, is_as_written, written_object
from lakeaudit.reconcile.steps import REVERSIBLE, Step


class ReplaceVersion(WritingVersion):
    """See the module."""

    name = "replace_version"
    reversibility = REVERSIBLE
    undo = "delete the version that was written, by its id, only while the one that it replaced is there"
    risk = "low: a new version is written over the wrong one, which stays as an older version"

    def propose(self, case: Case, state: KeyState) -> Proposal | str:
        """Where another version has what was recorded, and the object has not."""
        found = version_to_replace_with(case.wanted, state)
        if isinstance(found, str) or state.current is None:
            return str(found)
        version, matched_by = found
        if why := cannot_be_copied(version.size, version.etag):
            return why
        wrong = state.current
        replaced = {"version_id": wrong.version_id, "size": wrong.size, "etag": wrong.etag}
        told = {"version_id": version.version_id, "size": version.size, "etag": version.etag}
        return Proposal({"state": "another version", "replaced": replaced, **told}, matched_by)

    def still_holds(self, step: Step, state: KeyState) -> bool:
        """The wrong version is current, and the right one is there and not in an archive."""
        return self._is_as_seen(step, state) and not state.unreadable(step.precondition["version_id"])

    def _is_as_seen(self, step: Step, state: KeyState) -> bool:
        seen = step.precondition
        return (
            state.versioning == ENABLED
            and state.current is not None
            and state.current.version_id == seen["replaced"]["version_id"]
            and is_there(seen["replaced"], state.current)
            and is_there(seen, state.version(seen["version_id"]))
        )

    def act(self, step: Step, target: Target) -> str | None:
        """As a new version, on the condition that the object has the wrong one's ETag."""
        wanted = step.precondition
        source = Source(target.bucket, target.key, wanted["size"], wanted["etag"], wanted["version_id"])
        return write_over(target, source, wanted["replaced"]["etag"])

    def outcome(self, step: Step, state: KeyState, written: str | None) -> Undo | None:
        """A new version lies over the wrong one: the one that was written, or one of the same size and ETag."""
        current, seen = state.current, step.precondition
        if current is None or current.version_id in (seen["version_id"], seen["replaced"]["version_id"]):
            return None
        if not lies_over(state, seen["replaced"]["version_id"]):
            return None
        return written_object(step, current, written)

    def may_undo(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """What was written is current, and both it is a copy of and what it replaced are there."""
        seen = step.precondition
        return (
            is_as_written(undo, state)
            and is_there(seen, state.version(seen["version_id"]))
            and is_there(seen["replaced"], state.version(seen["replaced"]["version_id"]))
        )

    def is_undone(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """The version that was replaced is current again, and what was written is gone."""
        return self._is_as_seen(step, state) and state.version(undo["version_id"]) is None

    def misplaced(self, step: Step, state: KeyState, trace: Trace) -> str | None:
        """What was written, where it lies over another version than the wrong one."""
        seen = step.precondition
        if trace.undoing:
            return None
        return object_over_another(state, seen["replaced"]["version_id"], seen["size"], seen["etag"], trace)
