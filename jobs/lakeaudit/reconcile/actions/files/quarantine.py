"""Move an unused file from a bucket without versioning to the quarantine: copy, verify, then delete with If-Match.

The copy is stored under the plan's id, the bucket and the key, where no other job writes. The file is deleted only if
the store honours the conditions of the delete and of the copy back, and the copy contains the same bytes. Only an ETag
and a time identify the file, so its time is read once more immediately before the delete.
"""

from collections.abc import Iterator

from lakeaudit.config import Lake
from lakeaudit.grants import (
    ABORT,
    DELETE,
    DELETE_VERSION,
    GET,
    GET_TAGS,
    LIFECYCLE,
    LIST,
    PUT,
    PUT_TAGS,
    Grant,
    S3Grant,
)
from lakeaudit.keys import Location
from lakeaudit.reconcile.actions.files import leftovers
from lakeaudit.reconcile.actions.files.leftovers import (
    LeftoverAction,
    LeftoverState,
    is_unchanged,
    same_bytes,
)
from lakeaudit.reconcile.canary import DELETE_IF_MATCH, canary_grants, changed_files
from lakeaudit.reconcile.copying import Copying, cannot_be_copied, head_or_none
from lakeaudit.reconcile.protocol import CannotActSafely, Case, ConcurrentChange, Proposal, Target, Undo
from lakeaudit.reconcile.steps import COMPENSABLE, Step


class Quarantine(LeftoverAction):
    """See the module."""

    name = "quarantine"
    reversibility = COMPENSABLE
    undo = "copy it back from the quarantine, only if there is no object"
    risk = "low: a verified copy stays in the quarantine until it is purged"

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`; with those of `reconcile purge`."""
        if lake.quarantine is None:
            return
        copies = (GET_TAGS, PUT, PUT_TAGS, DELETE, ABORT)
        yield from changed_files("MoveUnusedFiles", lake, copies)
        place, kept = lake.quarantine.location, (GET, LIST, DELETE_VERSION, LIFECYCLE)
        quarantined = S3Grant("KeepQuarantine", place, (*copies, *kept))
        yield from (quarantined, *canary_grants(lake, [quarantined]))

    def propose(self, case: Case, state: LeftoverState) -> Proposal | str:
        """Propose if the bucket keeps no versions, and a copy can be verified."""
        why = leftovers.why_not_now(case, state)
        if why is not None or state.current is None:
            return why or ""
        if state.versioning:
            return f"versioning of its bucket is {state.versioning.lower()}"
        head = state.current.head
        if head.checksum is None and not leftovers.tells_bytes(head.etag, head.encryption):
            return "a copy could not be verified: the object has no checksum, and its ETag does not identify its bytes"
        if why := cannot_be_copied(head.size, head.etag):
            return why
        if state.place is None:
            return "the quarantine is at another endpoint: the server cannot copy to it"
        if len(state.place.key.encode()) > leftovers.LONGEST:
            return "its key is too long for the quarantine"
        known = leftovers.recorded(head) | leftovers.twin_of(case.row)
        return Proposal({**known, "copy": state.place.uri}, leftovers.PROOF)

    def still_holds(self, step: Step, state: LeftoverState) -> bool:
        """Return whether the object is unchanged, and the bucket still keeps no versions."""
        return not state.versioning and leftovers.is_as_planned(step, state)

    def act(self, step: Step, target: Target) -> str | None:
        """Copy the file unless that was done, verify the copy, and delete the file."""
        known, place = step.precondition, Location.parse(step.precondition["copy"])
        forms = target.forms.honoured(target.bucket)
        if DELETE_IF_MATCH not in forms:
            raise CannotActSafely("the store does not honour If-Match of DeleteObject")
        copying = Copying(target.s3, Location(target.bucket, target.key), known["etag"], place)
        if why := copying.unsafe(forms):
            raise CannotActSafely(f"it could not be copied back: {why}")
        if head_or_none(target.s3, place) is None:
            honoured = copying.is_conditional(target.forms.honoured(place.bucket))
            copying.copy({"IfNoneMatch": "*"} if honoured else {})
        copy = head_or_none(target.s3, place)
        same = None if copy is None else same_bytes(known, copy)
        if not same:
            what = (
                "its copy cannot be verified" if same is None else "its copy does not contain the same bytes"
            )
            raise CannotActSafely(f"{what}: it stays where it is")
        leftovers.require_twin(step, target)
        if not is_unchanged(known, head_or_none(target.s3, Location(target.bucket, target.key))):
            raise ConcurrentChange
        target.require_lease()
        target.s3.delete_object(Bucket=target.bucket, Key=target.key, IfMatch=f'"{known["etag"]}"')
        return None

    def outcome(self, step: Step, state: LeftoverState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if the key has no object, and the copy is in the quarantine."""
        copy = state.copy
        if state.current is not None or copy is None or not same_bytes(step.precondition, copy.head):
            return None
        return {"copy": step.precondition["copy"], **leftovers.recorded(copy.head)}

    def may_undo(self, step: Step, undo: Undo, state: LeftoverState) -> bool:
        """Return whether the key has no object, and the copy is unchanged."""
        return self.outcome(step, state, None) == undo

    def take_back(self, undo: Undo, target: Target) -> None:
        """Copy the file back if there is no object. The copy stays until it is purged."""
        back = Location(target.bucket, target.key)
        forms = target.forms.honoured(target.bucket)
        Copying(target.s3, Location.parse(undo["copy"]), undo["etag"], back).where_absent(forms)

    def is_undone(self, step: Step, undo: Undo, state: LeftoverState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether the key has the same bytes again."""
        return state.current is not None and bool(same_bytes(step.precondition, state.current.head))
