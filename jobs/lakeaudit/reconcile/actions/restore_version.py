"""Write the older version that is the file the table lists back as a new one, only where the key is still absent."""

from lakeaudit.reconcile.conditional_copies import Source, write_where_absent
from lakeaudit.reconcile.copying import cannot_be_copied
from lakeaudit.reconcile.key_state import KeyState
from lakeaudit.reconcile.matching import (
    absent_over,
    is_absent_over,
    is_there,
    matching_version,
)
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo
from lakeaudit.reconcile.restoring import WritingVersion, is_as_written, written_object
from lakeaudit.reconcile.steps import REVERSIBLE, Step


class RestoreVersion(WritingVersion):
    """See the module."""

    name = "restore_version"
    reversibility = REVERSIBLE
    undo = "delete the version that was written, by its id, only while the older one is there"
    risk = "low: a new version is written, only where there is no object"

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
        """Still absent, and the version still there and not in an archive."""
        wanted = step.precondition
        return is_absent_over(wanted, state) and not state.unreadable(wanted["version_id"])

    def act(self, step: Step, target: Target) -> str | None:
        """As a new version, on the condition that there is no object."""
        wanted = step.precondition
        source = Source(target.bucket, target.key, wanted["size"], wanted["etag"], wanted["version_id"])
        return write_where_absent(target, source)

    def outcome(self, step: Step, state: KeyState, written: str | None) -> Undo | None:
        """There is a new object: the one that was written, or one of the same size and ETag."""
        current = state.current
        if current is None or current.version_id == step.precondition["version_id"]:
            return None
        return written_object(step, current, written)

    def may_undo(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """What was written is current, and the version that it is a copy of is still there."""
        source = state.version(step.precondition["version_id"])
        return is_as_written(undo, state) and is_there(step.precondition, source)

    def is_undone(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """The same marker is on top, and what was written is gone."""
        return is_absent_over(step.precondition, state) and state.version(undo["version_id"]) is None
