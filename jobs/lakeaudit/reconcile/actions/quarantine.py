"""Move a leftover from a bucket that keeps no versions to the quarantine: copied, verified, then deleted by If-Match.

The copy lies at the plan's id, the bucket and the key, where nobody else writes. The file is deleted from its place
only where the store honours the conditions of the delete and of the way back, and the copy holds the same bytes. Only
an ETag and a time identify it there, so that its time is looked at once more right before the delete.
"""

from lakeaudit.keys import Location
from lakeaudit.reconcile import leftovers
from lakeaudit.reconcile.canary import DELETE_IF_MATCH
from lakeaudit.reconcile.copying import Copying, cannot_be_copied, found
from lakeaudit.reconcile.leftovers import LeftoverAction, Seen, is_unchanged, same_bytes
from lakeaudit.reconcile.protocol import Case, MetSomebody, NotProved, Proposal, Target, Undo
from lakeaudit.reconcile.steps import COMPENSABLE, Step


class Quarantine(LeftoverAction):
    """See the module."""

    name = "quarantine"
    reversibility = COMPENSABLE
    undo = "copy it back from the quarantine, only where nothing is"
    risk = "low: a verified copy stays in the quarantine until it is purged"

    def propose(self, case: Case, state: Seen) -> Proposal | str:
        """Where the bucket keeps no versions, and something tells whether a copy is one."""
        why = leftovers.why_not_now(case, state)
        if why is not None or state.current is None:
            return why or ""
        if state.versioning:
            return f"versioning of its bucket is {state.versioning.lower()}"
        head = state.current.head
        if head.checksum is None and not leftovers.tells_bytes(head.etag, head.encryption):
            return (
                "nothing would tell whether its copy holds the same bytes: no checksum, and its ETag is none"
            )
        if why := cannot_be_copied(head.size, head.etag):
            return why
        if state.place is None:
            return "the quarantine is at another endpoint: no copy on the server's side goes there"
        if len(state.place.key.encode()) > leftovers.LONGEST:
            return "its key is too long for the quarantine"
        known = leftovers.recorded(head) | leftovers.twin_of(case.row)
        return Proposal({**known, "copy": state.place.uri}, leftovers.PROOF)

    def still_holds(self, step: Step, state: Seen) -> bool:
        """The same object, in a bucket that still keeps no versions."""
        return not state.versioning and leftovers.is_as_planned(step, state)

    def act(self, step: Step, target: Target) -> str | None:
        """Copy it unless that was done, verify the copy, and delete it."""
        known, place = step.precondition, Location.parse(step.precondition["copy"])
        forms = target.forms.proved(target.bucket)
        if DELETE_IF_MATCH not in forms:
            raise NotProved("the store does not honour If-Match of DeleteObject")
        copying = Copying(target.s3, Location(target.bucket, target.key), known["etag"], place)
        if why := copying.unsafe(forms):
            raise NotProved(f"it could not be put back: {why}")
        if found(target.s3, place) is None:
            honoured = copying.is_conditional(target.forms.proved(place.bucket))
            copying.copy({"IfNoneMatch": "*"} if honoured else {})
        copy = found(target.s3, place)
        same = None if copy is None else same_bytes(known, copy)
        if not same:
            told = "nobody can tell whether its copy holds" if same is None else "its copy does not hold"
            raise NotProved(f"{told} the same bytes: it stays where it is")
        leftovers.require_twin(step, target)
        if not is_unchanged(known, found(target.s3, Location(target.bucket, target.key))):
            raise MetSomebody
        target.require_lease()
        target.s3.delete_object(Bucket=target.bucket, Key=target.key, IfMatch=f'"{known["etag"]}"')
        return None

    def outcome(self, step: Step, state: Seen, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Nothing is at the key, and the copy is in the quarantine."""
        copy = state.copy
        if state.current is not None or copy is None or not same_bytes(step.precondition, copy.head):
            return None
        return {"copy": step.precondition["copy"], **leftovers.recorded(copy.head)}

    def may_undo(self, step: Step, undo: Undo, state: Seen) -> bool:
        """Nothing is at the key, and the copy is as it was left."""
        return self.outcome(step, state, None) == undo

    def take_back(self, undo: Undo, target: Target) -> None:
        """Copy it back, only where nothing is. The copy stays until it is purged."""
        back = Location(target.bucket, target.key)
        forms = target.forms.proved(target.bucket)
        Copying(target.s3, Location.parse(undo["copy"]), undo["etag"], back).where_absent(forms)

    def is_undone(self, step: Step, undo: Undo, state: Seen) -> bool:  # noqa: ARG002 - the protocol's
        """The same bytes are at the key again."""
        return state.current is not None and bool(same_bytes(step.precondition, state.current.head))
