"""Write the older version that is the file the table lists back as a new one, only where the key is still absent."""

from lakeaudit.reconcile.conditional_copies import Source, cannot_be_copied, write_where_absent
from lakeaudit.reconcile.key_state import ENABLED, KeyState
from lakeaudit.reconcile.matching import (
    absent_over,
    is_absent_over,
    is_there,
    listed_for,
    matching_version,
    on_purpose,
)
from lakeaudit.reconcile.need import Need
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo, versions_of
from lakeaudit.reconcile.steps import REVERSIBLE, Step


class RestoreVersion:
    """See the module."""

    name = "restore_version"
    reversibility = REVERSIBLE
    undo = "delete the version that was written, by its id, only while the older one is there"
    risk = "low: a new version is written, only where there is no object"

    look = staticmethod(versions_of)

    def need(self, step: Step) -> Need:
        """The table lists the file."""
        return listed_for(step)

    def refuses(self, case: Case) -> str | None:
        """Where it may have been erased on purpose."""
        return on_purpose(case)

    def propose(self, case: Case, state: KeyState) -> Proposal | str:
        """Where a version matches and one request can copy it."""
        found = matching_version(case.wanted, state)
        if isinstance(found, str):
            return found
        version, matched_by = found
        if why := cannot_be_copied(version.size, version.etag):
            return why
        return absent_over(version, matched_by, state)

    def still_holds(self, step: Step, state: KeyState) -> bool:
        """Still absent, and the version still there."""
        return is_absent_over(step.precondition, state)

    def act(self, step: Step, target: Target) -> str | None:
        """As a new version, on the condition that there is no object."""
        wanted = step.precondition
        source = Source(target.bucket, target.key, wanted["size"], wanted["version_id"], wanted["etag"])
        return write_where_absent(target, source)

    def outcome(self, step: Step, state: KeyState, written: str | None) -> Undo | None:
        """There is a new object: the one that was written, or one of the same size and ETag."""
        current = state.current
        if current is None or current.version_id == step.precondition["version_id"]:
            return None
        is_ours = current.version_id == written and current.size == step.precondition["size"]
        if not is_ours and not is_there(step.precondition, current):
            return None
        return {"version_id": current.version_id, "size": current.size, "etag": current.etag}

    def may_undo(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """What was written is current, and the version that it is a copy of is still there."""
        current, source = state.current, state.version(step.precondition["version_id"])
        return (
            state.versioning == ENABLED
            and current is not None
            and current.version_id == undo["version_id"]
            and is_there(undo, current)
            and is_there(step.precondition, source)
        )

    def take_back(self, undo: Undo, target: Target) -> None:
        """Delete what was written, by its id."""
        target.s3.delete_object(Bucket=target.bucket, Key=target.key, VersionId=undo["version_id"])

    def is_undone(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """The same marker is on top, and what was written is gone."""
        return is_absent_over(step.precondition, state) and state.version(undo["version_id"]) is None
