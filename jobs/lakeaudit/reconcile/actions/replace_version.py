"""Write the older version that the table lists over the wrong object, only while that one is current.

The wrong object stays as an older version, so that nothing is lost and the undo is to delete what was written.
"""

from lakeaudit.reconcile.conditional_copies import Source, cannot_be_copied, write_over
from lakeaudit.reconcile.key_state import ENABLED, KeyState
from lakeaudit.reconcile.matching import is_there, listed_for, on_purpose, version_to_replace_with
from lakeaudit.reconcile.need import Need
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo, versions_of
from lakeaudit.reconcile.steps import REVERSIBLE, Step


class ReplaceVersion:
    """See the module."""

    name = "replace_version"
    reversibility = REVERSIBLE
    undo = "delete the version that was written, by its id, only while the one that it replaced is there"
    risk = "low: a new version is written over the wrong one, which stays as an older version"

    look = staticmethod(versions_of)

    def need(self, step: Step) -> Need:
        """The table lists the file."""
        return listed_for(step)

    def refuses(self, case: Case) -> str | None:
        """Where it may have been overwritten on purpose."""
        return on_purpose(case)

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
        """The wrong version is current, and the right one is there."""
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
        source = Source(target.bucket, target.key, wanted["size"], wanted["version_id"], wanted["etag"])
        return write_over(target, source, wanted["replaced"]["etag"])

    def outcome(self, step: Step, state: KeyState, written: str | None) -> Undo | None:
        """A new version is current: the one that was written, or one of the same size and ETag."""
        current, seen = state.current, step.precondition
        if current is None or current.version_id in (seen["version_id"], seen["replaced"]["version_id"]):
            return None
        is_ours = current.version_id == written and current.size == seen["size"]
        if not is_ours and not is_there(seen, current):
            return None
        return {"version_id": current.version_id, "size": current.size, "etag": current.etag}

    def may_undo(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """What was written is current, and both it is a copy of and what it replaced are there."""
        current, seen = state.current, step.precondition
        return (
            state.versioning == ENABLED
            and current is not None
            and current.version_id == undo["version_id"]
            and is_there(undo, current)
            and is_there(seen, state.version(seen["version_id"]))
            and is_there(seen["replaced"], state.version(seen["replaced"]["version_id"]))
        )

    def take_back(self, undo: Undo, target: Target) -> None:
        """Delete what was written, by its id."""
        target.s3.delete_object(Bucket=target.bucket, Key=target.key, VersionId=undo["version_id"])

    def is_undone(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """The version that was replaced is current again, and what was written is gone."""
        return self.still_holds(step, state) and state.version(undo["version_id"]) is None
