"""Restore the older version that is the file the table lists, as a new version, if the key is still absent."""

from lakeaudit.reconcile.actions.files.restoring import WritingVersion, is_as_written, written_object
from lakeaudit.reconcile.conditional_copies import Source, write_where_absent
from lakeaudit.reconcile.copying import cannot_be_copied
from lakeaudit.reconcile.key_state import KeyState
from lakeaudit.reconcile.plans.matching import (
    absent_over,
    is_absent_over,
    is_there,
    matching_version,
)
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo
from lakeaudit.reconcile.steps import REVERSIBLE, Step


class RestoreVersion(WritingVersion):
    """See the module."""

    name = "restore_version"
    reversibility = REVERSIBLE
    undo = "delete the written version by its id, only while the older one exists"
    risk = "low: a new version is written only if there is no object"

    def propose(self, case: Case, state: KeyState) -> Proposal | str:
        """Propose if a version matches and can be copied."""
        match = matching_version(case.restore_target, state)
        if isinstance(match, str):
            return match
        version, matched_by = match
        if why := cannot_be_copied(version.size, version.etag):
            return why
        return absent_over(version, matched_by, state)

    def still_holds(self, step: Step, state: KeyState) -> bool:
        """Return whether the file is still absent, and the version can still be read."""
        planned = step.precondition
        return is_absent_over(planned, state) and not state.unreadable(planned["version_id"])

    def act(self, step: Step, target: Target) -> str | None:
        """Write a new version on the condition that there is no object."""
        planned = step.precondition
        source = Source(target.bucket, target.key, planned["size"], planned["etag"], planned["version_id"])
        return write_where_absent(target, source)

    def outcome(self, step: Step, state: KeyState, written: str | None) -> Undo | None:
        """Return the undo if there is a new object: the written one, or one of the same size and ETag."""
        current = state.current
        if current is None or current.version_id == step.precondition["version_id"]:
            return None
        return written_object(step, current, written)

    def may_undo(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """Return whether the written version is current, and its source still exists."""
        source = state.version(step.precondition["version_id"])
        return is_as_written(undo, state) and is_there(step.precondition, source)

    def is_undone(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """Return whether the previous marker is current, and the written version is gone."""
        return is_absent_over(step.precondition, state) and state.version(undo["version_id"]) is None
